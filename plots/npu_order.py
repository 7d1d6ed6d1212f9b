"""Static graphs by order of the operands: ``python plots/npu_order.py npu_order.csv -o FIGURE.svg``."""

from archsim.report.script import of_kernels

if __name__ == "__main__":
    raise SystemExit(of_kernels("columns"))
