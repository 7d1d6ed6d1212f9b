"""Odd values, and changes to plain data and to bytes: what every grammar draws from."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import strategies as st

NUMBERS = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "-1",
    "+2",
    "00",
    "1.5",
    "1e3",
    "-0",
    "0x10",
    "1_000",
    "nan",
    "inf",
    "-inf",
    "1e400",
]
HUGE = [str(2**31), str(2**40), str(2**63), str(-(2**63)), str(2**64 + 1), "9" * 39, "9" * 400, "1e300"]
QUANTITIES = [
    "1 GB",
    "1 TB",
    "1 B/s",
    "4 GB/s",
    "0 GB/s",
    "-4 GB/s",
    "1e30 GB",
    "4 XB/s",
    "GB",
    "5 ns",
    "1 W",
    "1e-30 s",
]
ODD = ["", " ", "-", "--", "...", "../../../etc/passwd", "/etc/passwd", "/dev/null", "/dev/zero", "/proc/self/mem", "."]
ODD += [
    "a\nb",
    "\x1b[31m",
    "\u0664",
    "\udcff",
    "\u202e",
    "x" * 5000,
    "%s%n",
    "{}",
    "[a, b]",
    "!!python/x 1",
    "*a",
    "=",
    "a=b",
]
ODD += [
    "null",
    "true",
    "~",
    "&a [*a]",
    "/",
    "~root",
    "C:\\x",
    "nan GB",
    "recorded:",
    "synthetic::",
    "recorded:../../x:1",
]
SCALARS: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    10**6,
    2**31,
    2**40,
    2**63,
    10**30,
    0.5,
    -0.5,
    1e-300,
    1e300,
    "",
    "x",
]
SCALARS += [
    [],
    {},
    [[]],
    [1, 2],
    {"a": 1},
    {"value": 1},
    {"value": "1 GB"},
    *QUANTITIES,
    "nan",
    "../x",
    "x" * 300,
    "\0",
    "a\nb",
]
mixed = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(HUGE), st.sampled_from(QUANTITIES), st.sampled_from(ODD))


def _spots(data: Any, at: tuple = ()) -> list[tuple]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [spot for key, value in items for spot in [(*at, key), *_spots(value, (*at, key))]]


def _parent(data: Any, spot: tuple) -> Any:
    for key in spot[:-1]:
        data = data[key]
    return data


@st.composite
def changed_data(draw: Any, data: Any, most: int = 3) -> Any:
    """Plain data with up to `most` changes: values replaced, scaled, moved, keys renamed, dropped, added, nested."""
    data = json.loads(json.dumps(data))
    for _ in range(draw(st.integers(1, most))):
        spots = _spots(data)
        if not spots:
            break
        spot = draw(st.sampled_from(spots))
        parent, key = _parent(data, spot), spot[-1]
        match draw(st.integers(0, 9)):
            case 0 | 1 | 2:
                parent[key] = draw(st.sampled_from(SCALARS))
            case 3:
                parent[key] = _scaled(parent[key], draw(st.sampled_from([0, -1, 2, 1e-3, 1e3, 1e9, 1e18, 1 / 3])))
            case 4:
                del parent[key]
            case 5:
                other = draw(st.sampled_from(spots))
                with_other = _parent(data, other)
                parent[key] = json.loads(json.dumps(with_other[other[-1]] if _has(with_other, other[-1]) else None))
            case 6:
                if isinstance(parent, dict):
                    parent[draw(st.sampled_from([str(key) + "s", str(key)[:-1], "x", "<<", "value", "base", ""]))] = (
                        parent.pop(key)
                    )
            case 7:
                if isinstance(parent, dict):
                    parent[draw(st.sampled_from(["value", "range", "source", "base", "spec", "extra", "name"]))] = draw(
                        st.sampled_from(SCALARS)
                    )
            case 8:
                parent[key] = draw(st.sampled_from([[parent[key]], {"value": parent[key]}, {str(key): parent[key]}]))
            case 9:
                parent[key] = draw(mixed)
    return data


def _has(parent: Any, key: Any) -> bool:
    return (
        key in parent
        if isinstance(parent, dict)
        else isinstance(parent, list) and isinstance(key, int) and key < len(parent)
    )


def _scaled(value: Any, factor: float) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return value
    if isinstance(value, str):
        found = re.fullmatch(r"([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?)( .*)?", value)
        return value if found is None else f"{float(found[1]) * factor:g}{found[2] or ''}"
    scaled = value * factor
    return int(scaled) if isinstance(value, int) and abs(scaled) < 1e300 else scaled


INSERTS = [
    b"&a ",
    b"*a ",
    b"!!python/object/apply:os.system [x] ",
    b"<<: *a\n",
    b"---\n",
    b"...\n",
    b"\t",
    b"\0",
    b"\xff",
    b"{",
    b"}",
]
INSERTS += [
    b"[",
    b"]",
    b": ",
    b"- ",
    b"'",
    b'"',
    b"|\n",
    b"? ",
    b"# ",
    b"%YAML 9.9\n",
    b"\xef\xbb\xbf",
    b"[" * 60,
    b"!x ",
]


@st.composite
def changed_bytes(draw: Any, data: bytes, inserts: list[bytes] = INSERTS, most: int = 4) -> bytes:
    """Bytes with up to `most` changes: cut, flipped, overwritten, doubled, moved, odd pieces put in."""
    made = bytearray(data)
    for _ in range(draw(st.integers(1, most))):
        at = draw(st.integers(0, len(made)))
        size = draw(st.sampled_from([1, 2, 4, 8, 16, 64, 512]))
        match draw(st.integers(0, 8)):
            case 0:
                del made[at:]
            case 1:
                del made[at : at + size]
            case 2:
                if at < len(made):
                    made[at] ^= 1 << draw(st.integers(0, 7))
            case 3:
                made[at : at + size] = bytes([draw(st.sampled_from([0, 0xFF, 0x7F, 0x80]))]) * size
            case 4:
                made[at:at] = made[at : at + size] * draw(st.sampled_from([1, 2, 30]))
            case 5:
                other = draw(st.integers(0, len(made)))
                made[at : at + size], made[other : other + size] = made[other : other + size], made[at : at + size]
            case 6:
                made[at:at] = draw(st.sampled_from(inserts))
            case 7:
                value = draw(st.sampled_from([0, 1, 2**31 - 1, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1]))
                width = draw(st.sampled_from([4, 8]))
                made[at : at + width] = (value % (1 << 8 * width)).to_bytes(width, "little")
            case 8:
                made[at:at] = draw(st.binary(min_size=1, max_size=12))
    return bytes(made)
