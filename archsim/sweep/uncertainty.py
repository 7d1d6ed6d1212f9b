"""How sure an answer is: the run again and again with every uncertain number drawn from its range.

The draws are one Latin hypercube (:func:`archsim.sweep.ranges.shares`). Draw `i` simulates the machine with its numbers
at share `i` and prices that trace with the prices at share `i`; where only prices have ranges, one simulation serves
all draws. Bands are quantiles of the draws, the nominal run beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from archsim.config import SET_SOURCE, Override, Resolved, digest
from archsim.report.answers import Outcome
from archsim.report.summary import summarise
from archsim.results import code_digest
from archsim.session import load, run
from archsim.sweep.executors import drain
from archsim.sweep.ranges import ACCEPTANCE, LEVEL, TABLES, Uncertain, price_tables, shares, stream_at, uncertain
from archsim.sweep.store import Memory, Store
from archsim.sweep.work import attempt, flat
from archsim.trace import Trace
from archsim.units import InputError

#: Results that get a band.
METRICS = (
    "request_latency_s",
    "ttft_s",
    "decode_tokens_per_s",
    "energy_j",
    "energy_per_token_j",
    "mean_power_w",
    "peak_power_w",
    "area_mm2",
)
#: Quantiles of a band.
QUANTILES = {"p10": 0.10, "p50": 0.50, "p90": 0.90}
MOST_SAMPLES = 100_000
#: Draws below which p10 and p90 are little more than the least and the largest.
FEW = 16
FOLDER = Path("archsim-runs")

Load = Mapping[str, Any]
Band = dict[str, float | None]


@dataclass(frozen=True, repr=False)
class Bands(Outcome):
    """Bands of a run.

    Attributes
    ----------
    samples, seed : int
        Draws, and the seed of their hypercube.
    nominal : dict
        Results of the run as it is set.
    bands : dict
        By result: ``nominal``, ``p10``, ``p50``, ``p90`` (None where the run has no such result).
    draws : list of dict
        Results of every draw in order, with ``status`` and ``error``.
    drawn : tuple of Uncertain
        The numbers that were drawn.
    failed : int
        Draws that could not run (two ends of two ranges that do not go together); they are in no band.
    folder : Path or None
        Where the draws are kept.
    held : tuple of str
        Paths of numbers that were set for this run: a value that is given is taken as known, and not drawn.
    """

    samples: int
    seed: int
    nominal: dict[str, Any]
    bands: dict[str, Band]
    draws: list[dict[str, Any]]
    drawn: tuple[Uncertain, ...]
    failed: int
    folder: Path | None
    held: tuple[str, ...] = ()

    @property
    def notes(self) -> list[str]:
        """What to know before the bands are believed."""
        found = [f"set for this run, so taken as known and not drawn: {', '.join(self.held)}"] if self.held else []
        if self.samples < FEW:
            found.append(f"{self.samples} draws say little about p10 and p90; take {FEW} or more")
        return found

    @property
    def title(self) -> str:
        """How many draws of how many numbers."""
        return f"{self.samples} draws of {len(self.drawn)} numbers, {self.failed} failed"

    @property
    def tables(self) -> dict[str, Any]:
        """``bands`` by result, and all ``draws``."""
        return {"bands": [{"result": name, **band} for name, band in self.bands.items()], "draws": self.draws}

    def document(self) -> dict[str, Any]:
        """What ``archsim run --uncertainty --json`` adds to a run's summary."""
        return {
            "samples": self.samples,
            "seed": self.seed,
            "failed": self.failed,
            "numbers_drawn": len(self.drawn),
            "held": list(self.held),
            "notes": self.notes,
            "folder": None if self.folder is None else str(self.folder),
            "bands": self.bands,
        }


def uncertainty(
    source: Any = None,
    *,
    samples: int = 64,
    seed: int = 0,
    workers: int = 1,
    dask: str | None = None,
    output: str | Path | None = None,
    keep: bool = True,
    progress: Any = None,
    **named: Any,
) -> Bands:
    """Bands on the results of a run.

    Parameters
    ----------
    source : what :func:`archsim.session.load` takes
        The run; `named` are its other arguments (``system``, ``schedule``, ``job``, ``sets``).
    samples, seed : int
        Draws, and the seed of their hypercube.
    workers, dask
        See :func:`archsim.sweep.executors.executor`.
    output : path, optional
        Folder of the draws, which goes on where it stopped; ``archsim-runs/bands-<digest>`` by default.
    keep : bool
        Whether draws are kept on disk.
    progress : object, optional
        Receives ``start``, ``update`` and ``stop``.

    Raises
    ------
    InputError
        For fewer than one or too many samples, a thermal run, a folder that cannot be used, or when no draw can run.
    """
    check_samples(samples)
    given = {**named, "file": source}
    resolved = load(**given)
    drawn = uncertain(resolved)
    plan = {"kind": "bands", "samples": samples, "seed": seed, "run": resolved.digest, "numbers": ranges_digest(drawn)}
    folder = Path(output) if output is not None else FOLDER / f"bands-{digest(plan)[:12]}"
    store: Any = Store(folder, plan) if keep else Memory()
    calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [(draw, (given, None, samples, seed))]
    calls += [(draw, (given, i, samples, seed)) for i in range(samples)]
    keys = [digest({"plan": plan, "code": code_digest(), "draw": i}) for i in range(-1, samples)]
    with store.held():
        if all(item.priced for item in drawn):
            _fill_prices(resolved, drawn, keys, samples, seed, store)
        drain(keys, calls, store, "uncertainty", workers=workers, dask=dask, progress=progress)
        results = [store.done[key] for key in keys]
    nominal, *draws = results
    if nominal["status"] != "ok":
        raise InputError(nominal["error"])
    good = [result for result in draws if result["status"] == "ok"]
    if not good:
        raise InputError(f"no draw can run; the first: {draws[0]['error']}")
    return Bands(
        samples,
        seed,
        {name: nominal[name] for name in METRICS},
        bands(nominal, draws),
        draws,
        tuple(drawn),
        len(draws) - len(good),
        folder if keep else None,
        tuple(held(resolved)),
    )


def held(resolved: Resolved) -> list[str]:
    """Paths of numbers of the machine and of what loads it that the run sets, and that are therefore not drawn."""
    return [
        row.path
        for row in resolved.rows
        if row.path.startswith(("system.", "background."))
        and row.source == SET_SOURCE
        and row.range is None
        and isinstance(row.value, (int, float))
        and not isinstance(row.value, bool)
    ]


def check_samples(samples: int) -> None:
    """Refuse a number of draws that makes no band."""
    if not 1 <= samples <= MOST_SAMPLES:
        raise InputError(f"--uncertainty {samples}: 1 to {MOST_SAMPLES} draws make a band")


def ranges_digest(drawn: Sequence[Uncertain]) -> str:
    """Digest of what is drawn: ranges are no part of a configuration's own digest."""
    return digest({item.path: [item.value, item.low, item.high, item.group, item.flipped] for item in drawn})


def _fill_prices(
    resolved: Resolved, drawn: Sequence[Uncertain], keys: Sequence[str], samples: int, seed: int, store: Any
) -> None:
    """All draws from one simulation, where no time is drawn."""
    todo = [i for i, key in enumerate(keys) if key not in store.done]
    if not todo:
        return
    trace = run(resolved, trace="off").trace
    for i in todo:
        values = {} if i == 0 else drawn_values(drawn, i - 1, samples, seed)
        store.add(keys[i], kept(priced_summary(trace, resolved.data["system"], drawn, values)))


def draw(given: Load, index: int | None, samples: int, seed: int, names: Sequence[str] = METRICS) -> dict[str, Any]:
    """One draw of a run (the run itself without an index); what cannot run is a result too.

    Returns
    -------
    dict
        ``status`` (``ok`` or ``failed``), ``error``, and with ``ok`` the results of `names`.
    """

    def drawing() -> dict[str, Any]:
        resolved = load(**given)
        if index is None:
            return kept(run(resolved, trace="off").summary, names)
        drawn = uncertain(resolved)
        return kept(drawn_summary(given, drawn, drawn_values(drawn, index, samples, seed)), names)

    return attempt(drawing)


def drawn_values(drawn: Sequence[Uncertain], index: int, samples: int, seed: int) -> dict[str, float]:
    """Values of draw `index` by path."""
    return {item.path: item.at(shares(item.group, samples, seed)[index]) for item in drawn}


def drawn_summary(given: Load, drawn: Sequence[Uncertain], values: Mapping[str, float]) -> dict[str, Any]:
    """Summary of a run with numbers at other values: simulated with the machine's, then priced with the prices."""
    moved = [
        Override(item.path, f"{values[item.path]!r} {item.unit}" if item.unit else values[item.path], item.path)
        for item in drawn
        if not item.priced and item.path != LEVEL and item.path in values
        if item.path == ACCEPTANCE or values[item.path] != item.value
    ]
    if LEVEL in values:
        given = _with_level(given, values[LEVEL])
    resolved = load(**{**given, "sets": (*given.get("sets", ()), *moved)})
    result = run(resolved, trace="off")
    return priced_summary(result.trace, resolved.data["system"], drawn, values)


def _with_level(given: Load, level: float) -> dict[str, Any]:
    """The same run with its denoising stream at a level, wherever the stream was named."""
    stream = Override("job.stream", stream_at(load(**given).data["job"]["stream"], level), LEVEL)
    job = {key: value for key, value in (given.get("job") or {}).items() if key != "stream"}
    sets = [one for one in given.get("sets", ()) if _path(one) != "job.stream"]
    # Put together from names, a run needs its stream as one of them.
    named = {"job": {**job, "stream": stream.value}} if given.get("file") is None else {"job": job}
    return {**given, **named, "sets": tuple(sets if given.get("file") is None else [*sets, stream])}


def _path(one: Any) -> str:
    return one.path if isinstance(one, Override) else str(one).partition("=")[0].strip()


def priced_summary(
    trace: Trace, system: Mapping[str, Any], drawn: Sequence[Uncertain], values: Mapping[str, float]
) -> dict[str, Any]:
    """Summary of the same run under other prices.

    Prices follow the fields that were drawn first; a price of its own is then moved within its range by the same share
    of the way, so that it scales with the machine (an NPU of more contexts has more area at either end).
    """
    mine = [item for item in drawn if item.priced and item.path in values]
    tables = price_tables(system, {i.path: values[i.path] for i in mine if i.path.startswith("system.")})
    ratio = {item.path: values[item.path] / item.value for item in mine if item.value}
    prices = dict(trace.manifest["prices"])
    for table in TABLES:
        prices[table] = {
            name: {**entry, "value": tables[table][name].value * ratio.get(f"prices.{table}.{name}", 1.0)}
            if name in tables[table]  # streams beside the job have prices that follow from their own numbers
            else entry
            for name, entry in prices[table].items()
        }
    return summarise(Trace(trace.tables, {**trace.manifest, "prices": prices}))


def kept(summary: Mapping[str, Any], names: Sequence[str] = METRICS) -> dict[str, Any]:
    """Results of a draw that ran, nested ones by dotted name."""
    found = flat(summary)
    return {"status": "ok", "error": "", **{name: found.get(name) for name in names}}


def bands(nominal: Mapping[str, Any], draws: Sequence[Mapping[str, Any]]) -> dict[str, Band]:
    """Quantiles of the draws that ran, by result, beside the nominal one."""
    good = [entry for entry in draws if entry["status"] == "ok"]
    return {name: {"nominal": nominal.get(name), **quantiles([entry.get(name) for entry in good])} for name in METRICS}


def quantiles(values: Sequence[float | None]) -> Band:
    """p10, p50 and p90 (linear between draws); None where a draw has no such result."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return dict.fromkeys(QUANTILES)
    return {name: float(np.quantile(known, at)) for name, at in QUANTILES.items()}
