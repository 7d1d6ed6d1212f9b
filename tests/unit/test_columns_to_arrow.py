"""Columns of numbers, switches and text as Arrow arrays."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from archsim.trace.runfolder import _to_arrow

COLUMNS = [
    np.arange(11),
    np.arange(20)[::2],
    np.array([True, False, True] * 5),
    np.array(["a", "é", "", "xyz"]),
    np.array([], dtype="U1"),
    np.linspace(0, 1, 7),
    np.array([1, -2], np.int8),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: f"{column.dtype}-{len(column)}")
def test_a_column_keeps_its_values(column):
    made = _to_arrow(column)
    made.validate(full=True)
    assert made.to_pylist() == column.tolist()


def test_a_column_is_made_without_pandas():
    code = (
        "import sys\nimport numpy as np\nfrom archsim.trace.runfolder import _to_arrow\n"
        "for column in (np.arange(3), np.array([True]), np.array(['a'])):\n    _to_arrow(column)\n"
        "print('pandas' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
