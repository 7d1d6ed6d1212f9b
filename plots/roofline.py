"""Draw the roofline figure of a run folder: ``python plots/roofline.py RUN -o FIGURE.svg``."""

from archsim.report.script import of_run

if __name__ == "__main__":
    raise SystemExit(of_run("roofline"))
