"""What the command line shows: tables and progress with rich, in plain text when the output is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

SHOW_AFTER_S = 1.0


class Progress(AbstractContextManager["Progress"]):
    """A progress bar on stderr that appears after a second, and never where stderr is no terminal."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._began = 0.0
        self._title = ""

    def start(self, title: str) -> None:
        """Begin a piece of work."""
        import time

        self._title, self._began = title, time.monotonic()

    def update(self, done: float, total: float, title: str = "") -> None:
        """Say how far the work is."""
        import time

        if sys.stderr is None or not sys.stderr.isatty() or time.monotonic() - self._began < SHOW_AFTER_S:
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=total)
        self._bar.update(self._task, completed=done, total=total, description=title or self._title)

    def stop(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def progress() -> Progress:
    """Make a progress bar."""
    return Progress()


def show_rows(rows: Sequence[Mapping[str, Any]], title: str = "") -> None:
    """Print dictionaries with equal keys as a table."""
    sys.stdout.write(table_text(rows, title))


def table_text(rows: Sequence[Mapping[str, Any]], title: str = "", width: int | None = None) -> str:
    """Dictionaries with equal keys as the text of a table, as wide as the terminal where no width is given."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    if not rows:
        return f"{title}\n(none)\n" if title else "(none)\n"
    for name, value in rows[0].items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_text(value) for value in row.values()))
    if width is not None:
        console = Console(width=width, highlight=False, markup=False, color_system=None, force_terminal=False)
    else:
        console = Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False)
    with console.capture() as text:  # a console that met a closed pipe would end the process itself
        console.print(table)
    return f"{title}\n{text.get()}" if title else text.get()  # a narrow table would break its title


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def _print(lines: Sequence[str]) -> None:
    sys.stdout.write("\n".join(lines) + "\n")


def _pairs(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"what": key, "value": value} for key, value in values.items()]


_HEADLINE = (
    ("decode_tokens_per_s", "tokens/s (decode)"),
    ("ttft_s", "time to first token, s"),
    ("request_latency_s", "request latency, s"),
    ("itl_p50_s", "inter-token time, p50, s"),
    ("itl_p99_s", "inter-token time, p99, s"),
    ("ttft_p99_s", "time to first token, p99, s"),
    ("queue_p99_s", "wait in the queue, p99, s"),
    ("tokens", "tokens"),
    ("steps", "steps"),
    ("accepted_per_step", "tokens per step"),
    ("energy_per_token_j", "energy per token, J"),
    ("mean_power_w", "mean power, W"),
    ("peak_power_w", "peak power (1 ms), W"),
    ("area_mm2", "area of the modelled blocks, mm2"),
    ("stream_kind", "decision stream"),
    ("off_trace_nodes", "off-trace nodes"),
    ("cpu_s", "host CPU, s"),
)


def show_run(result: Any) -> None:
    """Headline of a run, its phases and units, and where it was written."""
    summary = result.summary
    show_rows([{"what": label, "value": summary[key]} for key, label in _HEADLINE], title=result.title)
    show_rows([{"phase": k, "s per step": v} for k, v in summary["phases"].items()], title="\nBusy time per step")
    show_rows([{"operands": k, "bytes per step": v} for k, v in summary["bytes_per_step"].items()], title="")
    show_rows([{"unit": k, "busy": f"{v:.1%}"} for k, v in summary["units"].items()], title="\nUnits")
    if summary["turns"]:
        show_rows([{"turn": k, **v} for k, v in summary["turns"].items()], title="\nTurns of a conversation (medians)")
    if summary["background"]:
        from archsim.report.background import background_table

        shown = ("stream", "bursts", "late_bursts", "late_max_s", "unit", "due", "served", "backlog", "energy_j")
        rows = background_table(summary["background"])
        show_rows([{key: row[key] for key in shown} for row in rows], title="\nBackground")
    for warning in result.warnings:
        _print(["", f"note: {warning}"])
    if "checks" in summary:
        counts = summary["checks"]["counts"]
        _print(["", f"checked: {sum(counts.values()):,} comparisons of {len(counts)} invariants, all hold"])
    if result.folder is not None:
        _print(["", f"run folder: {result.folder}", f"next: archsim report {result.folder}"])


def show_bands(found: Any) -> None:
    """Bands of a run: nominal, p10, p50 and p90 by result."""
    rows = [{"what": name, **band} for name, band in found.bands.items() if band["nominal"] is not None]
    failed = f", {found.failed} of them could not run" if found.failed else ""
    show_rows(rows, title=f"{found.samples} draws of {len(found.drawn)} uncertain numbers{failed}")
    for note in found.notes:
        _print([f"note: {note}"])


def show_replay(outcome: Mapping[str, Any]) -> None:
    """Whether the replay met the recording."""
    if outcome["identical"]:
        _print([f"identical: {outcome['rows']:,} rows, digest {outcome['digest']}"])
    else:
        _print([f"different: {outcome['difference']}"])


#: Columns of tables that only files and JSON show: too wide for a terminal.
_WORDY = frozenset({"source", "scope", "node_nm", "voltage_v"})


def show_report(document: Mapping[str, Any]) -> None:
    """All tables of a report."""
    show_rows(
        [{"what": label, "value": document["summary"].get(key)} for key, label in _HEADLINE if key != "cpu_s"],
        title=document["title"],
    )
    for title, rows in document["tables"].items():
        show_rows([{key: row[key] for key in row if key not in _WORDY} for row in rows], title="\n" + title)
    for line in document["insight"]:
        _print(["", line])
    for note in document["notes"]:
        _print(["", f"note: {note}"])
    for path in document["files"]:
        _print([f"wrote {path}"])


def show_thing(document: Mapping[str, Any], *, sources: bool) -> None:
    """Values of one part, system, model, run or schedule; a system is drawn first."""
    if "drawing" in document:
        from archsim.report.machine import text

        encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
        _print([text(document["drawing"], plain=not encoding.startswith("utf")), ""])
    rows = [dict(row) for row in document["values"]]
    for row in rows:
        if not sources:
            row.pop("source", None)
            row.pop("range", None)
    show_rows(rows, title=f"{document['kind']} {document['name']}")
    for title, extra in document.get("tables", {}).items():
        show_rows(extra, title="\n" + title)
    for file in document.get("files", ()):
        _print([f"wrote {file}"])


def show_import(document: Mapping[str, Any]) -> None:
    """What an imported model looks like."""
    show_rows(_pairs(document["summary"]), title=f"model {document['name']}")
    _print([f"source: {document['source']}"])
    if document["file"]:
        _print([f"wrote {document['file']}"])
    else:
        _print(["nothing written; give -o FILE.yaml to keep it"])


def show_demo(document: Mapping[str, Any]) -> None:
    """Comparison of the demo's runs, what it means and what to try next."""
    _print([document["title"], ""])
    show_rows(document["comparison"])
    _print(["", *document["insight"], "", *document["proxy"], ""])
    _print([f"{name}: {path}" for name, path in document["files"].items()])
    _print(["", "try next:", *(f"  {line}" for line in document["next"])])
