"""``archsim reproduce``: rows of a table by name, with their score."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from archsim.reproduce import ahasd_map, llada_map
from archsim.reproduce.ahasd import BENCH, ahasd_rows
from archsim.reproduce.ahasd_claims import claim_rows
from archsim.reproduce.devices import dram_rows, flash_rows, layout_rows, pim_rows, systolic_rows
from archsim.reproduce.energy import energy_rows
from archsim.reproduce.generations import generation_rows
from archsim.reproduce.lever import lever_rows
from archsim.reproduce.llada import fit_rows, ladder_rows, technique_rows
from archsim.reproduce.llada_claims import CLAIMS
from archsim.reproduce.npu import npu_rows
from archsim.reproduce.rows import Row, score
from archsim.reproduce.trends_curves import crossover_rows, curve_rows
from archsim.reproduce.trends_identity import elasticity_rows, identity_rows
from archsim.reproduce.trends_perturbations import perturbation_rows
from archsim.reproduce.trends_ranks import rank_rows
from archsim.units import InputError, quote, suggest

#: Tables by name; ``all`` is every one of them.
TABLES: Mapping[str, tuple[Callable[[], Iterator[Row]], ...]] = {
    "devices": (dram_rows, pim_rows, flash_rows, npu_rows, systolic_rows, layout_rows),
    "energy": (energy_rows,),
    "generations": (generation_rows,),
    "lever": (lever_rows,),
    "llada": (ladder_rows, fit_rows, technique_rows, *CLAIMS),
    "ahasd": (ahasd_rows, claim_rows, ahasd_map.map_rows),
    "llada_map": (llada_map.map_rows, llada_map.sweep_rows),
    "trends": (identity_rows, elasticity_rows, perturbation_rows, curve_rows, crossover_rows, rank_rows),
}


def reproduce(name: str, progress: Any = None) -> tuple[list[Row], dict[str, Any]]:
    """Rows and score of a table.

    Raises
    ------
    InputError
        For an unknown table.
    """
    if name not in (*TABLES, "all"):
        raise InputError(f"no table {quote(name)}; {suggest(name, (*TABLES, 'all'))}")
    rows: list[Row] = []
    if progress is not None:
        progress.start(f"reproduce {name}")
        BENCH.watch = lambda runs: progress.update(len(rows), max(len(rows) + 1, 150), f"{runs} runs")
    try:
        for table in TABLES if name == "all" else (name,):
            for source in TABLES[table]:
                for row in source():
                    rows.append(row)
                    if progress is not None:
                        progress.update(len(rows), max(len(rows) + 1, 150), row.id)
    finally:
        if progress is not None:
            progress.stop()
            BENCH.watch = None
    return rows, score(rows)
