"""Operator profiles of llama.cpp's ggml-hexagon: the log of a run with ``GGML_HEXAGON_PROFILE=1`` (or 2, 3) and ``-v``.

Only lines with ``profile-op`` count. Three forms are read, those of the project's versions in order of age (``S`` is a
session such as ``HTP0``, ``NAMES`` and the like stand for a field each)::

    ggml-hex: S profile-op OP: NAMES : DIMS : TYPES : STRIDES : BUFFERS : op-usec N op-cycles N op-pkts N (F) ...
    ggml-hex: S profile-op OP: NAMES : DIMS : TYPES : STRIDES : usec N cycles N [pmu [...]]
    ggml-hex: S profile-op OP|NAMES|DIMS|TYPES|STRIDES|KERNEL|usec N cycles N [start N] [mhz F] [pmu [...]]

``DIMS`` is ``K:N x K:M -> N:M`` for a product (weights, activations, result; ones at the end may be there), ``TYPES``
is ``q4_0 x f32 -> f32``. Lines with the same operator, dims and types are one row, the mean of their microseconds,
which are the DSP's: the host's call is not in them, nor in the simulated time. Lines of batches (``OPBATCH``) are no
operators.

Simulated are ``MUL_MAT`` of a two-dimensional weight matrix, ``FLASH_ATTN_EXT``, ``RMS_NORM``, ``ROPE``, ``SOFT_MAX``
and ``SWIGLU``. Fused operators (``MUL_MAT+ADD``) are listed; run with ``GGML_HEXAGON_OPFUSION=0`` to have them apart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from archsim.measurements.names import dtype_of
from archsim.measurements.readers import MOST, Format, Hints, Source
from archsim.measurements.rows import Measurement, OperatorCase, group_of
from archsim.units import quote

_LINE = re.compile(r"profile-op\s+([A-Z][A-Z_0-9+]*)\s*(:|\|)(.*)")
_TIME = re.compile(r"\b(?:op-)?usec\s+([0-9]{1,12})\b")
_DIMS = re.compile(r"[0-9]{1,12}(:[0-9]{1,12}){0,3}")
_LIGHT = {"RMS_NORM": "norm", "ROPE": "rope", "SOFT_MAX": "softmax", "SWIGLU": "swiglu"}


def recognise(text: str) -> bool:
    """Whether a line of a profile is there."""
    return "profile-op " in text


def read(text: str, source: Source, hints: Hints) -> Iterator[Measurement]:
    """One row for every operator, dims and types."""
    times: dict[tuple[str, str, str], list[int]] = {}
    first: dict[tuple[str, str, str], int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        match = _LINE.search(line)
        if match is None:
            if "profile-op" in line:
                source.fail(f"line {number}", "profile-op without an operator and its fields")
            continue
        op, sign, rest = match.groups()
        if op == "OPBATCH":
            continue
        fields = [field.strip() for field in (rest.split("|") if sign == "|" else rest.split(" : "))]
        time = _TIME.search(rest)
        if len(fields) < 5 or time is None:
            source.fail(f"line {number}", "expected names, dims, types, strides and usec N after profile-op")
        key = (op, " ".join(fields[1].split()), " ".join(fields[2].split()))
        times.setdefault(key, []).append(int(time.group(1)))
        first.setdefault(key, number)
    for key, found in times.items():
        yield _row(*key, found, f"line {first[key]}", source)


def _row(op: str, dims: str, types: str, found: list[int], place: str, source: Source) -> Measurement:
    inputs = [_shape(text, place, source) for text in dims.partition("->")[0].split(" x ")]
    kinds = [text.strip() for text in types.partition("->")[0].split(" x ")]
    mean = sum(found) / len(found)
    case, problem = _case(op, inputs, kinds)
    if mean == 0:
        case, problem = None, "0 us: below the clock of the profile"
    group = group_of(case) if case else f"npu {op}"
    return Measurement(place, f"{op} {dims} {types}", group, mean, "us", case, problem, None, len(found))


def _shape(text: str, place: str, source: Source) -> list[int]:
    """Four sizes of a tensor, the innermost first."""
    text = text.strip()
    if not _DIMS.fullmatch(text):
        source.fail(place, f"dims {quote(text)} are not sizes such as 4096:128")
    sizes = [int(part) for part in text.split(":")]
    if 0 in sizes or math.prod(sizes) > MOST:
        source.fail(place, f"dims {quote(text)} are empty or too large")
    return [*sizes, *([1] * (4 - len(sizes)))]


def _case(op: str, inputs: list[list[int]], kinds: list[str]) -> tuple[OperatorCase | None, str]:
    """What to simulate, or why that cannot be."""
    if "+" in op:
        return None, "fused operators; GGML_HEXAGON_OPFUSION=0 has them apart"
    if op == "MUL_MAT" and len(inputs) == 2:
        (k, n, *more), (also, *rows) = inputs
        if math.prod(more) > 1 or k != also:
            return None, "a product of batches of matrices, not of one weight matrix"
        dtype = dtype_of(kinds[0])
        if not dtype:
            return None, f"weights of type {quote(kinds[0])} are not among archsim's"
        return OperatorCase("npu", "matmul", (math.prod(rows), k, n), dtype.lower(), called=False), ""
    if op == "FLASH_ATTN_EXT" and len(inputs) >= 3:
        (width, rows, heads, batch), (_, cached, kv_heads, _) = inputs[:2]
        if batch > 1 or heads % kv_heads or cached < rows:
            return None, "attention of several sequences, or of fewer keys than queries"
        return OperatorCase("npu", "attention", (rows, cached - rows, heads, kv_heads, width), called=False), ""
    if op in _LIGHT:
        k, *rows = inputs[0]
        if op == "ROPE":
            k, rows = k * rows[0], rows[1:]
        if op == "SWIGLU" and len(inputs) == 1:
            k //= 2  # gate and value in one tensor
        return OperatorCase("npu", _LIGHT[op], (math.prod(rows), max(k, 1)), called=False), ""
    return None, f"{op} has no counterpart among archsim's operators"


FORMAT = Format("ggml-hexagon", "log of GGML_HEXAGON_PROFILE, lines of profile-op", recognise, read)
