"""Lines of a sweep: ``python plots/sweep_lines.py TABLE --x COLUMN --y COLUMN [--by COLUMN] -o FIGURE.svg``."""

from archsim.report.script import of_table

if __name__ == "__main__":
    raise SystemExit(of_table("lines"))
