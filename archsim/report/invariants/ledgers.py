"""Tokens and energy: the same total, counted in several ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from archsim.report.energy import PJ_PER_J, PJ_PER_MW_PS, energy, static_mw
from archsim.report.invariants.view import View, fail, first
from archsim.report.states import spans
from archsim.report.waste import wasted_pj

#: Relative error of sums of energies in floating point.
ROUNDING = 1e-9


def check_tokens(view: View, summary: Mapping[str, Any]) -> int:
    """Tokens committed, those of the ends of requests, and the summary's agree; returns the comparisons made."""
    notes = view.trace.notes
    kind, request, value, extra = notes["kind"], notes["request"], notes["value"], notes["extra"]
    for what, words in (("commit", "commits less than no token"), ("draft", "drafts less than no token")):
        bad = (kind == what) & (value < 0)
        if bad.any():
            i, more = first(bad)
            fail("tokens", f"mark {i} of request {request[i]} {words}", more)
    accepts = np.flatnonzero(kind == "accept")
    bad = (value[accepts] > extra[accepts]) | (value[accepts] < 0)
    if bad.any():
        i, more = first(bad)
        mark = accepts[i]
        fail("tokens", f"mark {mark} accepts {value[mark]} of {extra[mark]} verified tokens", more)
    commits, ends = kind == "commit", np.flatnonzero(kind == "end")
    known, which = np.unique(request, return_inverse=True)
    total = np.bincount(which[commits], value[commits], len(known)).astype(np.int64)
    bad = total[which[ends]] != value[ends]
    if bad.any():
        i, more = first(bad)
        mark = ends[i]
        text = f"request {request[mark]} ends with {value[mark]} tokens, but {total[which[mark]]} were committed"
        fail("tokens", text, more)
    if int(total.sum()) != summary["tokens"]:
        fail("tokens", f"{int(total.sum())} tokens were committed, but the summary says {summary['tokens']}")
    return int(commits.sum()) + len(accepts) + len(ends) + 1


def check_energy(view: View, summary: Mapping[str, Any]) -> int:
    """Energy by rows and by actions, by phases, by use, and of the summary agree; returns the comparisons made."""
    trace = view.trace
    spent = energy(trace)
    by_row: dict[str, float] = {}
    for device, lost, whole in wasted_pj(trace):
        bad = (whole < 0) | (lost < 0) | (lost > whole * (1 + ROUNDING) + ROUNDING)
        if bad.any():
            i, more = first(bad)
            fail(
                "energy", f"row {trace.rows['row'][i]} costs {whole[i]:.6g} pJ on {device}, {lost[i]:.6g} wasted", more
            )
        by_row[device] = float(whole.sum()) / PJ_PER_J
    by_action: dict[str, float] = {}
    for action, joule in spent.action_j.items():
        device = action.split(".", 1)[0]
        by_action[device] = by_action.get(device, 0.0) + joule
    when = spans(trace)
    static = sum(mw * float(when[b].weight_ps.sum()) * PJ_PER_MW_PS / PJ_PER_J for b, mw in static_mw(trace).items())
    reported = summary["energy_j"] + sum(stream["energy_j"] for stream in summary["background"].values())
    pairs = [(f"of {device} by rows and by actions", by_row.get(device, 0.0), j) for device, j in by_action.items()]
    pairs += [
        ("by phases and by actions", sum(spent.phase_j.values()), spent.dynamic_j),
        ("useful and wasted, and by actions", spent.useful_j + spent.wasted_j, spent.dynamic_j),
        ("by rows and states, and of the summary", sum(by_row.values()) + static, reported),
    ]
    for what, one, other in pairs:
        if abs(one - other) > ROUNDING * max(abs(one), abs(other)):
            fail("energy", f"energy {what} differ: {one:.12g} against {other:.12g} J")
    return len(pairs)
