"""Draw the address window figure of a run folder: ``python plots/window.py RUN -o FIGURE.svg``."""

from archsim.report.script import of_run

if __name__ == "__main__":
    raise SystemExit(of_run("window"))
