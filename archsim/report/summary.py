"""The headline numbers of a run: requests, tokens per second, steps, phases, units."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

import numpy as np

from archsim.report.area import area_mm2
from archsim.report.background import background, background_rows, decode_executions, decode_rows
from archsim.report.energy import Split, energy
from archsim.report.operands import operands
from archsim.report.power import Binned, headline_w
from archsim.report.service import by_turn, service
from archsim.report.states import Active, joined, union
from archsim.report.sums import cached, sums, take
from archsim.report.traffic import Executions, FreeRows, Leads, actions_of, traffic
from archsim.trace import Trace
from archsim.units import PS_PER_S, InputError

_MARKS = ("arrival", "begin", "commit", "step", "end")


def summarise(trace: Trace) -> dict[str, Any]:
    """Summary of a run, with the keys of ``archsim run --json``.

    Tokens, steps, energy and bytes are those of the whole run. Latency and time to first token are medians over the
    requests, ``decode_tokens_per_s`` is their geometric mean; it leaves prefill out (see :func:`requests`). ``phases``
    are seconds per step in which at least one unit worked for a phase, over the blocks that are not prefill; phases
    that overlap add up to more than the step. ``accepted_per_step`` counts the tokens committed per step, the target's
    own included. Peak power is that of a 1 ms bin (see :mod:`archsim.report.power`). What a run does not have is None.

    ``bytes_per_step`` are operands by what they are (:mod:`archsim.report.operands`), ``footprint_bytes`` what the job
    keeps in DRAM and flash. Percentiles over all requests: ``itl_p50_s`` and so on (:mod:`archsim.report.service`,
    which defines inter-token time); ``turns`` by turn of a conversation. ``background`` holds the streams of the run
    (:func:`archsim.report.background.background`); ``bytes``, ``phases``, ``energy_j`` and ``energy_per_token_j`` are
    without them, mean and peak power are the whole phone's.
    """
    served = requests(trace)
    take(trace, Leads, Active, DecodePhases, UnitTime)  # what the others build on comes first
    take(trace, Executions, decode_executions, FreeRows, Split, *([Binned] if trace.stored else ()))
    (mean_w, peak_w), spent = headline_w(trace), energy(trace)
    streams = background(trace)
    joule = spent.total_j - sum(stream["energy_j"] for stream in streams.values())
    apart = (lambda part: (~background_rows(part)).astype(float)) if streams else None
    tokens = sum(request["tokens"] for request in served)
    steps = sum(request["steps"] for request in served)
    speeds = [r["decode_tokens_per_s"] for r in served if r["decode_tokens_per_s"]]
    committed = sum(request["step_tokens"] for request in served)
    return {
        "digest": trace.digest,
        "tokens": tokens,
        "request_latency_s": _median(request["latency_s"] for request in served),
        "ttft_s": _median(request["ttft_s"] for request in served),
        **service(trace, served),
        "turns": by_turn(trace, served),
        "decode_tokens_per_s": math.exp(sum(map(math.log, speeds)) / len(speeds)) if speeds else None,
        "energy_j": joule,
        "energy_per_token_j": joule / tokens if tokens else None,
        "mean_power_w": mean_w,
        "peak_power_w": peak_w,
        "area_mm2": sum(area_mm2(trace).values()),
        "steps": steps,
        "accepted_per_step": committed / steps if steps else None,
        "phases": {phase: seconds / steps for phase, seconds in decode_phases(trace).items()} if steps else {},
        "units": busy_fraction(trace),
        "kernel_table": {
            "share": table_share(trace),
            "extrapolated_share": table_share(trace, TABLE_ACTIONS[1:]),
        },
        "bytes": traffic(trace, apart),
        "bytes_per_step": operands(trace, steps),
        "footprint_bytes": trace.manifest.get("footprint", {}),
        "background": streams,
        "stream_kind": trace.manifest["stream"]["kind"],
        "off_trace_nodes": trace.manifest["warnings"].get("off_trace_nodes", 0),
    }


def _median(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def requests(trace: Trace) -> list[dict[str, Any]]:
    """One entry per request, in order of arrival.

    ``latency_s`` runs from arrival to the ``end`` note (to the last commit where the run stopped before),
    ``ttft_s`` from arrival to the first commit, ``queue_s`` from arrival to the ``begin`` note (0 where a run has none:
    requests that arrive when the one before has ended). ``prompt_tokens`` is the whole context before the first output
    token, ``cached_tokens`` what of it was in the cache (earlier turns). ``decode_tokens_per_s`` is the tokens after
    the first commit divided by the time from the first to the last commit. ``step_tokens`` are the tokens committed
    from the first step on (a token that prefill yields belongs to no step). Notes of other kinds or of a negative
    request belong to no request.

    Raises
    ------
    InputError
        When a request has notes but never arrived.
    """
    notes = trace.notes
    found = []
    counted = np.isin(notes["kind"], _MARKS) & (notes["request"] >= 0)
    for request in np.unique(notes["request"][counted]).tolist():
        mine = notes["request"] == request
        marks = {
            kind: (notes["time_ps"][of], notes["value"][of], notes["extra"][of])
            for kind in _MARKS
            for of in (mine & (notes["kind"] == kind),)
        }
        if not len(marks["arrival"][0]):
            raise InputError(f"request {request} has notes but no 'arrival'; the trace is incomplete")
        found.append(_request(request, marks))
    return sorted(found, key=lambda entry: (entry["arrival_s"], entry["request"]))


def _request(request: int, marks: dict[str, tuple[np.ndarray, ...]]) -> dict[str, Any]:
    arrival, begun = int(marks["arrival"][0][0]), marks["begin"][0]
    times, values, _ = marks["commit"]
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    ends, _, early = marks["end"]
    last = ends[0] if len(ends) else (times[-1] if len(times) else None)
    decode_ps = int(times[-1] - times[0]) if len(times) else 0
    steps = marks["step"]
    in_steps = times >= steps[0].min() if len(steps[0]) else np.zeros(len(times), dtype=bool)
    return {
        "request": request,
        "arrival_s": arrival / PS_PER_S,
        "prompt_tokens": int(marks["arrival"][1][0]),
        "cached_tokens": int(marks["arrival"][2][0]),
        "ttft_s": int(times[0] - arrival) / PS_PER_S if len(times) else None,
        "queue_s": int(begun[0] - arrival) / PS_PER_S if len(begun) else 0.0,
        "latency_s": int(last - arrival) / PS_PER_S if last is not None else None,
        "tokens": int(values.sum()),
        "decode_tokens_per_s": float(values[1:].sum()) * PS_PER_S / decode_ps if decode_ps else None,
        "steps": int(steps[1].sum()),
        "step_tokens": int(values[in_steps].sum()),
        "ended_early": bool(len(early) and early[0]),
    }


def acceptance(trace: Trace) -> dict[str, float | None]:
    """Acceptance of drafted tokens by three definitions, None where the notes do not allow one.

    ``accepted_per_verified``: accepted tokens over tokens drafted in the steps that were verified, look-ahead in the
    verified window included. ``accepted_per_drafted``: over all tokens drafted, cut look-ahead included (needs
    ``draft`` notes). ``accepted_per_batch``: mean of each drafted batch's own ratio, of batches that verification
    reached (``batch`` notes; without them a step verifies one batch). A step that commits n tokens accepted n - 1
    drafted ones: the last is the target's own.
    """
    notes = trace.notes
    steps = notes["kind"] == "accept"
    accepted, drafted = notes["value"][steps], notes["extra"][steps]
    all_drafted = int(notes["value"][notes["kind"] == "draft"].sum())
    verified = int(drafted.sum())
    return {
        "accepted_per_verified": float(accepted.sum()) / verified if verified else None,
        "accepted_per_drafted": float(accepted.sum()) / all_drafted if all_drafted else None,
        "accepted_per_batch": _per_batch(trace) if verified else None,
    }


def _per_batch(trace: Trace) -> float:
    """Mean ratio of accepted to drafted tokens of one batch."""
    notes = trace.notes
    batches = notes["kind"] == ("batch" if (notes["kind"] == "batch").any() else "accept")
    return float(np.mean(notes["value"][batches] / notes["extra"][batches]))


def busy_ps(start: np.ndarray, end: np.ndarray) -> int:
    """Length of the union of the intervals ``[start, end)``."""
    if start.size == 0:
        return 0
    order = np.argsort(start, kind="stable")
    begin, reach = start[order], np.maximum.accumulate(end[order])
    gaps = np.maximum(begin[1:] - reach[:-1], 0).sum()
    return int(reach[-1] - begin[0] - gaps)


#: Endings of the actions that operators of a user's kernel table count, extrapolated ones last.
TABLE_ACTIONS = (".table_cycle", ".table_far_cycle")


def table_share(trace: Trace, endings: tuple[str, ...] = TABLE_ACTIONS) -> float:
    """Share of the run in which operators ran whose time is from a table of measured kernels."""
    counts = trace.counts
    names = cached(trace.whole, actions_of)[0]
    named = names[[str(action).endswith(endings) for action in names]] if names.size else names
    if not named.size:
        return 0.0
    ops = np.append(np.isin(trace.ops["op"], counts["op"][np.isin(counts["action"], named)]), False)
    pieces = []
    for part in trace.parts():
        mine = part.ran & ops[part.row_op]
        pieces.append(union(part.rows["start_ps"][mine], part.row_end_ps[mine]))
    spent = busy_ps(*joined(pieces))
    return spent / trace.duration_ps if trace.duration_ps else 0.0


class DecodePhases:
    """Intervals in which at least one unit worked for each phase of ``ops``, over the job's blocks but prefill."""

    def __init__(self, trace: Trace) -> None:
        names, self._phase = np.unique(trace.ops["phase"], return_inverse=True)
        self._pieces: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in names.tolist()}

    def add(self, part: Trace) -> None:
        """Add the rows of a part."""
        mine = np.flatnonzero(decode_rows(part) & part.ran & (part.rows["unit"] >= 0) & (part.row_op >= 0))
        start, end, phase = part.rows["start_ps"][mine], part.row_end_ps[mine], self._phase[part.row_op[mine]]
        pieces = list(self._pieces.values())
        for i in np.flatnonzero(np.bincount(phase)).tolist():
            of = phase == i
            pieces[i].append(union(start[of], end[of]))

    def seconds(self) -> dict[str, float]:
        """Length of the intervals by phase, in alphabetical order; phases that nothing worked for are left out."""
        return {name: busy_ps(*joined(found)) / PS_PER_S for name, found in self._pieces.items() if found}


def decode_phases(trace: Trace) -> dict[str, float]:
    """Seconds in which at least one unit worked for each phase of ``ops``, over the job's blocks but prefill."""
    return sums(trace, DecodePhases).seconds()


class UnitTime:
    """Time that each unit was held, ps: ``busy``."""

    def __init__(self, trace: Trace) -> None:
        self.busy = np.zeros(len(trace.unit_names))

    def add(self, part: Trace) -> None:
        """Add the rows of a part."""
        rows = part.rows
        held = np.where(part.ran, rows["unit"] + 1, 0)  # the first entry is that of rows without a unit
        self.busy += np.bincount(held, part.row_end_ps - rows["start_ps"], len(self.busy) + 1)[1:]


def busy_fraction(trace: Trace) -> dict[str, float]:
    """Fraction of the run in which each unit was busy, lead and stalls included."""
    busy, span = sums(trace, UnitTime).busy, trace.duration_ps
    return {name: float(ps / span) if span else 0.0 for name, ps in zip(trace.unit_names, busy)}
