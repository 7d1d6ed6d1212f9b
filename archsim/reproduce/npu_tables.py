"""Tables of NPU kernels over row counts and operand orders: the data of two figures.

``python -m archsim.reproduce.npu_tables DIR`` writes ``npu_staircase.csv`` and ``npu_order.csv``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from archsim.devices.npu.alone import DType, devices_of, matmul, times_us
from archsim.report.tables import write_table
from archsim.reproduce.npu import BY_DMA, GRAPH

#: Fixed shapes of one graph for each tile of rows, as HeteroInfer's sweep has them.
EVERY_TILE = "system.npu.graph_rows=[" + ",".join(str(rows) for rows in range(32, 289, 32)) + "]"
Rows = list[dict[str, Any]]


def staircase(k: int = 4096, n: int = 4096, most: int = 160, step: int = 4) -> Rows:
    """Time (us) of a product over its rows, one column per kernel."""
    kernels = {
        "static_graph_us": devices_of("oneplus_12", *GRAPH, EVERY_TILE)["npu"],
        "ggml_hvx_us": devices_of("oneplus_12")["npu"],
        "ggml_hmx_v81_us": devices_of("oneplus_15", *BY_DMA, "system.npu.hmx_rows=5")["npu"],
    }
    rows = [1, *range(step, most + 1, step), *range(33, most, 32)]
    work = [matmul(m, k, n) for m in sorted(rows)]
    times = {name: times_us(npu, work) for name, npu in kernels.items()}
    return [{"rows": op["m"], **{name: float(times[name][i]) for name in kernels}} for i, op in enumerate(work)]


def orders(large: int = 14_336, k: int = 4096, most: int = 288, step: int = 32) -> Rows:
    """Time (us) of [large, k] x [k, columns] and of [columns, k] x [k, large] in a static graph."""
    shapes = f"system.npu.graph_rows=[{','.join(str(rows) for rows in range(32, most + 1, 32))},{large}]"
    npu = devices_of("oneplus_12", *GRAPH, shapes)["npu"]
    found = []
    for columns in range(step, most + 1, step):
        left, right = times_us(npu, [matmul(large, k, columns, DType.FP16), matmul(columns, k, large)])
        found.append({"columns": columns, "large_left_us": float(left), "large_right_us": float(right)})
    return found


def write(folder: Path) -> list[Path]:
    """Write both tables as CSV into `folder`."""
    tables = {"npu_staircase.csv": staircase(), "npu_order.csv": orders()}
    return [write_table(rows, folder / name) for name, rows in tables.items()]


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
