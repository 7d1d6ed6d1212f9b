"""The manifest of a run: all that reports and a replay need besides the columns, sealed against editing."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from archsim.config.regular import read_regular
from archsim.device import STATES, Cost
from archsim.trace.columns import FORMAT, KIND, TABLES
from archsim.units import QUANTITY_MAX, InputError

#: Key of the digest over the manifest itself.
SEAL = "manifest_digest"
#: Tables of prices that hold costs.
PRICED = ("energy_pj", "power_mw", "area_um2")
#: Largest manifest that is read, in bytes; one of a long run has some 100 kB.
MAX_BYTES = 64 << 20
NEEDED = ("format", "config", "config_digest", "schedule", "seed", "units", "pools", "stores", "prices")

Name = Annotated[str, Field(pattern=r"^[^$\x00-\x1f]{1,400}$")]  # a "$" would begin a formula in a figure
Priced = Annotated[str, Field(pattern=r"^[^$.\x00-\x1f]{1,200}\.[^$\x00-\x1f]{1,200}$")]
Number = Annotated[float, Field(ge=0, le=QUANTITY_MAX, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=0, le=QUANTITY_MAX)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Open(BaseModel):
    """Keys that reports and replays read, by type; others may stand beside them."""

    model_config = ConfigDict(extra="allow", strict=True, defer_build=True)  # only what reads a manifest needs it


class _Named(_Open):
    name: Name


class _Pool(_Named):
    capacity: Number
    unit: Name
    fixed: Whole
    mix: list[Annotated[list[Whole], Field(min_length=2, max_length=2)]]


class _Store(_Named):
    capacity: Whole
    unit: Name
    level: Whole


class _Cost(_Open):
    value: Number
    unit: str
    source: str
    range: Annotated[list[float], Field(min_length=2, max_length=2)] | None


class _States(_Open):
    units: list[Name]
    states: Annotated[list[Literal[STATES]], Field(min_length=2)]
    after_ps: dict[Literal[STATES], Whole]


class _Clock(_Named):
    hz: Number
    targets: list[Name]
    corners: Annotated[list[Annotated[list[Number], Field(min_length=2, max_length=2)]], Field(min_length=1)]


class _Prices(_Open):
    energy_pj: dict[Priced, _Cost]
    power_mw: dict[Name, _Cost]
    area_um2: dict[Name, _Cost]
    states: dict[Name, _States] = {}
    clocks: list[_Clock] = []


class _Peak(_Open):
    ops_per_s: Number
    bytes_per_s: Number


class _Stream(_Open):
    kind: Name
    label: Name


class _Warnings(_Open):
    off_trace_nodes: Whole = 0
    ended_early: Whole = 0


class _Job(_Open):
    target: Name


class _Config(_Open):
    system: _Named
    job: _Job | None = None


class _Facts(_Open):
    digest: Digest


class Manifest(_Open):
    """What a manifest must hold so that every report and a replay can read it."""

    config: _Config
    config_digest: str
    digest: Digest
    schedule: Name
    seed: int
    stream: _Stream
    units: list[_Named]
    pools: list[_Pool]
    stores: list[_Store]
    prices: _Prices
    peaks: dict[Name, _Peak]
    labels: list[str]
    note_kinds: list[str]
    warnings: _Warnings
    keep_weights: list[Name] | None = None
    tables: dict[Literal[TABLES], _Facts]

    @model_validator(mode="after")
    def _names_differ(self) -> Manifest:
        for what in ("units", "pools", "stores"):
            names = [item.name for item in getattr(self, what)]
            if len(set(names)) < len(names):
                raise ValueError(f"two of the {what} have one name")
        return self


def build_manifest(
    *,
    archsim: str,
    config: Mapping[str, Any],
    config_digest: str,
    schedule: str,
    seed: int,
    system: Mapping[str, list[dict[str, Any]]],
    prices: Mapping[str, Any],
    stream: Mapping[str, str],
    warnings: Mapping[str, Any],
    versions: Mapping[str, str],
) -> dict[str, Any]:
    """Make a manifest: all that reports and a replay need besides the columns.

    Parameters
    ----------
    archsim : str
        Version of archsim.
    config, config_digest : Mapping, str
        Resolved configuration and its digest.
    system : Mapping
        ``units``, ``pools`` and ``stores`` as lists of dictionaries with at least ``name``
        (pools and stores also ``capacity`` and ``unit``).
    prices : Mapping
        ``energy_pj`` by ``<device>.<action>``, ``power_mw`` and ``area_um2`` by ``<device>.<block>``; optional
        ``states`` and ``clocks`` (see :class:`archsim.system.Prices`).
    stream : Mapping
        ``kind`` and ``label`` of the decision stream.
    warnings : Mapping
        ``off_trace_nodes`` and other counts the summary repeats.
    versions : Mapping
        Versions of packages; kept apart, no part of any digest.
    """
    return {
        "format": {"kind": KIND, "version": FORMAT},
        "archsim": archsim,
        "schedule": schedule,
        "seed": seed,
        "stream": dict(stream),
        "config_digest": config_digest,
        "config": dict(config),
        **{what: list(system[what]) for what in ("units", "pools", "stores")},
        "prices": {
            table: {key: _cost(cost) for key, cost in entries.items()} if table in PRICED else entries
            for table, entries in prices.items()
        },
        "warnings": dict(warnings),
        "versions": dict(versions),
    }


def _cost(cost: Cost) -> dict[str, Any]:
    spread = None if cost.range is None else [float(value) for value in cost.range]
    known = {"node_nm": cost.node_nm, "voltage_v": cost.voltage_v, "scope": cost.scope, "confidence": cost.confidence}
    return {"value": float(cost.value), "unit": cost.unit, "source": cost.source, "range": spread, **known}


def seal(document: Mapping[str, Any]) -> dict[str, Any]:
    """Manifest with the digest over itself: SHA-256 of its JSON with sorted keys, without spaces and that key."""
    plain = json.loads(json.dumps({key: value for key, value in document.items() if key != SEAL}, allow_nan=False))
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return {**plain, SEAL: hashlib.sha256(text.encode()).hexdigest()}


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read and check the manifest of a run folder.

    Raises
    ------
    InputError
        When it is missing, no manifest, too new, edited, or holds something of another type than reports read.
    """
    path = folder / "manifest.json"
    document = _parsed(path)
    stamp = document.get("format") if isinstance(document, dict) else None
    version = stamp.get("version") if isinstance(stamp, dict) else None
    if not isinstance(stamp, dict) or stamp.get("kind") != KIND or type(version) is not int:
        raise InputError(f"{path}: not the manifest of an archsim run; give a folder that `archsim run` wrote")
    if version != FORMAT:
        older = "newer than this archsim reads" if version > FORMAT else "older than this archsim reads"
        advice = "update archsim" if version > FORMAT else "run it again"
        raise InputError(f"{path}: trace format {version} is {older} ({FORMAT}); {advice}")
    try:
        sealed = document.get(SEAL) == seal(document)[SEAL]
    except RecursionError:
        raise InputError(f"{path}: nested too deeply; it was edited or damaged after the run; run it again") from None
    if not sealed:
        raise InputError(f"{path}: was edited or damaged after the run; run it again")
    try:
        Manifest.model_validate(document)
    except ValidationError as error:
        _refuse(path, error)
    return document


def _parsed(path: Path) -> Any:
    raw = read_regular(path, MAX_BYTES, "the manifest of a run")
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise InputError(f"{path}: not valid JSON (nested too deeply); run it again") from None
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error}); run it again") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _refuse(path: Path, error: ValidationError) -> NoReturn:
    """One line for the first of pydantic's errors."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        raise InputError(f"{path}: {where!r} is missing; it is not what `archsim run` writes; run it again") from None
    text = re.sub(r" or instance of \w+", "", first["msg"].removeprefix("Value error, "))
    text = text[:1].lower() + text[1:]
    at = f"{where!r}: " if where else ""
    raise InputError(f"{path}: {at}{text}; it is not what `archsim run` writes; run it again") from None
