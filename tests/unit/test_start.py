"""What a process that simulates one run loads, and that what it leaves out still works."""

from __future__ import annotations

import subprocess
import sys

from archsim.bench.runs import SMALLEST

RUN = f"""
import os, sys

def leave(code):  # how the command line ends
    unwanted = ("matplotlib", "pandas", "pint", "pyarrow", "scipy.linalg")
    extra = {{name for name in unwanted if name in sys.modules}}
    extra |= {{name for name in sys.modules if name.startswith(("archsim.report.answers", "archsim.report.figures"))}}
    print(code, sorted(extra), file=sys.stderr)
    sys.stderr.flush()
    left(code)

left, os._exit = os._exit, leave
sys.argv = ["archsim", *{SMALLEST!r}]
from archsim.cli import main
main()
"""
DOT = """
import sys
import numpy as np
from numba import njit
from archsim.jit import warm_up
warm_up()
before = "scipy.linalg.cython_blas" in sys.modules
kernel = njit(lambda a, b: np.dot(a, b))
print(before, kernel(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))[0, 0])
import scipy.linalg
print(hasattr(sys.modules["scipy.linalg.cython_blas"], "__pyx_capi__"))
"""


def test_a_run_without_a_trace_loads_no_library_that_it_does_not_use():
    found = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=True)
    assert found.stderr.splitlines()[-1] == "0 []"


def test_a_kernel_with_linear_algebra_compiles_after_the_warm_up():
    found = subprocess.run([sys.executable, "-c", DOT], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "11.0", "True"]
