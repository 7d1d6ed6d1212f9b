"""A run as a Perfetto trace: units as tracks, nested by block, layer, operator and row; arrows, counters, marks.

Arrows go from a row to what waited for it on another unit; a trace without a recorded script, which cannot tell, shows
the path that owns the time instead. Counters are those of :mod:`archsim.report.counters`. Perfetto counts whole
nanoseconds, so times are rounded down to them; each row carries its exact times in ps. Packets are written in chunks,
unit by unit, so that memory does not grow with the file. Equal traces give equal bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from archsim.config.regular import replaced
from archsim.report.counters import Counter, counters
from archsim.report.depends import across
from archsim.report.energy import device_pj, row_pj
from archsim.report.nesting import Nesting, nest
from archsim.report.owner import WAIT, walk
from archsim.trace import CUT, DONE, Trace

#: Packets held in memory before they are written.
CHUNK = 4096
PS_PER_NS = 1000
_SEQUENCE = 1
_STATE_CLEARED, _NEEDS_STATE = 1, 2
_ROOT, _REQUESTS, _OWNER = 1, 2, 3
_DEVICE, _UNIT, _COUNTER = 1000, 10_000, 20_000
#: Place of each kind of counter among the tracks, and the group it stands in.
_GROUPS = {"power": (100, "power"), "pool": (101, "pools"), "store": (102, "stores"), "queue": (103, "queues")}
_TOLD = ("row", "op", "request", "start_ps", "end_ps", "status")
_SIZES = ("m", "k", "n", "kv", "weight_bytes", "in_bytes", "out_bytes", "kv_bytes")


class _Writer:
    """Writes packets in chunks and interns names."""

    def __init__(self, file: IO[bytes], ps_per_tick: int) -> None:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

        self.protos, self.tick = protos, ps_per_tick
        self._file = file
        self._chunk = protos.Trace()
        self._interned: dict[str, dict[str, int]] = {
            "event_names": {},
            "event_categories": {},
            "debug_annotation_names": {},
        }
        self._first = True

    def packet(self, time_ps: int | None = None) -> Any:
        if len(self._chunk.packet) >= CHUNK:
            self.flush()
        packet = self._chunk.packet.add()
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.sequence_flags = _NEEDS_STATE
        if self._first:
            packet.sequence_flags = _STATE_CLEARED | _NEEDS_STATE
            packet.first_packet_on_sequence = True
            self._first = False
        if time_ps is not None:
            packet.timestamp = time_ps // self.tick
        return packet

    def intern(self, packet: Any, table: str, name: str) -> int:
        known = self._interned[table]
        if name not in known:
            known[name] = len(known) + 1
            entry = getattr(packet.interned_data, table).add()
            entry.iid, entry.name = known[name], name
        return known[name]

    def annotate(self, packet: Any, name: str, value: int | str) -> None:
        note = packet.track_event.debug_annotations.add()
        note.name_iid = self.intern(packet, "debug_annotation_names", name)
        if isinstance(value, str):
            note.string_value = value
        else:
            note.int_value = value

    def track(self, uuid: int, name: str, parent: int = 0, rank: int = 0, unit: str = "") -> None:
        packet = self.packet()
        track = packet.track_descriptor
        track.uuid, track.name, track.sibling_order_rank = uuid, name, rank
        track.child_ordering = self.protos.TrackDescriptor.EXPLICIT
        if parent:
            track.parent_uuid = parent
        if unit:
            track.counter.unit_name = unit

    def event(self, time_ps: int, track: int, kind: str, name: str = "", category: str = "") -> Any:
        packet = self.packet(time_ps)
        event = packet.track_event
        event.track_uuid, event.type = track, self.protos.TrackEvent.Type.Value(kind)
        if name:
            event.name_iid = self.intern(packet, "event_names", name)
            event.category_iids.append(self.intern(packet, "event_categories", category))
        return packet

    def counter(self, track: int, times_ps: np.ndarray, values: np.ndarray) -> None:
        """Write a counter's steps, leaving out those that change nothing."""
        changed = np.flatnonzero(np.append(True, values[1:] != values[:-1])) if len(values) else np.empty(0, dtype=int)
        for part in _chunks(changed):
            for time_ps, value in zip(times_ps[part].tolist(), values[part].tolist()):
                self.event(time_ps, track, "TYPE_COUNTER").track_event.double_counter_value = value

    def flush(self) -> None:
        self._file.write(self._chunk.SerializeToString(deterministic=True))
        self._chunk = self.protos.Trace()  # clearing a message keeps its memory


def write_perfetto(trace: Trace, file: str | os.PathLike[str], ps_per_tick: int = PS_PER_NS) -> Path:
    """Write `trace` as a Perfetto trace (native protobuf) and return the path.

    Parameters
    ----------
    ps_per_tick : int
        Picoseconds shown as one nanosecond; 1 makes single DRAM commands legible (the viewer's ns are then ps).

    Raises
    ------
    InputError
        When `file` is something other than a regular file, or cannot be written.
    """
    with replaced(file) as partial, partial.open("wb") as out:
        writer = _Writer(out, ps_per_tick)
        _tracks(writer, trace)
        _slices(writer, trace)
        _owner(writer, trace)
        _requests(writer, trace)
        _counters(writer, counters(trace))
        writer.flush()
    return Path(file)


def write_slices(
    file: str | os.PathLike[str],
    title: str,
    tracks: Sequence[str],
    track: np.ndarray,
    start_ps: np.ndarray,
    end_ps: np.ndarray,
    piece: np.ndarray,
) -> Path:
    """Write plain slices, which do not overlap on a track, as a Perfetto trace whose nanoseconds are picoseconds.

    Parameters
    ----------
    tracks : sequence of str
        Names of the tracks.
    track, start_ps, end_ps, piece : int64[n]
        Index into `tracks`, times, and a number shown with the slice (-1: none).

    Raises
    ------
    InputError
        When `file` is something other than a regular file, or cannot be written.
    """
    with replaced(file) as partial, partial.open("wb") as out:
        writer = _Writer(out, 1)
        writer.track(_ROOT, title)
        for i, name in enumerate(tracks):
            writer.track(_UNIT + i, name, _ROOT, i)
        order = np.lexsort((track, start_ps))
        for i in (int(i) for part in _chunks(order) for i in part):
            at, name = _UNIT + int(track[i]), tracks[int(track[i])]
            packet = writer.event(int(start_ps[i]), at, "TYPE_SLICE_BEGIN", name, "stage")
            if piece[i] >= 0:
                writer.annotate(packet, "tile", int(piece[i]))
            writer.event(int(end_ps[i]), at, "TYPE_SLICE_END")
        writer.flush()
    return Path(file)


def _tracks(writer: _Writer, trace: Trace) -> None:
    label = f"archsim {trace.manifest['schedule']}"
    writer.track(_ROOT, label)
    writer.track(_REQUESTS, "requests", _ROOT)
    writer.track(_OWNER, "owner of the time", _ROOT, 1)
    devices = list(dict.fromkeys(name.split(".", 1)[0] for name in trace.unit_names))
    for i, device in enumerate(devices):
        writer.track(_DEVICE + i, device, _ROOT, 2 + i)
    for i, name in enumerate(trace.unit_names):
        writer.track(_UNIT + i, name, _DEVICE + devices.index(name.split(".", 1)[0]), i)


def _slices(writer: _Writer, trace: Trace) -> None:
    """Rows of each unit, in order, inside slices of their operator, layer and block; a stretch of one is left out."""
    rows = nest(trace)
    levels = _levels(rows)
    ends = {"begin": rows.start_ps, "end": rows.end_ps}
    flows, arrivals = _arrows(trace, writer.tick)
    pj = row_pj(trace, device_pj(trace)[1].sum(axis=0))
    told = {key: trace.rows[key] for key in _TOLD}  # once: a long table reads a column from its file
    for part in _chunks(np.arange(len(rows.row))):
        table = zip(*(column[part].tolist() for column in (rows.row, rows.unit, *ends.values())))
        for i, (row, unit, begin, end) in zip(part.tolist(), table):
            track = _UNIT + unit
            for level in levels:
                if level.opens[i]:
                    _open(writer, trace, rows, level, i, track)
            _row(writer, trace, told, row, track, begin, (flows.get(row, ()), arrivals.get(row, ())), float(pj[row]))
            writer.event(end, track, "TYPE_SLICE_END")
            for level in reversed(levels):
                if level.closes[i]:
                    writer.event(end, track, "TYPE_SLICE_END")


@dataclass(frozen=True)
class _Level:
    """Slices around rows: where each begins and where it ends, by place of the row."""

    kind: str
    opens: np.ndarray
    closes: np.ndarray


def _levels(rows: Nesting) -> list[_Level]:
    """Blocks, layers (of rows that are in one), and operators of several rows."""
    found = []
    for kind, heads in (("block", rows.blocks()), ("layer", rows.layers()), ("operator", rows.operators())):
        tails = np.append(heads[1:], len(rows.row)) - 1 if len(heads) else heads
        keep = {
            "block": rows.block[heads] >= 0,
            "layer": rows.layer[heads] >= 0,
            "operator": (tails > heads) & (rows.op[heads] >= 0),
        }[kind]
        opens, closes = (np.zeros(len(rows.row), dtype=bool) for _ in range(2))
        opens[heads[keep]], closes[tails[keep]] = True, True
        found.append(_Level(kind, opens, closes))
    return found


def _open(writer: _Writer, trace: Trace, rows: Nesting, level: _Level, i: int, track: int) -> None:
    """Begin the slice of a block, a layer or an operator."""
    block, name = int(rows.block[i]), rows.names[rows.name[i]]
    if level.kind == "block":
        name = str(trace.blocks["label"][block]) or "block"
    elif level.kind == "layer":
        name = f"layer {rows.layer[i]}" if not rows.turn[i] else f"pass {rows.turn[i]} layer {rows.layer[i]}"
    packet = writer.event(int(rows.start_ps[i]), track, "TYPE_SLICE_BEGIN", name, level.kind)
    if level.kind == "block":
        for key in ("block", "request", "useful", "total"):
            writer.annotate(packet, key, int(trace.blocks[key][block]))


def _row(
    writer: _Writer,
    trace: Trace,
    rows: Mapping[str, np.ndarray],
    i: int,
    track: int,
    begin_ps: int,
    arrows: tuple[Sequence[int], Sequence[int]],
    pj: float,
) -> None:
    """Begin the slice of a row: what it executes, its exact times, and the arrows from and to it."""
    ops, op = trace.ops, int(trace.row_op[i])
    named = (str(ops["name"][op]), str(ops["phase"][op])) if op >= 0 else ("row", "other")
    packet = writer.event(begin_ps, track, "TYPE_SLICE_BEGIN", *named)
    packet.track_event.flow_ids.extend(arrows[0])
    packet.track_event.terminating_flow_ids.extend(arrows[1])
    for key in _TOLD[:-1]:
        writer.annotate(packet, key, int(rows[key][i]))
    for key in _SIZES if op >= 0 else ():
        if ops[key][op]:
            writer.annotate(packet, key, int(ops[key][op]))
    if pj:
        writer.annotate(packet, "dynamic_energy_pj", round(pj))
    if rows["status"][i] != DONE:
        writer.annotate(packet, "status", "cut" if rows["status"][i] == CUT else "running")


def _chunks(values: np.ndarray) -> Iterator[np.ndarray]:
    for first in range(0, len(values), CHUNK):
        yield values[first : first + CHUNK]


def _arrows(trace: Trace, tick: int) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Ids of the arrows that leave and that reach each row, by its position in ``rows``.

    Arrows are dependencies across units, or, without a script, steps of the owning path. A pair within one tick of
    the file has none: a reader could not tell which comes first.
    """
    pairs = across(trace)
    if pairs is None:
        path = walk(trace).row
        steps = (path[1:] >= 0) & (path[:-1] >= 0)
        pairs = (path[1:][steps], path[:-1][steps])
    leave: dict[int, list[int]] = {}
    reach: dict[int, list[int]] = {}
    start = trace.rows["start_ps"] // tick
    apart = start[pairs[0]] < start[pairs[1]]
    for flow, (a, b) in enumerate(zip(pairs[0][apart].tolist(), pairs[1][apart].tolist()), start=1):
        leave.setdefault(a, []).append(flow)
        reach.setdefault(b, []).append(flow)
    return leave, reach


def _owner(writer: _Writer, trace: Trace) -> None:
    """The unit that owns each stretch of the run's time (see :mod:`archsim.report.owner`), as a track of its own."""
    last, since, until = -2, 0, 0
    path = walk(trace)
    units = path.of(trace.rows["unit"])
    stretches = []
    for unit, begin, end in zip(units.tolist(), path.start_ps.tolist(), path.end_ps.tolist()):  # from the end back
        if unit != last:
            stretches.append((since, until, last))
            last, until = unit, end
        since = begin
    stretches.append((since, until, last))
    for begin, end, unit in reversed(stretches):
        if end > begin:
            name = trace.unit_names[unit] if unit >= 0 else WAIT
            writer.event(begin, _OWNER, "TYPE_SLICE_BEGIN", name, "owner")
            writer.event(end, _OWNER, "TYPE_SLICE_END")


def _requests(writer: _Writer, trace: Trace) -> None:
    notes = trace.notes
    for i in np.argsort(notes["time_ps"], kind="stable").tolist():
        packet = writer.event(int(notes["time_ps"][i]), _REQUESTS, "TYPE_INSTANT", str(notes["kind"][i]), "request")
        for key in ("request", "value", "extra"):
            writer.annotate(packet, key, int(notes[key][i]))


def _counters(writer: _Writer, curves: Iterable[Counter]) -> None:
    """Counters below a group for each kind."""
    known: set[str] = set()
    for i, curve in enumerate(curves):
        rank, group = _GROUPS[curve.kind]
        if group not in known:
            known.add(group)
            writer.track(_COUNTER - rank, group, _ROOT, rank)
        writer.track(_COUNTER + i, curve.name, _COUNTER - rank, i, curve.unit)
        writer.counter(_COUNTER + i, curve.time_ps, curve.value)
