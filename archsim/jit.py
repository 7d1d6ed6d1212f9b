"""Numba made ready for kernels at less cost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np

#: What numba imports to learn whether there is a linear algebra library.
_BLAS = "scipy.linalg.cython_blas"


@cache
def warm_up() -> None:
    """Load numba's own functions, as the first kernel would, but not SciPy's linear algebra.

    Numba imports :mod:`scipy.linalg` only to see that it is there; that takes as long as all of numba. So a placeholder
    stands for it meanwhile where SciPy is installed. A kernel with ``np.dot`` imports the real one when it is compiled
    or first called.
    """
    from numba import config
    from numba.core.registry import cpu_target

    if config.DISABLE_JIT:
        return
    stand_in = _BLAS not in sys.modules and find_spec("scipy") is not None
    if stand_in:
        sys.modules[_BLAS] = ModuleType(_BLAS)
    try:
        cpu_target.target_context.refresh()
    finally:
        if stand_in:
            del sys.modules[_BLAS]


def record_type(names: Iterable[str]) -> np.dtype:
    """Type of a record of int64 fields, which kernels take as one argument and read by name."""
    from numba import config

    kind = np.dtype([(name, np.int64) for name in names], align=True)
    # numba tells the type of plain records sooner; only NumPy's own have fields by name where Python runs the kernels
    return np.dtype((np.record, kind)) if config.DISABLE_JIT else kind


def callee(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that kernels call: it is compiled into them, and runs as written where Python calls it.

    Unlike a kernel (``njit``) it gets no entries for Python and C of its own, which take longer to compile than most
    such functions, and one version serves constants and variables. It is cached with the kernels that call it.
    """
    return _called(function)


def borrower(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a callee that borrows the arrays it gets, and neither makes nor returns any: references are not counted.

    Numba counts references at each call that it does not inline, with atomic instructions; in functions that run for
    tens of nanoseconds these are a fifth of the time.
    """
    return _called(function, _nrt=False)


def _called(function: Callable[..., Any], **options: bool) -> Callable[..., Any]:
    from numba.extending import register_jitable

    return register_jitable(no_cfunc_wrapper=True, **options)(function)
