"""Kernels over rows of a pass: ``python plots/npu_staircase.py npu_staircase.csv -o FIGURE.svg``."""

from archsim.report.script import of_kernels

if __name__ == "__main__":
    raise SystemExit(of_kernels("rows"))
