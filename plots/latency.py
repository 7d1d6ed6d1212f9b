"""Draw the latency figure of a run folder: ``python plots/latency.py RUN -o FIGURE.svg``."""

from archsim.report.script import of_run

if __name__ == "__main__":
    raise SystemExit(of_run("latency"))
