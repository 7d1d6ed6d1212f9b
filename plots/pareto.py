"""Front of a sweep: ``python plots/pareto.py TABLE --x COLUMN --y COLUMN -o FIGURE.svg``."""

from archsim.report.script import of_table

if __name__ == "__main__":
    raise SystemExit(of_table("pareto"))
