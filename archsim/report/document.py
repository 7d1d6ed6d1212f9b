"""All reports of one run as one plain document: what ``archsim report`` prints, with units in the keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from archsim.report.cautions import cautions
from archsim.report.cycles import cycles
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
    "inter_token": "Time between tokens",
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
    speculated = cycles(trace)
    if speculated:
        tables["Speculative cycles: what the policy's tables predicted, and what was met"] = speculated
    tables["Null model (bytes / bandwidth + operations / peak), per step"] = [null_model(trace)]
    return {
        "title": title,
        "summary": summarise(trace),
        "null_model": null_model(trace),
        "tables": tables,
        "insight": [sentence(trace)],
        "notes": list(cautions(trace)),
        "files": [],
    }


def write_figures(trace: Trace, folder: Path) -> list[str]:
    """Write every figure of a run as SVG; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    return [str(save(figure(trace, kind), folder / f"{kind}.svg")) for kind in KINDS]
