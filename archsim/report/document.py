"""All reports of one run as one plain document: what ``archsim report`` prints, with units in the keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from archsim.report.cautions import cautions
from archsim.report.cycles import cycles
from archsim.report.figures import figure, kinds_of
from archsim.report.heat import heat, is_thermal
from archsim.report.null import null_model
from archsim.report.owner import sentence
from archsim.report.style import save
from archsim.report.summary import summarise
from archsim.report.tables import TABLES, table, write_table
from archsim.report.totals import against, overhead
from archsim.trace import Trace
from archsim.units import PS_PER_S

#: Titles of the tables of a run by their names.
TITLES = {
    "requests": "Requests",
    "acceptance": "Acceptance of drafted tokens",
    "inter_token": "Time between tokens",
    "ahead": "Drafting ahead of verification",
    "latency": "Latency by phase and unit",
    "units": "Units",
    "bytes": "Bytes moved",
    "totals": "Totals with all prices low, typical and high",
    "energy": "Energy by device and action",
    "phases": "Energy by phase",
    "states": "Static power by state",
    "use": "Useful and wasted energy",
    "waste": "Wasted energy by cause",
    "area": "Area",
    "window": "Address windows",
    "background": "Background streams",
}


def document(trace: Trace, title: str) -> dict[str, Any]:
    """Report of a run: summary, tables by title, null model, one sentence of insight, and notes on what to distrust."""
    tables = {TITLES[name]: table(trace, name) for name in TABLES if name in TITLES}
    for optional in ("window", "ahead", "background"):  # not every machine or schedule has them
        if not tables[TITLES[optional]]:
            del tables[TITLES[optional]]
    if is_thermal(trace):
        tables["Heat over time"] = heat(trace, max(10 * PS_PER_S, -(-trace.duration_ps // 60)))
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
        "notes": [*_pricing(trace), *cautions(trace)],
        "files": [],
    }


def _pricing(trace: Trace) -> list[str]:
    """Say when the prices are not the run's own."""
    name = trace.manifest.get("priced_by")
    return [f"priced by the table {name}, not by the run's own prices"] if name else []


def compared(document: dict[str, Any], trace: Trace, baseline: Trace) -> None:
    """Add the tables that set a run against a baseline."""
    document["tables"]["Against the baseline"] = against(trace, baseline)
    document["tables"]["Area against the baseline's machine"] = overhead(trace, baseline)


def write_tables(trace: Trace, folder: Path, ending: str) -> list[str]:
    """Write every table of a run into a folder as ``<table>.<ending>``; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {name: table(trace, name) for name in TABLES}
    if ending == "parquet":  # a column there has one type: the summary's values become text
        made["summary"] = [{key: str(value) for key, value in row.items()} for row in made["summary"]]
    return [str(write_table(rows, folder / f"{name}.{ending}")) for name, rows in made.items()]


def write_figures(trace: Trace, folder: Path) -> list[str]:
    """Write every figure that a run has as SVG; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    return [str(save(figure(trace, kind), folder / f"{kind}.svg")) for kind in kinds_of(trace)]
