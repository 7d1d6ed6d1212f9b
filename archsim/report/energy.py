"""Energy of a run: counts times prices, by device, action, phase and token, and how much of it was wasted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from archsim.report.states import slowed_devices, spans, voltage_factors
from archsim.report.sums import cached, sums
from archsim.report.traffic import action_counts, actions_of, free_rows, partly
from archsim.trace import Trace, positions
from archsim.units import PS_PER_S, InputError

#: pJ per J: as many as ps per s.
PJ_PER_J = PS_PER_S
#: mW times ps is 1e-15 J, that is 1e-3 pJ.
PJ_PER_MW_PS = 1e-3


@dataclass(frozen=True)
class Energy:
    """Energy of a run in joule.

    ``action_j`` by ``<device>.<action>`` and ``static_j`` by ``<device>.<block>`` add up to ``total_j``. ``useful_j``
    and ``wasted_j`` split the dynamic part (see :mod:`archsim.report.waste`);
    ``unmarked_j`` is the part of ``useful_j`` that stems from blocks without
    a mark (prefill, loads, control), whose work nothing ever rejected. ``free_rows`` counts rows that were
    cut so early that nothing tells what they cost (see :mod:`archsim.report.traffic`).
    """

    total_j: float
    dynamic_j: float
    action_j: Mapping[str, float]
    static_j: Mapping[str, float]
    counts: Mapping[str, float]
    phase_j: Mapping[str, float]
    useful_j: float
    wasted_j: float
    unmarked_j: float
    device_useful_j: Mapping[str, float]
    device_wasted_j: Mapping[str, float]
    free_rows: int

    def by_device(self) -> dict[str, float]:
        """Dynamic and static energy by device, in joule."""
        found: dict[str, float] = {}
        for name, value in (*self.action_j.items(), *self.static_j.items()):
            device = name.split(".", 1)[0]
            found[device] = found.get(device, 0.0) + value
        return found


def prices_pj(trace: Trace) -> dict[str, float]:
    """Price of each action that the op table counts, in pJ.

    Raises
    ------
    InputError
        Naming an action that has no price, or a price that is not in pJ.
    """
    table = trace.manifest["prices"]["energy_pj"]
    found = {}
    for action in cached(trace.whole, actions_of)[0].tolist():
        if action not in table:
            raise InputError(
                f"action {action!r} is counted but has no energy price; add it to the energy table of device "
                f"{action.split('.', 1)[0]!r}"
            )
        if not table[action]["unit"].startswith("pJ"):
            raise InputError(f"price of action {action!r} is in {table[action]['unit']!r}; it must be in pJ")
        found[action] = float(table[action]["value"])
    return found


def static_mw(trace: Trace) -> dict[str, float]:
    """Static power by ``<device>.<block>``, in mW; a power in another unit raises InputError."""
    found = {}
    for block, cost in trace.manifest["prices"]["power_mw"].items():
        if cost["unit"] != "mW":
            raise InputError(f"static power of {block!r} is in {cost['unit']!r}; it must be in mW")
        found[block] = float(cost["value"])
    return found


def device_pj(trace: Trace) -> tuple[list[str], np.ndarray]:
    """Devices, and the pJ that one execution of each entry of ``ops`` costs on each: ``[devices, ops]``."""
    prices, counts = prices_pj(trace), trace.counts
    actions, which = cached(trace.whole, actions_of)
    devices = sorted({action.split(".", 1)[0] for action in prices})
    device_of = np.array([devices.index(action.split(".", 1)[0]) for action in actions], dtype=np.int64)
    price_of = np.array([prices[action] for action in actions])
    cost = np.zeros((len(devices), len(trace.ops["op"])))
    if len(actions):
        np.add.at(cost, (device_of[which], count_places(trace)), counts["count"] * price_of[which])
    return devices, cost


def count_places(trace: Trace) -> np.ndarray:
    """Position in ``ops`` of each entry of ``counts``; an op that is not listed raises InputError."""
    place = positions(trace.ops["op"], trace.counts["op"])
    if (place < 0).any():
        raise InputError(f"table 'counts' names op {trace.counts['op'][place < 0][0]}, which table 'ops' does not list")
    return place


def row_pj(trace: Trace, cost: np.ndarray) -> np.ndarray:
    """Energy of each row, in pJ, from a cost per execution of each entry of ``ops``; cut rows pro-rated."""
    whole = np.append(cost, 0.0)[trace.row_op]  # position -1 (join rows) costs nothing
    part = cached(trace, partly)
    return whole if part is None else whole * part


def energy(trace: Trace) -> Energy:
    """Energy of the run.

    Raises
    ------
    InputError
        When an action that was counted has no price.
    """
    prices, counts = prices_pj(trace), action_counts(trace)
    priced = dict(counts)
    for device in slowed_devices(trace):
        slowed = action_counts(trace, lambda part, device=device: voltage_factors(part)[device])
        priced |= {action: count for action, count in slowed.items() if action.split(".", 1)[0] == device}
    action_j = {action: count * prices[action] / PJ_PER_J for action, count in priced.items()}
    when = cached(trace, spans)
    static_j = {b: mw * float(when[b].weight_ps.sum()) * PJ_PER_MW_PS / PJ_PER_J for b, mw in static_mw(trace).items()}
    split = sums(trace, Split)
    dynamic_j = sum(action_j.values())
    return Energy(
        total_j=dynamic_j + sum(static_j.values()),
        dynamic_j=dynamic_j,
        action_j=action_j,
        static_j=static_j,
        counts=counts,
        phase_j=split.phase_j,
        useful_j=sum(split.useful_j.values()),
        wasted_j=sum(split.wasted_j.values()),
        unmarked_j=split.unmarked_j,
        device_useful_j=split.useful_j,
        device_wasted_j=split.wasted_j,
        free_rows=free_rows(trace),
    )


class Split:
    """Dynamic energy in joule: useful and wasted by device, what unmarked blocks cost, and all of it by phase."""

    def __init__(self, trace: Trace) -> None:
        self.useful_j: dict[str, float] = {}
        self.wasted_j: dict[str, float] = {}
        self.phase_j: dict[str, float] = {}
        self.unmarked_j = 0.0

    def add(self, part: Trace) -> None:
        """Add the rows of a part."""
        from archsim.report.waste import useful_share, wasted_pj

        unmarked = np.flatnonzero(~cached(part, useful_share)[1])
        dynamic = np.zeros(len(part.rows["row"]))
        for device, lost, whole in wasted_pj(part):
            dynamic += whole
            kept = whole - lost
            self.wasted_j[device] = self.wasted_j.get(device, 0.0) + float(lost.sum()) / PJ_PER_J
            self.useful_j[device] = self.useful_j.get(device, 0.0) + float(kept.sum()) / PJ_PER_J
            self.unmarked_j += float(kept[unmarked].sum()) / PJ_PER_J
        for phase, joule in _by_phase(part, dynamic).items():
            self.phase_j[phase] = self.phase_j.get(phase, 0.0) + joule


def _op_phases(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Names of phases, and the phase of each entry of ``ops``; then that of prefill."""
    names, which = np.unique(np.append(trace.ops["phase"], "prefill"), return_inverse=True)
    return names, which


def row_phases(trace: Trace) -> tuple[list[str], np.ndarray]:
    """Names of phases, and the phase of each row (-1: rows without an operator); prefill blocks are ``prefill``."""
    names, which = cached(trace.whole, _op_phases)
    phase = np.append(which[:-1], -1)[trace.row_op]
    prefill = np.append(trace.blocks["phase"] == "prefill", False)[trace.row_block]
    phase[prefill & (phase >= 0)] = which[-1]
    return names.tolist(), phase


def _by_phase(trace: Trace, pj: np.ndarray) -> dict[str, float]:
    """Energy by phase of the operators; all that runs in prefill blocks is ``prefill``."""
    names, phase = row_phases(trace)
    has = phase >= 0
    totals = np.bincount(phase[has], pj[has], len(names))
    return {name: float(total) / PJ_PER_J for name, total in zip(names, totals)}


def by_phase_and_device(trace: Trace) -> list[dict[str, float | str]]:
    """Dynamic energy by phase and device, in joule: ``phase``, ``device``, ``energy_j``; zeros left out."""
    from archsim.report.waste import wasted_pj

    totals: dict[str, np.ndarray] = {}
    names: list[str] = []
    for part in trace.parts():
        names, phase = row_phases(part)
        has = phase >= 0
        for device, _, whole in wasted_pj(part):
            totals[device] = totals.get(device, 0.0) + np.bincount(phase[has], whole[has], len(names)) / PJ_PER_J
    return [
        {"phase": name, "device": device, "energy_j": float(joule)}
        for device, found in totals.items()
        for name, joule in zip(names, found)
        if joule > 0
    ]


def by_token(trace: Trace) -> list[dict[str, float]]:
    """Energy between one commit of the run and the next, and per token committed.

    Returns
    -------
    list of dict
        ``time_s``, ``tokens``, ``energy_j`` (static power included; since the previous commit, the first one since the
        start of the run) and ``energy_per_token_j``. Commits at one instant are one entry.
    """
    from archsim.report.power import energy_between

    notes = trace.notes
    commits = notes["kind"] == "commit"
    times, which = np.unique(notes["time_ps"][commits], return_inverse=True)
    tokens = np.bincount(which, notes["value"][commits], len(times))
    spent = energy_between(trace, np.concatenate([[0], times])).sum(axis=0) / PJ_PER_J if len(times) else np.empty(0)
    if len(times) and times[0] == 0:
        raise InputError("a token is committed at time 0, before anything was simulated")
    return [
        {
            "time_s": t / PS_PER_S,
            "tokens": int(n),
            "energy_j": float(e),
            "energy_per_token_j": float(e / n) if n else 0.0,
        }
        for t, n, e in zip(times.tolist(), tokens, spent)
    ]
