"""Sensitivities, from archsim explain --sensitivity --json: ``python plots/tornado.py TABLE -o FIGURE.svg``."""

from archsim.report.script import of_table

if __name__ == "__main__":
    raise SystemExit(of_table("tornado"))
