"""Files of measurements come from strangers: whatever is in one, it is read or refused in one line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archsim.config import InputError
from archsim.measurements.readers import known_formats, read_measurements
from archsim.measurements.rows import DIMENSIONS
from archsim.streams.opening import packed_traces

SAMPLES = sorted(path for path in (packed_traces() / "measurements").iterdir() if path.suffix != ".md")
#: What a stranger might put in place of something.
BITS = (
    b"",
    b"-1",
    b"0",
    b"1e999",
    b"NaN",
    b"null",
    b"[]",
    b"{}",
    b'"',
    b",",
    b":",
    b"|",
    b"x",
    b"\xff",
    b"\0",
    b"9" * 400,
)


def check(file, style):
    refused = ""
    try:
        found = read_measurements(file, style=style)
    except InputError as error:
        refused = str(error)
    if refused:
        assert "\n" not in refused
        assert refused.startswith(f"{file}: ")
        return
    for row in found.rows:
        assert row.dimension in DIMENSIONS
        assert (row.case is None) == bool(row.problem)
        assert row.case is None or row.base_value > 0
        assert hash(row.case) is not None


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_mutilated_sample_is_read_or_refused(sample, data, tmp_path_factory):
    raw = sample.read_bytes()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw)))
        cut = data.draw(st.integers(0, 12))
        raw = raw[:at] + data.draw(st.sampled_from(BITS)) + raw[at + cut :]
    file = tmp_path_factory.getbasetemp() / f"mutilated{sample.suffix}"
    file.write_bytes(raw)
    check(file, data.draw(st.sampled_from(["", *known_formats()])))


@settings(max_examples=60, deadline=None)
@given(raw=st.binary(max_size=400), style=st.sampled_from(["", *known_formats()]))
def test_noise_is_refused(raw, style, tmp_path_factory):
    file = tmp_path_factory.getbasetemp() / "noise"
    file.write_bytes(raw)
    check(file, style)
