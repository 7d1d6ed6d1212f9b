"""Between the engine's columns and a trace: ids become names, and a stored script becomes playable again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from archsim.config import InputError
from archsim.engine.block import Block
from archsim.engine.record import Script, template_of
from archsim.engine.sim import Sim
from archsim.trace import SCRIPT, Columns, Trace
from archsim.trace.spill import Spill
from archsim.trace.stored import StoredTable, between, groups

_RATE_ONE = 1 << 20


def tables_of(sim: Sim, *, script: bool = True, store: Spill | None = None) -> dict[str, Columns]:
    """Tables of a trace from a finished simulation: all but the operator table, which the planner has.

    Without `script` the trace cannot be replayed, and is made in about two thirds of the time. What the `store` of the
    simulation has written by now is left out.
    """
    long = script and not sim.keeps_script
    if long:
        sim.flush()
    blocks, notes, rates = sim.blocks(), sim.notes(), sim.rates()
    labels = [label.partition(".") for label in sim.labels]
    marked = blocks["total"] >= 0
    tables: dict[str, Columns] = {
        "rows": sim.rows() if store is None else store.rest(sim.rows()),
        "blocks": {
            "block": blocks["block"],
            "label": _named(sim.labels, blocks["label"]),
            "role": _named([role for role, _, _ in labels], blocks["label"]),
            "phase": _named([phase for _, _, phase in labels], blocks["label"]),
            "request": blocks["request"],
            "emit_ps": blocks["emit_ps"],
            "end_ps": blocks["end_ps"],
            "useful": np.where(marked, blocks["useful"], 0),
            "total": np.where(marked, blocks["total"], 0),
            "status": blocks["status"],
        },
        "notes": {**notes, "kind": _named(sim.kinds, notes["kind"])},
        "rates": {
            "time_ps": rates["time_ps"],
            "target": np.array([_target(sim, pool, i) for pool, i in zip(rates["pool"], rates["id"])], dtype=str),
            "fraction": rates["rate"] / _RATE_ONE,
        },
        "mix": _mix(sim.mix_time()),
    }
    if sim.log == "full":
        pools, levels = sim.pool_log(), sim.levels_log()
        tables["pool_log"] = {"time_ps": pools["time_ps"], "pool": pools["pool"], "value": pools["usage"]}
        tables["levels_log"] = {"time_ps": levels["time_ps"], "store": levels["store"], "value": levels["level"]}
    if store is not None and store.written:
        del tables["rows"]
    if not script or long:
        return tables
    return tables | {name: table for name, table in sim.script().tables().items() if table}


def script_of(trace: Trace, where: str) -> Script:
    """Playable script of a trace.

    Raises
    ------
    InputError
        When the trace holds no script, or a damaged one.
    """
    if "script" not in trace.tables:
        raise InputError(f"{where}: holds no script to replay; it was written without one")
    try:
        tables = {name: trace.tables[name] for name in SCRIPT if name in trace.tables}
        labels, kinds = trace.manifest["labels"], trace.manifest["note_kinds"]
        if any(isinstance(table, StoredTable) for table in tables.values()):
            templates = StoredTemplates(tables["script_rows"], tables["script_edges"])
            after = tables.get("script_after", {}).get("block", np.empty(0, dtype=np.int64))  # empty: not written
            return Script(dict(tables["script"]), after, templates, labels, kinds)
        return Script.from_tables(tables, trace.manifest["labels"], trace.manifest["note_kinds"])
    except (KeyError, ValueError, IndexError) as error:
        raise InputError(f"{where}: its script cannot be read ({error}); run it again") from None


class StoredTemplates(Sequence[Block]):
    """Templates of a script that is too long for memory."""

    def __init__(self, rows: Columns, edges: Columns) -> None:
        self._tables = (rows, edges)
        self._first = [self._starts(table) for table in self._tables]

    @staticmethod
    def _starts(table: Columns) -> np.ndarray:
        """Number of entries before each template."""
        counts = np.zeros(0, dtype=np.int64)
        for part in groups(table):
            found = np.bincount(part["template"])
            wide = np.zeros(max(len(found), len(counts)), dtype=np.int64)
            wide[: len(counts)] += counts
            wide[: len(found)] += found
            counts = wide
        return np.concatenate([[0], np.cumsum(counts)])

    def __len__(self) -> int:
        return len(self._first[0]) - 1

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"the script has {len(self)} templates, not number {index}")
        rows, edges = (self._slice(which, index) for which in (0, 1))
        return template_of(rows, edges)

    def _slice(self, which: int, index: int) -> Columns:
        first = self._first[which]
        if index >= len(first) - 1:
            return {name: np.empty(0, dtype=np.int64) for name in self._tables[which]}
        return between(self._tables[which], int(first[index]), int(first[index + 1]))


def _named(names: list[str], ids: np.ndarray) -> np.ndarray:
    return np.array(names, dtype=str)[ids] if len(ids) else np.empty(0, dtype="U1")


def _target(sim: Sim, pool: Any, index: Any) -> str:
    return (sim.pools if pool else sim.units)[int(index)].name


def _mix(table: np.ndarray) -> dict[str, np.ndarray]:
    """Long form of the time each pool spent in each stream mix."""
    pool, mask = np.nonzero(table)
    return {"pool": pool.astype(np.int64), "mask": mask.astype(np.int64), "time_ps": table[pool, mask]}
