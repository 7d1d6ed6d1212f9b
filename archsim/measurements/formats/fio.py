"""``fio --output-format=json``.

Read are, per entry of ``jobs``, its ``job options`` over the ``global options``: ``rw`` (or ``readwrite``), ``bs`` (or
``blocksize``), ``iodepth``, ``numjobs``, ``direct``, ``size`` and ``kb_base``; its ``groupid``; and of ``read``
``bw_bytes``, or ``bw`` in KiB/s where it is missing. Lines of a log before the document are skipped.

Sizes are fio's: ``4k`` is 4096 bytes, and ``4Ki`` is 4000, unless ``kb_base`` is 1000. Entries of one job that were not
reported as a group are added up. Each read gives a row for the phone's part (what loads of a run use) and one for the
event-level model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from archsim.measurements.readers import MOST, Format, Hints, Source
from archsim.measurements.rows import FlashCase, Measurement, group_of
from archsim.units import quote

_SIZE = re.compile(r"([0-9]{1,15})\s*(?:([kmgt])(i?)b?|b)?", re.I)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}
_PATTERNS = {"read": "seq_read", "randread": "rand_read"}


@dataclass
class _Group:
    """Entries of one job."""

    place: str
    options: Mapping[str, Any]
    groupid: int
    entries: int = 0
    error: Any = 0
    bytes_per_s: float = 0.0


def recognise(text: str) -> bool:
    """Whether fio says so."""
    return '"fio version"' in text or ('"jobs"' in text and '"jobname"' in text)


def read(text: str, source: Source, hints: Hints) -> Iterator[Measurement]:
    """Rows of the file."""
    document = source.mapping("", source.json(source.document(text)))
    jobs = document.get("jobs")
    if not isinstance(jobs, list) or not jobs:
        source.fail("jobs", "expected a list of at least one job")
    common = source.mapping("global options", document.get("global options", {}))
    groups: dict[tuple[str, int], _Group] = {}
    for number, entry in enumerate(jobs):
        _collect(source.mapping(f"jobs[{number}]", entry), f"jobs[{number}]", common, source, groups)
    ids = [group.groupid for group in groups.values()]
    for (name, _), group in groups.items():
        yield from _rows(name, group, ids.count(group.groupid) > 1, source)


def _collect(
    entry: Mapping[str, Any],
    place: str,
    common: Mapping[str, Any],
    source: Source,
    groups: dict[tuple[str, int], _Group],
) -> None:
    """Add an entry of ``jobs`` to the job that it belongs to."""
    options = {**common, **source.mapping(f"{place}.job options", entry.get("job options", {}))}
    groupid = source.whole(place, "groupid", entry.get("groupid", 0))
    key = (str(entry.get("jobname", place)), groupid)
    group = groups.setdefault(key, _Group(place, options, groupid))
    group.entries += 1
    group.error = group.error or entry.get("error") or 0
    side = "write" if "write" in _mode(options) else "read"
    result = source.mapping(f"{place}.{side}", entry.get(side, {}))
    if result.get("bw_bytes"):
        group.bytes_per_s += source.number(f"{place}.{side}", "bw_bytes", result["bw_bytes"])
    elif result.get("bw"):
        group.bytes_per_s += 1024 * source.number(f"{place}.{side}", "bw", result["bw"])


def _mode(options: Mapping[str, Any]) -> str:
    """What ``rw`` says, without its modifiers."""
    return str(options.get("rw", options.get("readwrite", "read"))).partition(":")[0].strip().lower()


def _rows(name: str, group: _Group, beside: bool, source: Source) -> Iterator[Measurement]:
    """Rows of one job: the phone's part and the event-level model."""
    options, place = group.options, group.place
    mode = _mode(options)
    base = 1000 if str(options.get("kb_base", "1024")).strip() == "1000" else 1024
    sizes = str(options.get("bs", options.get("blocksize", "4k"))).split(",")
    if "bsrange" in options or "-" in sizes[0]:
        sizes = []
    size = parse_size(sizes[0], base, f"{place}.bs", source) if sizes else 0
    depth = source.whole(place, "iodepth", options.get("iodepth", 1), least=1)
    jobs = source.whole(place, "numjobs", options.get("numjobs", 1), least=1)
    span = parse_size(options["size"], base, f"{place}.size", source) if "size" in options else 0
    problem = ""
    if group.error:
        problem = f"fio reports the error {quote(group.error)}"
    elif mode not in _PATTERNS:
        problem = f"rw={mode}: only reads are simulated"
    elif not group.bytes_per_s:
        problem = "nothing was read"
    elif not sizes:
        problem = "a range of block sizes"
    elif beside:
        problem = "ran beside other jobs of the same group (no stonewall)"
    elif str(options.get("direct", "0")).strip() != "1":
        problem = "buffered (direct is not 1): the kernel's page cache is not simulated"
    elif mode == "randread" and not span:
        problem = "random, and no size says over which span"
    elif size * depth * jobs > MOST:
        problem = "more bytes in flight than a device can hold"
    pattern = _PATTERNS.get(mode, mode)
    shown = f"{size // 1024} KiB" if size % 1024 == 0 else f"{size} B"
    label = f"{name}: {pattern} {shown} depth {depth}" + (f" x {jobs} jobs" if jobs > 1 else "")
    speed = group.bytes_per_s / 1e6
    if problem:
        yield Measurement(place, label, f"flash {pattern}", speed, "MB/s", None, problem)
        return
    for level in ("row", "event"):
        case = FlashCase(pattern, size, depth * jobs, span if pattern == "rand_read" else 0, "", level)
        shown = label if level == "row" else f"{label}, event level"
        yield Measurement(place, shown, group_of(case), speed, "MB/s", case)


def parse_size(value: Any, base: int, place: str, source: Source) -> int:
    """Bytes of one of fio's sizes."""
    match = _SIZE.fullmatch(str(value).strip())
    if match is None:
        source.fail(place, f"{quote(value)} is not a size such as 4k or 1m")
    number, prefix, binary = match.groups()
    unit = 2024 - base if binary else base  # fio's Ki is the other of 1000 and 1024
    size = int(number) * unit ** _POWERS.get((prefix or "").lower(), 0)
    if not 0 < size <= MOST:
        source.fail(place, f"{quote(value)} is out of range; from 1 byte to {MOST}")
    return size


FORMAT = Format("fio", "fio --output-format=json", recognise, read)
