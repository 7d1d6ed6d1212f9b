"""The first thing to run: one phone, one model in flash, plain and speculative decoding side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from archsim.report.figures import compare_figure
from archsim.report.null import null_model
from archsim.report.owner import sentence
from archsim.report.style import save
from archsim.session import Result, load, run
from archsim.streams.acceptance import table

RUNS = ("demo_flash_ar", "demo_chain_sd")


def demo(output: str | Path, *, tokens: int = 64, progress: Any = None) -> dict[str, Any]:
    """Run both schedules, compare them with the null model, draw one figure.

    Parameters
    ----------
    output : path
        Folder under which the run folders and the figure go.
    tokens : int
        Output tokens.
    progress : object, optional
        As for :func:`archsim.session.run`.
    """
    folder = Path(output)
    results = {}
    for name in RUNS:
        resolved = load(name, sets=(f"job.tokens={tokens}",))
        results[name] = run(resolved, output=folder / f"{name}-{resolved.digest[:8]}", progress=progress)
    plain, speculative = results.values()
    figure = save(
        compare_figure([(result.trace.manifest["schedule"], result.summary) for result in results.values()]),
        folder / "demo.svg",
    )
    files = {f"run folder ({result.trace.manifest['schedule']})": str(result.folder) for result in results.values()}
    return {
        "title": (
            f"Llama-3.1-8B (Q4_0) in flash on a OnePlus 12, {tokens} tokens; draft eagle3-llama-3.1-8b in DRAM, "
            "chain of 8"
        ),
        "comparison": [_row(result) for result in results.values()],
        "insight": [sentence(result.trace) for result in (plain, speculative)],
        "proxy": [f"note: {warning}" for warning in speculative.warnings] + [_published(speculative)],
        "files": {**files, "figure": str(figure)},
        "next": [
            f"archsim report {plain.folder}",
            f"archsim report {speculative.folder} --perfetto demo.perfetto-trace   (open in ui.perfetto.dev)",
            "archsim run demo_chain_sd --set system.flash=ufs_3_1",
            "archsim show system oneplus_12 --sources",
        ],
        "summaries": {name: result.summary for name, result in results.items()},
    }


def _published(result: Result) -> str:
    """What the pair's published acceptance would give, beside the recorded proxy's."""
    config = result.trace.manifest["config"]
    target, draft, length = config["job"]["target"], config["job"]["draft"], config["schedule"]["length"]
    cells = {task: cell.value for task, cell in table().pairs[target, draft].items()}
    expected = {task: (1 - a ** (length + 1)) / (1 - a) for task, a in cells.items()}
    low, high = min(expected, key=expected.get), max(expected, key=expected.get)
    return (
        f"note: {result.summary['accepted_per_step']:.1f} tokens per step come from a small model's early exit; the "
        f"published acceptance of {draft} gives {expected[low]:.1f} ({low}) to {expected[high]:.1f} ({high})"
    )


def _row(result: Result) -> dict[str, Any]:
    summary, null = result.summary, null_model(result.trace)
    phases = summary["phases"]
    return {
        "schedule": result.trace.manifest["schedule"],
        "tokens/s": summary["decode_tokens_per_s"],
        "null model tokens/s": null["decode_tokens_per_s"],
        "first token s": summary["ttft_s"],
        "tokens/step": summary["accepted_per_step"],
        "compute ms/step": 1e3 * phases.get("compute", 0.0),
        "I/O ms/step": 1e3 * phases.get("io", 0.0),
        "draft ms/step": 1e3 * phases.get("draft", 0.0),
        "projection ms/step": 1e3 * phases.get("projection", 0.0),
        "J/token": summary["energy_per_token_j"],
        "mean W": summary["mean_power_w"],
    }
