"""Fill the page: a run's, a sweep's, or a table's."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from archsim.config.regular import replaced
from archsim.report.document import document
from archsim.report.explain import path, roofline, what_if
from archsim.report.figures import ALL_KINDS, figure, kinds_of
from archsim.report.page.explorer import packed_table
from archsim.report.page.html import inline_svg, number, packed, pairs, table
from archsim.report.page.timeline import time_line
from archsim.report.tables import flat
from archsim.trace import Trace
from archsim.units import PS_PER_S

Rows = Sequence[Mapping[str, Any]]

#: Section -> figures and tables (their titles in the report's document) that stand in it.
_SECTIONS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Time": (
        ("latency",),
        (
            *("Latency by phase and unit", "Units", "What the run waited for"),
            *("If a device were infinitely fast", "Roofline"),
        ),
    ),
    "Tokens": (
        (),
        (
            "Requests",
            "Acceptance of drafted tokens",
            "Time between tokens",
            "Drafting ahead of verification",
            "Speculative cycles: what the policy's tables predicted, and what was met",
        ),
    ),
    "Energy": (
        ("energy", "flow"),
        (
            "Energy by phase",
            "Totals with all prices low, typical and high",
            "Useful and wasted energy",
            "Wasted energy by cause",
            "Static power by state",
            "Energy by device and action",
        ),
    ),
    "Power": (("power", "heat"), ("Heat over time",)),
    "Memory": (("window",), ("Bytes moved", "Address windows")),
    "Area": (("area",), ("Area",)),
}  # fmt: skip
_CARDS = (
    ("decode_tokens_per_s", "decode", "tokens/s"),
    ("ttft_s", "time to first token", "s"),
    ("request_latency_s", "request latency", "s"),
    ("energy_per_token_j", "energy per token", "J"),
    ("mean_power_w", "mean power", "W"),
    ("peak_power_w", "peak power, 1 ms", "W"),
    ("area_mm2", "modelled area", "mm²"),
    ("accepted_per_step", "tokens per step", ""),
    ("tokens", "tokens", ""),
)


def write_run_page(
    trace: Trace, file: str | os.PathLike[str], title: str = "", made: Mapping[str, Any] | None = None
) -> Path:
    """Write the page of a run.

    Parameters
    ----------
    title : str
        What the run is called; its schedule and machine by default.
    made : Mapping, optional
        Its report (:func:`archsim.report.document.document`), when there is one already.

    Raises
    ------
    InputError
        When `file` cannot be written.
    """
    return _write(file, run_page(trace, title, made))


def run_page(trace: Trace, title: str = "", made: Mapping[str, Any] | None = None) -> str:
    """Return the page of a run as text (see :func:`write_run_page`)."""
    manifest = trace.manifest
    made = made or document(trace, "")
    tables = dict(made["tables"])
    tables["What the run waited for"] = path(trace)[:60]
    tables["If a device were infinitely fast"] = what_if(trace)
    tables["Roofline"] = roofline(trace)
    job, system = manifest["config"].get("job", {}), manifest["config"].get("system", {})
    name = title or f"{manifest['schedule']} on {system.get('name', 'a machine')}"
    models = [str(job[role]) for role in ("target", "draft", "predictor") if isinstance(job.get(role), str)]
    simulated = f"{trace.duration_ps / PS_PER_S:.4g} s simulated"
    subtitle = " · ".join([*models, f"stream {manifest['stream']['label']}", simulated])
    meta, columns = time_line(trace)
    parts = [_head(name, subtitle), _toc(["Headline", "Time line", *_SECTIONS, "Provenance"])]
    parts.append(f"<main>{_headline(made)}{_time_line(trace, meta)}")
    shown: set[str] = set()
    for section, (kinds, titles) in _SECTIONS.items():
        parts.append(_section(section, _figures(trace, kinds) + _tables(tables, titles)))
        shown.update(titles)
    more = {title: rows for title, rows in tables.items() if title not in shown}
    parts.append(_section("Provenance", _provenance(trace) + _tables(more, tuple(more))))
    parts.append("</main>")
    data = f'<script type="text/plain" id="timeline-data">{packed(meta, columns)}</script>'
    return _filled(name, "".join(parts), data, ("common.js", "timeline.js", "start.js"))


def write_table_page(
    rows: Rows,
    file: str | os.PathLike[str],
    title: str,
    subtitle: str = "",
    facts: Mapping[str, Any] | None = None,
    **options: Any,
) -> Path:
    """Write the page of a sweep's table, or of any table: an explorer of its rows.

    Parameters
    ----------
    facts : Mapping, optional
        What the table is (a sweep's file, say), shown as provenance.
    **options
        See :func:`archsim.report.page.explorer.packed_table`.

    Raises
    ------
    InputError
        When the table has no rows, or `file` cannot be written.
    """
    return _write(file, table_page(rows, title, subtitle, facts, **options))


def table_page(
    rows: Rows, title: str, subtitle: str = "", facts: Mapping[str, Any] | None = None, **options: Any
) -> str:
    """Return the page of a table as text (see :func:`write_table_page`)."""
    from archsim.report.page.explorer import figures_of

    coded, counts = packed_table(rows, **options)
    drawn = figures_of(rows)
    sections = ["Explorer", *(["Figures"] if drawn else []), *(["Provenance"] if facts else [])]
    parts = [_head(title, subtitle or ", ".join(f"{n:,} {what}" for what, n in counts.items())), _toc(sections)]
    parts.append("<main>")
    parts.append(_section("Explorer", '<div id="explorer"></div>'))
    if drawn:
        parts.append(
            _section("Figures", "".join(_figure(made, f"t{i}", text) for i, (text, made) in enumerate(drawn.items())))
        )
    if facts:
        parts.append(_section("Provenance", pairs([(key, str(value)) for key, value in flat(facts).items()])))
    parts.append("</main>")
    data = f'<script type="text/plain" id="explorer-data">{coded}</script>'
    return _filled(title, "".join(parts), data, ("common.js", "explorer.js", "start.js"))


def _write(file: str | os.PathLike[str], text: str) -> Path:
    with replaced(file) as partial:
        partial.write_text(text, encoding="utf-8")
    return Path(file)


def _filled(title: str, body: str, data: str, scripts: Sequence[str]) -> str:
    here = files("archsim.report.page")

    def read(name: str) -> str:
        return here.joinpath(name).read_text(encoding="utf-8")

    values = {
        "title": escape(title),
        "css": read("page.css"),
        "body": body,
        "data": data,
        "js": "\n".join(read(name) for name in scripts),
    }
    first, *rest = read("page.html").split("{{")  # in one pass: what is filled in is not looked at again
    return first + "".join(values[name] + after for name, after in (part.split("}}", 1) for part in rest))


def _head(title: str, subtitle: str) -> str:
    return (
        f'<header class="top"><div class="mark">archsim report</div><h1>{escape(title)}</h1>'
        f'<div class="sub">{escape(subtitle)}</div></header>'
    )


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def _toc(names: Sequence[str]) -> str:
    links = "".join(f'<a href="#{_anchor(name)}">{escape(name)}</a>' for name in names)
    return f'<nav class="toc" aria-label="Sections">{links}</nav>'


def _section(name: str, content: str) -> str:
    return f'<section id="{_anchor(name)}"><h2>{escape(name)}</h2>{content}</section>' if content else ""


def _headline(made: Mapping[str, Any]) -> str:
    summary = made["summary"]
    cards = "".join(
        f"<div><b>{number(summary[key])}{f' <small>{unit}</small>' if unit else ''}</b><span>{what}</span></div>"
        for key, what, unit in _CARDS
        if summary.get(key) is not None
    )
    said = "".join(f'<p class="insight">{escape(line)}</p>' for line in made["insight"])
    notes = "".join(f"<li>{escape(note)}</li>" for note in made["notes"])
    distrust = f'<div class="notes"><b>What to distrust</b><ul>{notes}</ul></div>' if notes else ""
    return _section("Headline", f'<div class="cards">{cards}</div>{said}{distrust}')


def _time_line(trace: Trace, meta: Mapping[str, Any]) -> str:
    words = f"{meta['all_rows']:,} rows on {sum(1 for n in meta['count'] if n)} units."
    if meta["merged"]:
        words += (
            f" There are too many to hold: rows of one {meta['merged']} are drawn as one slice,"
            f" {sum(meta['count']):,} in all, and gaps within it are not seen."
        )
    printed = _figures(trace, ("timeline",)).replace("<figure>", '<figure class="printed">')
    return _section("Time line", f'<p class="quiet">{words}</p><div id="timeline"></div>{printed}')


def _figures(trace: Trace, kinds: Sequence[str]) -> str:
    have = [kind for kind in kinds_of(trace) if kind in kinds]
    made = []
    for kind in have:
        if kind == "area" and not trace.manifest["prices"]["area_um2"]:
            continue
        if kind == "timeline" and not (trace.ran & (trace.rows["unit"] >= 0)).any():
            continue
        text = (ALL_KINDS[kind].__doc__ or kind).splitlines()[0]
        made.append(_figure(figure(trace, kind), kind, text))
    return "".join(made)


def _figure(made: Any, prefix: str, text: str) -> str:
    return f"<figure>{inline_svg(made, prefix, text)}<figcaption>{escape(text)}</figcaption></figure>"


def _tables(tables: Mapping[str, Rows], titles: Sequence[str]) -> str:
    made = "".join(table(tables[title], title) for title in titles if tables.get(title))
    return f'<div class="tables">{made}</div>' if made else ""


def _provenance(trace: Trace) -> str:
    manifest = trace.manifest
    facts = {
        "run digest": trace.digest,
        "configuration digest": manifest["config_digest"],
        "archsim": manifest["archsim"],
        "schedule": manifest["schedule"],
        "seed": manifest["seed"],
        "stream": manifest["stream"]["label"],
        "stream kind": manifest["stream"]["kind"],
        **manifest["versions"],
    }
    config = [{"path": key, "value": value} for key, value in flat(manifest["config"]).items()]
    details = f"<details><summary>Configuration, {len(config)} values</summary>{table(_words(config))}</details>"
    return pairs([(key, str(value)) for key, value in facts.items()]) + details


def _words(rows: Rows) -> list[dict[str, Any]]:
    return [{"path": row["path"], "value": _text(row["value"])} for row in rows]


def _text(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
