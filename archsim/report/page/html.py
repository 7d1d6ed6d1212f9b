"""Pieces of HTML and of data inside it. All text that enters the page is escaped here."""

from __future__ import annotations

import base64
import io
import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from archsim.report.figures import quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Rows of a table that stand in the page; the rest is in the files that ``archsim report --export`` writes.
MOST_ROWS = 500
#: Rows beyond which a table scrolls in a box of its own.
LONG = 16
_RATES = {"bytes_per_s": "bytes/s", "ops_per_s": "operations/s"}
_ENDINGS = {**{f"_{name}": unit for name, unit in _RATES.items()}, "_pj": "pJ", "_mw": "mW", "_hz": "Hz"}
_SVG_HEAD = re.compile(r"^.*?(?=<svg\b)", re.DOTALL)
_SVG_META = re.compile(r"<metadata>.*?</metadata>\s*", re.DOTALL)
_SVG_SPACES = re.compile(r'\s(?:xmlns(?::\w+)?|version)="[^"]*"')
_SVG_ID = re.compile(r'\bid="([^"]+)"')
_SVG_LINK = re.compile(r'\b(?:xlink:)?href="#([^"]+)"')
_SVG_PATH = re.compile(r'\bd="[^"]*"')
_SVG_FINE = re.compile(r"(\.\d\d)\d+")
_SVG_URL = re.compile(r"url\(#([^)]+)\)")


def heading(name: str) -> tuple[str, str]:
    """Words and unit of a column: ``busy_per_step_s`` gives ``("busy per step", "s")``."""
    if name in _RATES:
        return "rate", _RATES[name]
    for ending, unit in _ENDINGS.items():
        if name.endswith(ending):
            return name.removesuffix(ending).replace("_", " "), unit
    words, unit = quantity(name)
    return words, unit.replace("mm2", "mm²")


def number(value: float) -> str:
    """Four significant digits, thousands apart, tiny and huge numbers with a power of ten."""
    if isinstance(value, float) and not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    size = abs(value)
    if isinstance(value, int) and size < 10**15:
        return f"{value:,}".replace(",", "\u2009")
    if not 1e-4 <= size < 1e7:
        digits, _, power = f"{value:.3e}".partition("e")
        return f"{digits.rstrip('0').rstrip('.')}×10{_raised(int(power))}"
    places = max(0, 3 - math.floor(math.log10(size)))
    text = f"{value:,.{places}f}".replace(",", "\u2009")
    return text.rstrip("0").rstrip(".") if places else text


def _raised(power: int) -> str:
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def cell(value: Any, numeric: bool = False) -> str:
    """One cell of a table; numbers carry their full value for sorting and on hover."""
    if value is None or value == "":
        return f'<td class="none{" num" if numeric else ""}">–</td>'
    if isinstance(value, bool):
        return f"<td>{'yes' if value else 'no'}</td>"
    if isinstance(value, (int, float)):
        return f'<td class="num" data-v="{value!r}" title="{value!r}">{number(value)}</td>'
    return f"<td>{escape(str(value))}</td>"


def table(rows: Sequence[Mapping[str, Any]], title: str = "", anchor: str = "") -> str:
    """Rows as a table that sorts by a click on a heading; the first columns of words stand left."""
    caption = f"<h3>{escape(title)}</h3>" if title else ""
    if not rows:
        return f'{caption}<p class="quiet">nothing of this kind in this run</p>'
    names = list(dict.fromkeys(name for row in rows for name in row))
    head, numbers = [], {}
    for name in names:
        words, unit = heading(name)
        numeric = numbers[name] = all(
            row.get(name) is None or (isinstance(row[name], (int, float)) and not isinstance(row[name], bool))
            for row in rows
        )
        text = escape(words) + (f' <span class="unit">{escape(unit)}</span>' if unit else "")
        head.append(f'<th scope="col"{" class=num" if numeric else ""}><button type="button">{text}</button></th>')
    lines = ("".join(cell(row.get(name), numbers[name]) for name in names) for row in rows[:MOST_ROWS])
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    more = ""
    if len(rows) > MOST_ROWS:
        more = (
            f'<p class="quiet">the first {MOST_ROWS} of {len(rows):,} rows; archsim report --export DIR writes all</p>'
        )
    box = "box long" if len(rows) > LONG else "box"
    named = f' id="{escape(anchor)}"' if anchor else ""
    return (
        f'<div>{caption}<div class="{box}"><table class="sortable"{named}><thead><tr>{"".join(head)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{more}</div>"
    )


def pairs(entries: Sequence[tuple[str, str]]) -> str:
    """Names and values as a list; values are text."""
    return (
        '<dl class="pairs">'
        + "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in entries)
        + "</dl>"
    )


def inline_svg(figure: Figure, prefix: str, title: str) -> str:
    """Return a figure as SVG that can stand in a page: ids of its own, no namespaces, nothing that loads."""
    from archsim.report.style import house

    buffer = io.StringIO()
    with house():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "archsim"})
    return tidy_svg(buffer.getvalue(), prefix, title)


def tidy_svg(text: str, prefix: str, title: str) -> str:
    """See :func:`inline_svg`; `text` is an SVG document of matplotlib's."""
    text = _SVG_META.sub("", _SVG_HEAD.sub("", text, count=1))
    opening, closing, rest = text.partition(">")
    opening = _SVG_SPACES.sub("", opening)
    text = f'{opening} role="img" aria-label="{escape(title)}"{closing}{rest}'
    text = _SVG_PATH.sub(lambda found: " ".join(_SVG_FINE.sub(r"\1", found[0]).split()), text)
    text = _SVG_ID.sub(lambda found: f'id="{prefix}-{found[1]}"', text)
    text = _SVG_LINK.sub(lambda found: f'href="#{prefix}-{found[1]}"', text)
    return _SVG_URL.sub(lambda found: f"url(#{prefix}-{found[1]})", text)


def _finite(value: Any) -> Any:
    """The value as JSON can say it: what is no finite number becomes null."""
    if isinstance(value, dict):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (int, float, str, bool)) or value is None:
        return value
    return str(value)


def packed(value: Any, columns: Mapping[str, np.ndarray]) -> str:
    """Compressed data: JSON with the columns' places, then the columns (little-endian, 4 bytes an entry); base64.

    The first four bytes are the length of the JSON, which is padded so that the columns stand at multiples of four.
    """
    places, at = {}, 0
    for name, column in columns.items():
        places[name] = {"at": at, "n": len(column), "type": "f4" if column.dtype.kind == "f" else "u4"}
        at += 4 * len(column)
    raw = json.dumps({**_finite(value), "columns": places}, separators=(",", ":"), allow_nan=False).encode()
    raw += b" " * (-len(raw) % 4)
    parts = [len(raw).to_bytes(4, "little"), raw]
    parts += [column.astype("<f4" if column.dtype.kind == "f" else "<u4").tobytes() for column in columns.values()]
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    return base64.b64encode(deflate.compress(b"".join(parts)) + deflate.flush()).decode()
