"""Energy that bought nothing: rejected drafts, rejected rows, cut work, and what was drawn while nothing ran.

A pass over several rows reads its weights once for all of them: that energy is *shared* and useful as long as any of
its rows was. What each row costs by itself (arithmetic, activations, KV) is wasted with the row. A pass of one row is
wasted whole with its row, and a load is useful if any row of its block was.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from archsim.report.energy import PJ_PER_J, PJ_PER_MW_PS, count_places, prices_pj, row_pj, static_mw
from archsim.report.states import spans, voltage_factors
from archsim.report.sums import cached
from archsim.report.traffic import actions_of
from archsim.trace import CUT, DONE, RUNNING, Trace

#: Actions that move bytes: the part of an operator's bytes that are weights is shared between its rows.
_MOVES = ("activate", "read_bits", "write_bits", "io_bits", "dma_bytes", "fabric_bytes", "dma_descriptor")
#: Kinds of operators that serve all rows of a pass alike.
_SHARED_KINDS = ("load", "map")
CAUSES = ("rejected drafts", "rejected rows", "cut work", "idle")


def shared_share(trace: Trace, place: np.ndarray) -> np.ndarray:
    """Part of each entry of ``counts`` that all rows of its pass share, 0 to 1; `place` is its position in ``ops``."""
    ops = trace.ops
    moved = ops["weight_bytes"] + ops["in_bytes"] + ops["out_bytes"] + ops["kv_bytes"]
    weights = np.divide(ops["weight_bytes"], moved, out=np.zeros(len(moved)), where=moved > 0)
    kinds = np.isin(np.char.lower(ops["kind"].astype(str)), _SHARED_KINDS)
    names, which = cached(trace.whole, actions_of)
    moves = np.array([name.split(".", 1)[1] in _MOVES for name in names.tolist()], dtype=bool)[which]
    share = np.where(moves, weights[place], 0.0)
    share = np.where(kinds[place], 1.0, share)
    return np.where(kinds[place] | (ops["m"][place] > 1), share, 0.0)


def useful_share(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Useful share of what each row costs by itself, and whether its block carries a mark.

    A row that was cut (or still ran when the run stopped) delivered nothing. A row that was done has the share
    ``useful / total`` of its block; in a block without a mark it is useful if the block was done and wasted if it was
    cut.
    """
    blocks, place = trace.blocks, trace.row_block
    total = blocks["total"]
    marked = total > 0
    share = np.divide(blocks["useful"], total, out=np.zeros(len(total)), where=marked)
    share = np.where(marked, share, blocks["status"] == DONE)
    share, marked = np.append(share, 1.0), np.append(marked, False)
    return np.where(trace.rows["status"] == DONE, share[place], 0.0), marked[place]


def split_pj(trace: Trace) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """By device, what each row costs on it, pJ: by itself, and shared with the other rows of its pass.

    Yields
    ------
    device, own_pj[rows], shared_pj[rows]
    """
    nothing = np.zeros(len(trace.rows["row"]))
    for device, own, shared in _split_pj(trace):
        yield device, own, nothing if shared is None else shared


def _split_pj(trace: Trace) -> Iterator[tuple[str, np.ndarray, np.ndarray | None]]:
    """As :func:`split_pj`; None where a device shares nothing."""
    factors = voltage_factors(trace)

    def scaled(device: str, cost: np.ndarray) -> np.ndarray:
        pj = row_pj(trace, cost)
        return pj * factors[device] if device in factors else pj

    for device, own, shared in cached(trace.whole, _operator_pj):
        yield device, scaled(device, own), None if shared is None else scaled(device, shared)


def _operator_pj(trace: Trace) -> list[tuple[str, np.ndarray, np.ndarray | None]]:
    """By device, what each operator costs on it, pJ: by itself, and shared with the other rows (None: nothing is)."""
    prices, counts = prices_pj(trace), trace.counts
    if not counts["op"].size:
        return []
    place = count_places(trace)
    part = shared_share(trace, place)
    names, which = cached(trace.whole, actions_of)
    cost = counts["count"] * np.array([prices[name] for name in names.tolist()])[which]
    of_action = np.array([name.split(".", 1)[0] for name in names.tolist()])
    found = []
    for device in np.unique(of_action).tolist():
        mine = (of_action == device)[which]
        own, shared = (
            np.bincount(place[mine], (cost * weight)[mine], len(trace.ops["op"])) for weight in (1.0 - part, part)
        )
        found.append((device, own, shared if shared.any() else None))
    return found


def wasted_pj(trace: Trace) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """By device, the wasted part of what each row cost on it, and all of it, pJ."""
    useful, _ = cached(trace, useful_share)
    lost, vain = 1.0 - useful, (useful <= 0).astype(float)
    for device, own, shared in _split_pj(trace):
        if shared is None:
            yield device, own * lost, own
        else:
            yield device, own * lost + shared * vain, own + shared


def waste(trace: Trace) -> list[dict[str, float | str]]:
    """Wasted energy by cause and device.

    Returns
    -------
    list of dict
        ``cause`` (one of :data:`CAUSES`), ``device``, ``energy_j`` and its ``share`` of the run's total. *Rejected
        drafts* are done rows of draft and predictor roles, *rejected rows* those of the target that it verified or
        computed in vain (pruned ones included), *cut work* is what had run of rows that were cut; *idle* is the static
        energy of blocks while they did nothing.
    """
    everything = 0.0
    found: dict[tuple[str, str], float] = {}
    drafted = np.append(np.isin(trace.blocks["role"], ("draft", "predictor")), False)
    for part in trace.parts():
        cut = np.isin(part.rows["status"], (CUT, RUNNING))
        drafts = ~cut & drafted[part.row_block]
        causes = {"rejected drafts": drafts, "rejected rows": ~cut & ~drafts, "cut work": cut}
        for device, lost, whole in wasted_pj(part):
            everything += float(whole.sum()) / PJ_PER_J
            for cause, mask in causes.items():
                found[cause, device] = found.get((cause, device), 0.0) + float(lost[mask].sum()) / PJ_PER_J
    power, when = static_mw(trace), cached(trace, spans)
    for block, mw in power.items():
        joule = mw * float(when[block].weight_ps.sum()) * PJ_PER_MW_PS / PJ_PER_J
        everything += joule
        if block.rsplit(".", 1)[-1] in ("idle", "retention", "gated"):
            key = ("idle", block.split(".", 1)[0])
            found[key] = found.get(key, 0.0) + joule
    return [
        {"cause": cause, "device": device, "energy_j": joule, "share": joule / everything if everything else 0.0}
        for (cause, device), joule in sorted(found.items(), key=lambda item: (CAUSES.index(item[0][0]), item[0][1]))
        if joule > 0
    ]
