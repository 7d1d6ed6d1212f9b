"""Address windows of a run: calls, bytes mapped, occupancy over time, and how broken up the free space was."""

from __future__ import annotations

from typing import Any

import numpy as np

from archsim.trace import ADD, CUT, DONE, EMIT, Trace, positions
from archsim.units import PS_PER_S, InputError


def window_stores(trace: Trace) -> dict[str, int]:
    """Stores of mapped bytes and of staging slots by name, with their ids."""
    endings = (".window", ".staging")
    return {store["name"]: i for i, store in enumerate(trace.manifest["stores"]) if store["name"].endswith(endings)}


def mapping_rows(trace: Trace) -> np.ndarray:
    """Which rows are the host's mapping thread."""
    return np.append(trace.ops["kind"] == "map", False)[trace.row_op] & trace.ran


def window(trace: Trace) -> list[dict[str, Any]]:
    """What was mapped into each device's address windows; empty where no device has any.

    Returns
    -------
    list of dict
        ``device``; ``map_calls`` (maps and unmaps by calls of their own) and ``mapped_bytes``; ``op_calls`` (operators
        called or prepared by the mapping thread) and ``swapped_bytes`` (mapped by those); ``host_s`` the mapping
        thread's time; ``window_bytes`` of all sessions and ``peak_bytes`` mapped (None where the trace holds neither
        levels nor a script); ``unmapping_passes`` and ``fragmentation``, the largest share of the free bytes outside
        the largest hole after one of them (None: never unmapped).
    """
    mine = mapping_rows(trace)
    stores = window_stores(trace)
    found = []
    for device in [name.removesuffix(".window") for name in stores if name.endswith(".window")]:
        of = mine & np.append(trace.ops["device"] == device, False)[trace.row_op]
        ops = {name: int(trace.ops[name][trace.row_op[of]].sum()) for name in ("n", "m", "k", "in_bytes", "out_bytes")}
        store = stores[f"{device}.window"]
        curve = occupancy(trace, store)
        broken = fragmentation(trace, device)
        found.append(
            {
                "device": device,
                "map_calls": ops["n"],
                "mapped_bytes": ops["in_bytes"],
                "op_calls": ops["m"] + ops["k"],
                "swapped_bytes": ops["out_bytes"],
                "host_s": int((trace.row_end_ps - trace.rows["start_ps"])[of].sum()) / PS_PER_S,
                "window_bytes": int(trace.manifest["stores"][store]["capacity"]),
                "peak_bytes": None if curve is None else int(curve[1].max()),
                "unmapping_passes": len(broken),
                "fragmentation": float(broken.max()) if len(broken) else None,
            }
        )
    return found


def fragmentation(trace: Trace, device: str) -> np.ndarray:
    """Share of the free bytes that lie outside the largest hole, after each pass that unmapped something."""
    notes = trace.notes
    mine = notes["kind"] == f"window.{device}"
    free, hole = notes["value"][mine], notes["extra"][mine]
    return np.where(free > 0, 1.0 - hole / np.maximum(free, 1), 0.0)


def occupancy(trace: Trace, store: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Level of a store over time: times in ps, ascending, and the level from each on.

    It is the logged one where the run kept levels (``--trace full``), else it follows from the rows and the script;
    None where the trace has neither.

    Raises
    ------
    InputError
        When the script is damaged.
    """
    start = int(trace.manifest["stores"][store]["level"])
    log = trace.tables["levels_log"]
    mine = log["store"] == store
    if mine.any():
        return np.append(0, log["time_ps"][mine]), np.append(start, log["value"][mine])
    if "script" not in trace.tables or "script_rows" not in trace.tables:
        return None
    try:
        times, deltas = _changes(trace, store)
    except (KeyError, IndexError, ValueError) as error:
        raise InputError(f"the script of this trace cannot be read ({error}); run it again") from None
    times, where = np.unique(times, return_inverse=True)
    summed = np.bincount(where.ravel(), deltas, len(times)).astype(np.int64)
    return np.append(0, times), np.append(start, start + np.cumsum(summed))


def _changes(trace: Trace, store: int) -> tuple[np.ndarray, np.ndarray]:
    """Times and changes of a store by the rows of the run and by its schedule, in no order."""
    rows, at = trace.rows, template_rows(trace)
    heir, first = trace.tables["script_rows"]["heir"][at[0]], at[1]
    heir_at = positions(rows["row"], np.where(heir >= 0, first + heir, -1))
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for j in range(2):
        columns = {name: trace.tables["script_rows"][f"{name}_{j}"][at[0]] for name in _STORE}
        mine = trace.ran & (columns["store"] == store)
        done, cut = mine & (rows["status"] == DONE), mine & (rows["status"] == CUT)
        left = done & (heir_at >= 0) & (rows["status"][heir_at] == CUT)
        found += [
            (rows["start_ps"][mine], columns["store_start"][mine]),
            (rows["end_ps"][done], columns["store_end"][done]),
            (rows["end_ps"][cut], -columns["store_start"][cut]),
            (rows["end_ps"][heir_at[left]], -columns["store_start"][left]),
        ]
    script = trace.tables["script"]
    added = (script["kind"] == ADD) & (script["a"] == store)
    found.append((script["time_ps"][added], script["b"][added]))
    return np.concatenate([times for times, _ in found]), np.concatenate([deltas for _, deltas in found])


_STORE = ("store", "store_start", "store_end")


def template_rows(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """For each row its line in ``script_rows``, and the id of its block's first row."""
    script, lines = trace.tables["script"], trace.tables["script_rows"]
    template = script["a"][script["kind"] == EMIT]  # blocks are numbered in order of emission
    sizes = np.bincount(lines["template"])
    offset = np.cumsum(sizes) - sizes
    first = np.cumsum(sizes[template]) - sizes[template]
    block = trace.rows["block"]
    return offset[template[block]] + trace.rows["row"] - first[block], first[block]
