"""Which row waited for which, from the recorded script of a run: edges of blocks, and blocks emitted after others."""

from __future__ import annotations

import numpy as np

from archsim.trace import EMIT, Trace, positions
from archsim.units import InputError


def dependencies(trace: Trace) -> tuple[np.ndarray, np.ndarray] | None:
    """Pairs of positions in ``rows``: the second could not start before the first had ended.

    A block that was emitted after another waits for that one's last row (its join). None without a script.

    Raises
    ------
    InputError
        When the script is damaged.
    """
    if any(name not in trace.tables for name in ("script", "script_rows")):
        return None
    try:
        return _pairs(trace)
    except (KeyError, IndexError, ValueError) as error:
        raise InputError(f"the script of this trace cannot be read ({error}); run it again") from None


def block_edges(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Ids of rows and of their successors in the same block, one pair for each edge of every emitted block.

    Raises
    ------
    KeyError, IndexError, ValueError
        When the trace holds no script, or a damaged one.
    """
    edges = trace.tables.get("script_edges")
    if edges is None or not len(edges.get("template", ())):  # an empty table is not always written
        return np.empty(0, np.int64), np.empty(0, np.int64)
    script = trace.tables["script"]
    template = script["a"][script["kind"] == EMIT]
    sizes = np.bincount(trace.tables["script_rows"]["template"])
    first = np.cumsum(sizes[template]) - sizes[template]  # id of each block's first row
    counts = np.bincount(edges["template"], minlength=len(sizes))
    offset = np.cumsum(counts) - counts
    # edges of every emitted block: those of its template, moved to its rows
    number = counts[template]
    inside = np.arange(int(number.sum())) - np.repeat(np.cumsum(number) - number, number)
    edge = np.argsort(edges["template"], kind="stable")[np.repeat(offset[template], number) + inside]
    base = np.repeat(first, number)
    return base + edges["row"][edge], base + edges["succ"][edge]


def _pairs(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    script = trace.tables["script"]
    emit = np.flatnonzero(script["kind"] == EMIT)
    template = script["a"][emit]
    size = np.bincount(trace.tables["script_rows"]["template"])[template]
    first = np.cumsum(size) - size  # id of each block's first row
    before, after = block_edges(trace)
    waited = trace.tables["script_after"]["block"] if "script_after" in trace.tables else np.empty(0, np.int64)
    waiting = np.repeat(np.arange(len(template)), script["e"][emit])[: len(waited)]
    last = first + size - 1
    more_before, more_after = _roots(waited, waiting, last, first, size, after)
    ids = trace.rows["row"]
    pair = positions(ids, np.append(before, more_before)), positions(ids, np.append(after, more_after))
    known = (pair[0] >= 0) & (pair[1] >= 0)
    return pair[0][known], pair[1][known]


def _roots(
    waited: np.ndarray,
    waiting: np.ndarray,
    last: np.ndarray,
    first: np.ndarray,
    size: np.ndarray,
    after: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows without a predecessor in their block wait for the joins of the blocks theirs was emitted after."""
    has = np.zeros(int(size.sum()), dtype=bool)
    has[after] = True
    before, then = [], []
    for other, mine in zip(waited.tolist(), waiting.tolist()):
        roots = first[mine] + np.flatnonzero(~has[first[mine] : first[mine] + size[mine]])
        before.append(np.full(len(roots), last[other]))
        then.append(roots)
    empty = np.empty(0, dtype=np.int64)
    return np.concatenate([empty, *before]), np.concatenate([empty, *then])


def ready_ps(trace: Trace) -> np.ndarray | None:
    """When each row had all it depends on: its block emitted, every row before it ended; -1 where that never came.

    None without a script.
    """
    pairs = dependencies(trace)
    if pairs is None:
        return None
    emit = np.append(trace.blocks["emit_ps"], -1)[trace.row_block]
    before, after = pairs
    end = trace.rows["end_ps"]
    ready = emit.copy()
    np.maximum.at(ready, after, end[before])
    never = np.zeros(len(ready), dtype=bool)
    never[after[end[before] < 0]] = True
    return np.where(never, -1, ready)


def across(trace: Trace) -> tuple[np.ndarray, np.ndarray] | None:
    """Pairs of `dependencies` on different units, both of which ran; joins between them are followed.

    A row that waits for a join waits for the row that ended last before it. None without a script.
    """
    pairs = dependencies(trace)
    if pairs is None:
        return None
    unit, end = trace.rows["unit"], trace.rows["end_ps"]
    before, after = pairs
    owner = _behind(unit, end, before, after)
    real = np.where(unit[before] < 0, owner[before], before)
    keep = (real >= 0) & (unit[after] >= 0) & trace.ran[after]
    real, after = real[keep], after[keep]
    apart = (unit[real] != unit[after]) & trace.ran[real]
    joined = np.unique(np.stack([real[apart], after[apart]]), axis=1)
    return joined[0], joined[1]


def _behind(unit: np.ndarray, end: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """For each join, the row on a unit that ended last of those it waited for; -1 for none."""
    found = np.full(len(unit), -1, dtype=np.int64)
    into = np.flatnonzero(unit[after] < 0)
    order = into[np.lexsort((before[into], end[before[into]], after[into]))]
    # joins may follow joins: rows come in order of ids, and a join has a higher id than what it waits for
    for b, a in zip(before[order].tolist(), after[order].tolist()):
        source = b if unit[b] >= 0 else int(found[b])
        if source >= 0:
            found[a] = source
    return found
