"""All reports of one run as one plain document: what ``archsim report`` prints, with units in the keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from archsim.report.figures import KINDS, figure
from archsim.report.null import null_model
from archsim.report.owner import sentence
from archsim.report.style import save
from archsim.report.summary import summarise
from archsim.report.tables import TABLES, table
from archsim.trace import Trace

_TITLES = {
    "requests": "Requests",
    "acceptance": "Acceptance of drafted tokens",
    "latency": "Latency by phase and unit",
    "units": "Units",
    "bytes": "Bytes moved",
    "energy": "Energy by device and action",
    "waste": "Useful and wasted energy",
    "area": "Area",
}


def document(trace: Trace, title: str) -> dict[str, Any]:
    """Report of a run: summary, tables by title, null model, one sentence of insight, and notes on what to distrust."""
    tables = {_TITLES[name]: table(trace, name) for name in TABLES if name in _TITLES}
    tables["Null model (bytes / bandwidth + operations / peak), per step"] = [null_model(trace)]
    return {
        "title": title,
        "summary": summarise(trace),
        "null_model": null_model(trace),
        "tables": tables,
        "insight": [sentence(trace)],
        "notes": _notes(trace),
        "files": [],
    }


def _notes(trace: Trace) -> list[str]:
    manifest = trace.manifest
    label = manifest["stream"]["label"]
    notes = []
    if label.startswith("recorded-proxy"):
        notes.append(f"acceptance is a proxy: the stream was recorded from another model ({label})")
    elif manifest["stream"]["kind"] == "synthetic":
        notes.append(f"acceptance is drawn from a labelled generator ({label})")
    if manifest["warnings"].get("ended_early"):
        notes.append(f"{manifest['warnings']['ended_early']} request(s) ended early, where the recording ends")
    share = uncalibrated_share(trace)
    if share:
        worst = max(share, key=lambda pool: share[pool])
        notes.append(f"{share[worst]:.0%} of the time of {worst} was spent in stream mixes without a measured capacity")
    return notes


def uncalibrated_share(trace: Trace) -> dict[str, float]:
    """Share of each pool's busy time in mixes of two or more streams that its table does not list."""
    mix = trace.tables["mix"]
    found = {}
    for index, pool in enumerate(trace.manifest["pools"]):
        known = {mask for mask, _ in pool["mix"]}
        busy = lost = 0
        for mask, spent in zip(mix["mask"][mix["pool"] == index], mix["time_ps"][mix["pool"] == index]):
            if mask == 0:
                continue
            busy += int(spent)
            several = int(mask) & (int(mask) - 1)
            lost += int(spent) if several and int(mask) not in known else 0
        if lost and pool["unit"] == "bytes/s":
            found[pool["name"]] = lost / busy
    return found


def write_figures(trace: Trace, folder: Path) -> list[str]:
    """Write every figure of a run as SVG; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    return [str(save(figure(trace, kind), folder / f"{kind}.svg")) for kind in KINDS]
