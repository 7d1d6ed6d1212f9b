"""Operators of a measured row as the devices take them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from archsim.device import DType, Ops, make_ops
from archsim.devices.npu.alone import Shape, layer, matmul
from archsim.measurements.models import spec_of
from archsim.measurements.rows import OperatorCase
from archsim.npu_trace import MAX_BYTES, MAX_SIDE, SIZES, build_op
from archsim.workload.model import ModelSpec


class CannotSimulateError(Exception):
    """A row is none that this system can simulate; the text says why."""


class Work(NamedTuple):
    """Operators of one row, and what its value is made of.

    `repeat` is how often their time counts in it; below 1 it is a mean. `moved` and `macs` are bytes and
    multiply-accumulates of the value, `tokens` its rows.
    """

    ops: Ops
    repeat: float
    moved: int
    macs: int
    tokens: int


@lru_cache(maxsize=4096)
def work_of(case: OperatorCase) -> Work:
    """Operators of a row.

    Raises
    ------
    CannotSimulateError
        For sizes that no device takes.
    """
    if max(case.sizes) > MAX_SIDE:
        raise CannotSimulateError(f"a size of {max(case.sizes)} is above {MAX_SIDE}")
    try:
        ops, repeat = _ops(case)
    except OverflowError:
        raise CannotSimulateError("its sizes multiply to more than 64 bits hold") from None
    most = case.sizes[0] * int(ops.weight_bytes.max()) + int((ops.in_bytes + ops.out_bytes + ops.kv_bytes).max())
    if most > MAX_BYTES:
        raise CannotSimulateError(f"{most:,} bytes where rows go one by one, above {MAX_BYTES:,}")
    moved = (ops.weight_bytes + ops.in_bytes + ops.out_bytes + ops.kv_bytes).sum()
    return Work(ops, repeat, int(moved * repeat), int(ops.macs.sum() * repeat), case.sizes[0])


def _ops(case: OperatorCase) -> tuple[Ops, float]:
    """Columns of a row's operators, and how often their time counts."""
    if case.op in ("matrices", "layers"):
        entries, repeat = _of_model(case, spec_of(case.model))
        return make_ops(entries), repeat
    sizes = dict(zip(SIZES[case.op], case.sizes))
    return build_op(case.op, sizes, DType[case.dtype.upper()] if case.dtype else DType.FP16), 1.0


def _of_model(case: OperatorCase, spec: ModelSpec) -> tuple[list[dict[str, Any]], float]:
    """Operators of one layer, and how often they count."""
    m = case.sizes[0]
    if case.op == "matrices":
        entries = [
            matmul(m, one.k, one.n, DType[case.dtype.upper()] if case.dtype else spec.dtype_of(one.tensor_class))
            for one in spec.layer_matrices
        ]
        return entries, 1 / len(entries)
    if not spec.gated or spec.attn_input_mult != 1 or spec.head_dim != 128:
        raise CannotSimulateError(f"the layers of {case.model} are not of the kind that is put together here")
    shape = Shape(spec.layers, spec.hidden, spec.q_width, spec.kv_width, spec.ffn, spec.qk_norm)
    dtype = DType[case.dtype.upper()] if case.dtype else spec.dtype_of("attn_qkv")
    return layer(shape, m, case.sizes[1], dtype), float(spec.layers)


def seconds(lead_ps: np.ndarray, flow_ps: np.ndarray, work: Work, *, called: bool, start_ps: int) -> float:
    """Time of the value: leads (the calls) and flows; without the call, flows and the device's own start."""
    lead = float(lead_ps.sum()) if called else float(start_ps * len(work.ops.kind))
    return (lead + float(flow_ps.sum())) * work.repeat / 1e12
