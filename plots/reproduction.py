"""Published against simulated: ``python plots/reproduction.py TABLE -o FIGURE.svg``."""

from archsim.report.script import of_table

if __name__ == "__main__":
    raise SystemExit(of_table("reproduction"))
