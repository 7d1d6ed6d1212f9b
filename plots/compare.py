"""Compare several runs: ``python plots/compare.py RUN RUN ... -o FIGURE.svg [--keys energy_j,ttft_s]``."""

from archsim.report.script import of_many

if __name__ == "__main__":
    raise SystemExit(of_many())
