"""Totals of a run with the range that the prices leave, and machines compared by area."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archsim.report.area import UM2_PER_MM2, area_mm2
from archsim.report.energy import energy
from archsim.report.power import power
from archsim.report.pricing import bounded
from archsim.report.summary import requests
from archsim.trace import Trace
from archsim.units import PS_PER_S, InputError

ENDS = ("low", "typical", "high")
#: Bin of the peak in the totals. assumed: what a phone's own gauge resolves, where published peaks come from.
GAUGE_PS = PS_PER_S // 10


def ends(trace: Trace) -> dict[str, Trace]:
    """The run with all prices low, as they are, and all high.

    All prices at one end at once: the widest range there is. It is no confidence interval.
    """
    return {"low": bounded(trace, "low"), "typical": trace, "high": bounded(trace, "high")}


def totals(trace: Trace) -> list[dict[str, Any]]:
    """Headline totals at the low and high end of all prices.

    Returns
    -------
    list of dict
        ``quantity``, ``unit``, ``low``, ``typical``, ``high``: energy, energy per token, mean power, energy by device,
        energy-delay product of the run and of a token (energy per token x time per token), and area.
    """
    seconds = trace.duration_ps / PS_PER_S
    tokens = sum(request["tokens"] for request in requests(trace))
    spent = {end: energy(priced) for end, priced in ends(trace).items()}
    joule = {end: found.total_j for end, found in spent.items()}
    rows = [_row("energy", "J", joule), _row("energy-delay product", "J s", joule, seconds)]
    if seconds:
        rows.append(_row("mean power", "W", joule, 1 / seconds))
        peaks = {end: power(priced, GAUGE_PS).peak_w() for end, priced in ends(trace).items()}
        rows.append(_row("peak power of 100 ms", "W", peaks))
    if tokens:
        rows.append(_row("energy per token", "J", joule, 1 / tokens))
        rows.append(_row("energy-delay product per token", "J s", joule, seconds / tokens**2))
    devices = {end: found.by_device() for end, found in spent.items()}
    rows += [
        _row(f"energy of {name}", "J", {end: found[name] for end, found in devices.items()})
        for name in sorted(devices["typical"])
    ]
    area = {end: sum(area_mm2(priced).values()) for end, priced in ends(trace).items()}
    return [*rows, _row("area", "mm2", area)]


def _row(quantity: str, unit: str, values: Mapping[str, float], factor: float = 1.0) -> dict[str, Any]:
    return {"quantity": quantity, "unit": unit, **{end: values[end] * factor for end in ENDS}}


def overhead(trace: Trace, baseline: Trace) -> list[dict[str, Any]]:
    """Area of the machine of a run against that of a baseline's, by block.

    Returns
    -------
    list of dict
        ``block``, ``area_mm2``, ``baseline_mm2``, ``added_mm2``, and ``added_share`` of the baseline's whole area;
        blocks that differ, then ``total``.

    Raises
    ------
    InputError
        When the baseline has no area.
    """
    mine, other = area_mm2(trace), area_mm2(baseline)
    whole = sum(other.values())
    if not whole:
        raise InputError("the baseline's machine declares no area; give a run on another machine")
    lines = [(block, mine.get(block, 0.0), other.get(block, 0.0)) for block in sorted({*mine, *other})]
    changed = [line for line in lines if abs(line[1] - line[2]) > 1 / UM2_PER_MM2]
    return [
        {"block": block, "area_mm2": a, "baseline_mm2": b, "added_mm2": a - b, "added_share": (a - b) / whole}
        for block, a, b in (*changed, ("total", sum(mine.values()), whole))
    ]


def against(trace: Trace, baseline: Trace) -> list[dict[str, Any]]:
    """Totals of a run beside a baseline's, typical prices: ``quantity``, ``unit``, ``run``, ``baseline``, ``ratio``."""
    base = {row["quantity"]: row["typical"] for row in totals(baseline)}
    return [
        {
            "quantity": row["quantity"],
            "unit": row["unit"],
            "run": row["typical"],
            "baseline": base.get(row["quantity"]),
            "ratio": row["typical"] / base[row["quantity"]] if base.get(row["quantity"]) else None,
        }
        for row in totals(trace)
    ]
