"""A run as a Perfetto trace: units as tracks; power, pools, stores as counters; the path that owns the time as arrows.

Perfetto counts whole nanoseconds, so times are rounded down to them; each slice carries its exact times in ps. Packets
are written in chunks, so that memory does not grow with the run. Equal traces give equal bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from archsim.config.regular import replaced
from archsim.report.owner import walk
from archsim.report.power import power, spread
from archsim.trace import CUT, DONE, Trace, positions
from archsim.units import COEF_ONE, PS_PER_S, WORK_ONE

#: Packets held in memory before they are written.
CHUNK = 4096
#: Bins of counters that are reconstructed from rows.
BINS = 2000
_SEQUENCE = 1
_STATE_CLEARED, _NEEDS_STATE = 1, 2
_ROOT, _REQUESTS = 1, 2
_DEVICE, _UNIT, _POOL, _STORE, _POWER = 1000, 10_000, 20_000, 30_000, 40_000
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


def write_perfetto(trace: Trace, file: str | os.PathLike[str], ps_per_tick: int = 1000) -> Path:
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
        _requests(writer, trace)
        _counters(writer, trace)
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
    devices = list(dict.fromkeys(name.split(".", 1)[0] for name in trace.unit_names))
    for i, device in enumerate(devices):
        writer.track(_DEVICE + i, device, _ROOT, 1 + i)
    for i, name in enumerate(trace.unit_names):
        writer.track(_UNIT + i, name, _DEVICE + devices.index(name.split(".", 1)[0]), i)


def _slices(writer: _Writer, trace: Trace) -> None:
    rows, ops, labels = trace.rows, trace.ops, trace.blocks["label"]
    arrows = _arrows(trace)
    order = np.flatnonzero(trace.ran & (rows["unit"] >= 0))
    order = order[np.lexsort((rows["row"][order], rows["start_ps"][order]))]
    for i in (int(i) for part in _chunks(order) for i in part):
        op, block, track = int(trace.row_op[i]), int(trace.row_block[i]), _UNIT + int(rows["unit"][i])
        named = (str(ops["name"][op]), str(ops["phase"][op])) if op >= 0 else ("row", "other")
        packet = writer.event(int(rows["start_ps"][i]), track, "TYPE_SLICE_BEGIN", *named)
        packet.track_event.flow_ids.extend(arrows[i][arrows[i] > 0].tolist())
        for key in ("row", "op", "request", "start_ps", "end_ps"):
            writer.annotate(packet, key, int(rows[key][i]))
        if block >= 0:
            writer.annotate(packet, "block", f"{int(rows['block'][i])} {labels[block]}".strip())
        for key in _SIZES if op >= 0 else ():
            if ops[key][op]:
                writer.annotate(packet, key, int(ops[key][op]))
        if rows["status"][i] != DONE:
            writer.annotate(packet, "status", "cut" if rows["status"][i] == CUT else "running")
        writer.event(int(trace.row_end_ps[i]), track, "TYPE_SLICE_END")


def _chunks(values: np.ndarray) -> Iterator[np.ndarray]:
    for first in range(0, len(values), CHUNK):
        yield values[first : first + CHUNK]


def _arrows(trace: Trace) -> np.ndarray:
    """Flow ids ``[rows, 2]`` to and from the rows on the owning path, 0 for none; two successive rows share an id."""
    flows = np.zeros((len(trace.rows["row"]), 2), dtype=np.int64)
    later = -1
    for i, (row, _, _) in enumerate(walk(trace)):
        if row >= 0 and later >= 0:
            flows[row, 1] = flows[later, 0] = i
        later = row
    return flows


def _requests(writer: _Writer, trace: Trace) -> None:
    notes = trace.notes
    for i in np.argsort(notes["time_ps"], kind="stable").tolist():
        packet = writer.event(int(notes["time_ps"][i]), _REQUESTS, "TYPE_INSTANT", str(notes["kind"][i]), "request")
        for key in ("request", "value", "extra"):
            writer.annotate(packet, key, int(notes[key][i]))


def _counters(writer: _Writer, trace: Trace) -> None:
    watts = power(trace, max(1, -(-trace.duration_ps // BINS)))
    for i, (device, values) in enumerate(watts.device_w.items()):
        writer.track(_POWER + i, f"{device} power", _ROOT, 100 + i, "W")
        writer.counter(_POWER + i, watts.edges_ps, np.append(values, 0.0))
    for i, pool in enumerate(trace.manifest["pools"]):
        times, values = _pool_use(trace, i)
        if len(times):
            rate = pool["unit"] == "bytes/s"
            writer.track(_POOL + i, pool["name"], _ROOT, 200 + i, "GB/s" if rate else pool["unit"])
            writer.counter(_POOL + i, times, values * PS_PER_S / 1000**3 if rate else values)
    levels = trace.tables["levels_log"]
    for i, store in enumerate(trace.manifest["stores"]):
        mine = levels["store"] == i
        if mine.any():
            writer.track(_STORE + i, store["name"], _ROOT, 300 + i, store["unit"])
            writer.counter(_STORE + i, levels["time_ps"][mine], levels["value"][mine].astype(float))


def _pool_use(trace: Trace, pool: int) -> tuple[np.ndarray, np.ndarray]:
    """Times and use of a pool from then on, in bytes per ps or in items: logged, or else reconstructed from rows."""
    log = trace.tables["pool_log"]
    mine = log["pool"] == pool
    if mine.any():
        return log["time_ps"][mine], log["value"][mine] / WORK_ONE
    draws, rows = trace.tables["draws"], trace.rows
    drawing = np.flatnonzero(draws["pool"] == pool)
    place = positions(draws["op"][drawing], rows["op"])
    used = np.flatnonzero((place >= 0) & (rows["done"] > 0))
    if used.size == 0 or trace.duration_ps == 0:
        return np.empty(0), np.empty(0)
    coef = draws["coef"][drawing][place[used]]
    amount = rows["done"][used] / WORK_ONE * (coef / COEF_ONE)
    edges = np.unique(np.linspace(0, trace.duration_ps, BINS + 1).astype(np.int64))
    values = spread(rows["flow_ps"][used], trace.row_end_ps[used], amount, edges) / np.diff(edges)
    return edges, np.append(values, 0.0)
