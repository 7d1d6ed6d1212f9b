"""Pricing an old trace anew: other tables, other nodes, and the low and high ends of every price.

A table of prices is a YAML file::

    kind: prices
    name: hbm_like_io
    base: run                # keep what the run was priced with (default), or: none
    source: "..."            # of entries without their own
    energy_pj:
      dram.io_bits: {value: 3.4 pJ, source: "...", range: [1.4 pJ, 17 pJ]}
    power_mw:
      rails.base: 900 mW
    area_um2:
      npu.hmx: 0.4 mm2
    nodes:
      npu: {from_nm: 4, to_nm: 7}      # logic of a device drawn in another node, before the entries above

With ``base: none`` every action that the run counts must have an entry. The run itself is not touched: counts and times
are those that were simulated, so a run whose timing follows its power (a thermal one) cannot be priced anew.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from archsim.config.reading import Document, read
from archsim.device import Cost
from archsim.technology.logic import area_ratio, check_node, energy_ratio
from archsim.trace import Trace
from archsim.units import InputError, parse, quote, suggest

#: Tables by key, with the unit of their entries.
UNITS = {"energy_pj": "pJ", "power_mw": "mW", "area_um2": "um2"}
_KEYS = {"kind", "name", "base", "source", "note", "nodes", *UNITS}
_ENTRY = {"value", "source", "range", "note", "node_nm", "voltage_v", "scope"}


def repriced(trace: Trace, file: str | Path) -> Trace:
    """Return the same run under the prices of a file.

    Raises
    ------
    InputError
        For a file that is no table of prices, an entry of an unknown name, without source, negative, in another unit,
        a node outside the scaling tables, a missing action (``base: none``), or a thermal run.
    """
    if trace.manifest.get("thermal"):
        raise InputError(
            f"{file}: the timing of a thermal run follows its power; under other prices it must be simulated again"
        )
    document = _table(Path(file))
    data = document.data
    prices = copy.deepcopy(dict(trace.manifest["prices"]))
    _scale_nodes(document, data.get("nodes", {}), prices)
    if data.get("base") == "none":
        # A price may be missing only where nothing was counted.
        prices["energy_pj"] = {}
    for table, name, entry in _entries(document):
        known = trace.manifest["prices"][table]
        if name not in known:
            raise _error(document, (table, name), f"the run has no such price; {suggest(name, known)}")
        prices[table][name] = entry
    missing = sorted(set(np.unique(trace.counts["action"]).tolist()) - set(prices["energy_pj"]))
    if missing:
        raise InputError(f"{file}: no price for action {missing[0]!r}, which the run counts; add it under energy_pj")
    title = str(data.get("name", Path(file).stem))
    return Trace(trace.tables, {**trace.manifest, "prices": prices, "priced_by": title})


def check_prices(file: str | Path) -> None:
    """Check a table of prices by itself: keys, units, sources, ranges and nodes, not the names, which a run knows.

    Raises
    ------
    InputError
        For the first thing that is wrong.
    """
    document = _table(Path(file))
    for _ in _entries(document):
        pass
    for _ in _nodes(document, document.data.get("nodes", {})):
        pass


def _table(path: Path) -> Document:
    """Read a table of prices; its keys and base are right."""
    document = read(path)
    data = document.data
    if not isinstance(data, dict) or data.get("kind") != "prices":
        raise InputError(f"{path}: not a table of prices; it begins with 'kind: prices'")
    _known(document, data, _KEYS, ())
    base = data.get("base", "run")
    if base not in ("run", "none"):
        raise _error(document, ("base",), f"{quote(base)} is not one of run, none")
    return document


def _entries(document: Document) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Table, name and price of every entry."""
    for table, unit in UNITS.items():
        entries = document.data.get(table, {})
        if not isinstance(entries, dict):
            raise _error(document, (table,), "expected a mapping of names to prices")
        for name, raw in entries.items():
            if "." not in str(name):
                raise _error(document, (table, name), "a price is named <device>.<action or block>")
            yield table, str(name), _entry(document, (table, name), raw, unit, document.data.get("source", ""))


def _nodes(document: Document, nodes: Any) -> Iterator[tuple[str, float, float]]:
    """Device, node it was priced in and node to draw it in."""
    if not isinstance(nodes, dict):
        raise _error(document, ("nodes",), "expected devices with from_nm and to_nm")
    for device, entry in nodes.items():
        key = ("nodes", device)
        if not isinstance(entry, dict):
            raise _error(document, key, "expected {from_nm: ..., to_nm: ...}")
        _known(document, entry, {"from_nm", "to_nm"}, key)
        try:
            source, target = (check_node(entry.get(end, float("nan"))) for end in ("from_nm", "to_nm"))
        except (InputError, TypeError, ValueError) as error:
            raise _error(document, key, str(error)) from None
        yield str(device), source, target


def bounded(trace: Trace, end: Literal["low", "high"]) -> Trace:
    """Return the same run with every price at the low or high end of its range (itself, where it has none)."""
    pick = 0 if end == "low" else 1
    prices = {
        table: {
            name: {**cost, "value": (cost["range"] or (cost["value"],) * 2)[pick]} for name, cost in entries.items()
        }
        if table in UNITS
        else entries
        for table, entries in trace.manifest["prices"].items()
    }
    return Trace(trace.tables, {**trace.manifest, "prices": prices})


def _entry(document: Document, key: tuple[str, ...], raw: Any, unit: str, source: str) -> dict[str, Any]:
    """One price as a manifest holds it."""
    entry = raw if isinstance(raw, dict) else {"value": raw}
    _known(document, entry, _ENTRY, key)
    if "value" not in entry:
        raise _error(document, key, "has no value")
    text = entry.get("source", source)
    if not isinstance(text, str) or not text:
        raise _error(document, key, "has no source; write {value: ..., source: ...} or give the file a 'source:'")
    try:
        value = float(parse(entry["value"], unit))
        spread = entry.get("range")
        bounds = None if spread is None else _bounds(spread, unit, value)
        node = None if entry.get("node_nm") is None else check_node(entry["node_nm"])
        volt = None if entry.get("voltage_v") is None else float(parse(entry["voltage_v"], "V"))
    except (InputError, TypeError, ValueError) as error:
        raise _error(document, key, str(error)) from None
    cost = Cost(value, unit, text, bounds, node, volt, str(entry.get("scope", "")))
    return {
        "value": cost.value,
        "unit": cost.unit,
        "source": cost.source,
        "range": list(bounds) if bounds else None,
        "node_nm": node,
        "voltage_v": volt,
        "scope": cost.scope,
        "confidence": cost.confidence,
    }


def _bounds(spread: Any, unit: str, value: float) -> tuple[float, float]:
    if not isinstance(spread, list) or len(spread) != 2:
        raise InputError("a range is a list of two values")
    low, high = (float(parse(end, unit)) for end in spread)
    if not low <= value <= high:
        raise InputError(f"{value:g} {unit} lies outside its range of {low:g} to {high:g} {unit}")
    return low, high


def _scale_nodes(document: Document, nodes: Any, prices: dict[str, Any]) -> None:
    """Draw the logic of devices in another node: energy, static power and area of all their entries."""
    devices = {name.split(".", 1)[0] for name in prices["energy_pj"]}
    for device, source, target in _nodes(document, nodes):
        if device not in devices:
            raise _error(document, ("nodes", device), f"the run has no such device; {suggest(device, devices)}")
        ratios = {"energy_pj": energy_ratio(source, target), "area_um2": area_ratio(source, target)}
        ratios["power_mw"] = ratios["energy_pj"]
        for table, ratio in ratios.items():
            for name, cost in prices[table].items():
                if name.split(".", 1)[0] == device:
                    low, high = cost["range"] or (cost["value"],) * 2
                    prices[table][name] = {
                        **cost,
                        "value": cost["value"] * ratio.value,
                        "range": [low * ratio.low, high * ratio.high],
                        "node_nm": target,
                        "source": f"{cost['source']}; logic of {source} nm drawn in {target} nm",
                    }


def _known(document: Document, entry: Mapping[str, Any], known: set[str], key: tuple[str, ...]) -> None:
    for name in entry:
        if name not in known:
            raise _error(document, (*key, name), f"unknown key; {suggest(str(name), known)}")


def _error(document: Document, key: tuple[Any, ...], message: str) -> InputError:
    return document.where(*key).error(message, ".".join(map(str, key)))
