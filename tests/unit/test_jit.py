"""Functions compiled into kernels, and operators as the records that kernels take."""

import numpy as np
from numba import njit

from archsim import kernel_sources
from archsim.device import Ops, make_ops
from archsim.jit import callee, record_type
from archsim.lowering import operator, records


@callee
def weighed(op, weight):
    return op.m * weight + op.k


@njit
def total(ops, weight):
    found = 0
    for i in range(ops.size):
        found += weighed(ops[i], weight) + weighed(ops[i], 1)
    return found


OPS = make_ops([{"m": 3, "k": 5, "parts": 2}, {"m": 1 << 40, "n": 7}])


def test_a_kernel_and_python_get_the_same_from_a_function_that_kernels_call():
    by_python = sum(weighed(operator(OPS, i), weight) for i in range(2) for weight in (4, 1))
    assert total(records(OPS), 4) == by_python == 5 * ((1 << 40) + 3) + 10


def test_records_hold_the_columns_of_operators():
    table = records(OPS)
    for i in range(2):
        assert tuple(table[i].item()) == tuple(operator(OPS, i)) == tuple(int(column[i]) for column in OPS)
    assert records(make_ops([])).size == 0
    assert record_type(Ops._fields).names == Ops._fields
    assert record_type(("a", "b")).itemsize == 2 * np.dtype(np.int64).itemsize


def test_compiled_kernels_stay_in_use_when_a_report_changes():
    """What names the cache of kernels: kernels and what they import, not those who call them."""
    named = set(kernel_sources())
    assert {"engine/loop.py", "devices/npu/policies/chunks.py", "lowering.py", "report/path.py"} <= named
    assert not [path for path in named if path.split("/")[0] in ("commands", "session", "sweep", "trace", "workload")]
    assert {path for path in named if path.startswith(("report/", "bench/"))} == {"report/path.py", "bench/products.py"}
