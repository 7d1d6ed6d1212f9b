"""Heat map of a sweep: ``python plots/sweep_heat.py TABLE --x COLUMN --y COLUMN --value COLUMN -o FIGURE.svg``."""

from archsim.report.script import of_table

if __name__ == "__main__":
    raise SystemExit(of_table("heat"))
