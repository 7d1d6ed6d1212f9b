"""A field of a model that is there and holds nothing, among others that are wrong as well; names of any length."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from archsim.config import InputError, check_file
from archsim.config.resolve import resolve_model

SHIPPED = Path(__file__).parents[2] / "arch_configs/models/opt-1.3b.yaml"


@pytest.mark.parametrize("field", ["quant", "layers", "activation"])
def test_nothing_is_named(tmp_path, field):
    path = tmp_path / "opt.yaml"
    text, changed = re.subn(rf"(?m)^  {field}:.*\n(    .*\n)*", f"  {field}: null\n", SHIPPED.read_text())
    assert changed == 1
    path.write_text(text.replace("name: opt-1.3b", "name: opt"))
    with pytest.raises(InputError, match=rf"opt\.yaml:\d+: spec\.{field}: nothing should be "):
        resolve_model(str(path), ())


def test_a_long_name_is_shortened(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text(f"kind: run\nname: r\nsystem: oneplus_12\nschedule: {'x' * 5000}\njob: {{}}\n")
    (problem,) = check_file(path)
    assert problem.startswith(f"{path}:4: schedule: expected a mapping, not 'xxx")
    assert len(problem) < 300 + len(str(path))
