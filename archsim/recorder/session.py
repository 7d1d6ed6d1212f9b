"""A recording from the model to the files: resumable prompt by prompt, written whole or not at all."""

from __future__ import annotations

import datetime
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from archsim.config import InputError
from archsim.config.regular import check_output, make_folders, remove_empty, replaced
from archsim.streams.files import read_bytes, sha256_hex
from archsim.streams.opening import packed_traces
from archsim.streams.prompts import PROMPTS

KINDS = ("exits", "trees", "lookups")
SHIPPED = "smollm2"
SHIPPED_NAME = "smollm2-135m"  # its name in archsim
ADAPTERS = "adapters_smollm2.npz"
PARTS = ".parts"
MANIFEST = "manifest.json"
FORMATS = {"exits": "exit", "trees": "tree", "lookups": "ngram"}


@dataclass(frozen=True)
class Plan:
    """What to record.

    Attributes
    ----------
    model : str
        ``smollm2`` (the package's), a GGUF file of architecture llama, or the folder of a Hugging Face model.
    what : tuple of str
        ``exits``, ``trees``, ``lookups``.
    draft : str
        Who drafts the trees: ``exit:<layer>`` or a model as `model`.
    tokens, count : int
        Output tokens a prompt at most; prompts at most.
    nodes, beam, top, depth : int
        The trees' limits (:class:`archsim.recorder.trees.Shape`).
    prompts : str or None
        JSON lines ``{"id", "kind", "text"}``; None takes the shipped prompts.
    adapters : str or None
        Exit adapters; None takes the shipped ones.
    train : str or None
        JSON lines of prompts to train new adapters on; they are written to the folder.
    exits : tuple of int
        Layers to train.
    vocabulary, steps : int
        Tokens the drafts can propose; training steps an exit.
    precision : str
        ``bf16`` or ``fp32``.
    seed : int
        Of the training.
    """

    model: str
    what: tuple[str, ...] = KINDS
    draft: str = "exit:15"
    tokens: int = 256
    count: int = 24
    nodes: int = 48
    beam: int = 8
    top: int = 6
    depth: int = 8
    prompts: str | None = None
    adapters: str | None = None
    train: str | None = None
    exits: tuple[int, ...] = (10, 15, 20, 25)
    vocabulary: int = 16384
    steps: int = 300
    precision: str = "bf16"
    seed: int = 0


@dataclass(frozen=True)
class Recorded:
    """What was recorded.

    Attributes
    ----------
    folder : Path
    files : tuple of dict
        ``file``, ``format``, ``stream`` (what ``--stream`` takes), ``records``, ``requests``, ``tokens`` and
        ``tokens_per_step``.
    """

    folder: Path
    files: tuple[dict[str, Any], ...] = field(default=())


def record(
    plan: Plan, folder: Path, *, force: bool = False, progress: Any = None, recorder: str = "archsim"
) -> Recorded:
    """Record decision streams of a real model.

    Each prompt is kept in ``<folder>/.parts`` once it is done, so an interrupted recording goes on where it stopped;
    the recordings, ``ref_greedy.jsonl`` and ``manifest.json``, naming `recorder`, appear when all prompts are done.

    Raises
    ------
    InputError
        For anything missing or wrong, in one line, before a model is loaded where that can be seen.
    """
    check(plan)
    names = _file_names(plan)
    taken = [name for name in (*names.values(), PROMPTS, MANIFEST) if (folder / name).exists()]
    if taken and not force and not (folder / PARTS / "plan.json").is_file():  # its own, of an ending that was cut short
        raise InputError(f"{folder}: holds {', '.join(taken)} already; give another folder, or --force")
    parts = _Parts(folder, plan)
    if progress is not None:
        progress.start("record")
    try:
        return _record(plan, folder, parts, names, progress, recorder)
    except InputError:
        parts.take_back()
        raise
    finally:
        if progress is not None:
            progress.stop()


def _record(
    plan: Plan, folder: Path, parts: _Parts, names: Mapping[str, str], progress: Any, recorder: str
) -> Recorded:
    from archsim.recorder import work

    made = work.Work(plan, folder, progress)
    prompts = made.prompts()
    outputs = [parts.keep(f"greedy-{i}", lambda p=p: made.greedy(p)) for i, p in enumerate(prompts)]
    contents: dict[str, bytes] = {}
    rows: list[dict[str, Any]] = []
    for kind in plan.what:
        content, row = made.recording(kind, prompts, outputs, parts.keep)
        contents[names[kind]] = content
        rows.append({"file": names[kind], "format": FORMATS[kind], "stream": str(folder / names[kind]), **row})
    contents[PROMPTS] = lines(
        {"split": "test", "kind": p.kind, "id": p.name, "temp": 0, "prompt": list(p.tokens), "out": out}
        for p, out in zip(prompts, outputs)
    )
    contents[MANIFEST] = _manifest(plan, made, contents, rows, recorder)
    for name, content in contents.items():
        with replaced(folder / name) as temporary:
            temporary.write_bytes(content)
    parts.remove()
    return Recorded(folder, tuple(rows))


def check(plan: Plan) -> None:
    """Refuse a plan that cannot be followed, before anything is loaded."""
    for kind in plan.what:
        if kind not in KINDS:
            raise InputError(f"--what {kind!r} is none of {', '.join(KINDS)}")
    if not plan.what:
        raise InputError(f"--what is empty; it takes {', '.join(KINDS)}")
    limits = {"tokens": (2, 4096), "count": (1, 1000), "nodes": (1, 1024), "beam": (1, 256), "top": (1, 64),
              "depth": (1, 64), "vocabulary": (8, 1 << 20), "steps": (1, 100_000)}  # fmt: skip
    for name, (low, high) in limits.items():
        if not low <= getattr(plan, name) <= high:
            raise InputError(f"--{name} {getattr(plan, name)} is not within {low} to {high}")
    if plan.precision not in ("bf16", "fp32"):
        raise InputError(f"--precision {plan.precision!r} is not bf16 or fp32")
    if plan.draft.startswith("exit:") and not plan.draft.removeprefix("exit:").isdecimal():
        raise InputError(f"--draft {plan.draft!r}: write exit:<layer>, or a model")
    if plan.train is not None and plan.adapters is not None:
        raise InputError("--train makes new adapters and --adapters gives them; give one of the two")
    for name in ("prompts", "adapters", "train"):
        given = getattr(plan, name)
        if given is not None:
            read_bytes(Path(given))


def adapters_file(plan: Plan) -> Path:
    """The adapters that a plan uses."""
    return Path(plan.adapters) if plan.adapters is not None else packed_traces() / ADAPTERS


def _file_names(plan: Plan) -> dict[str, str]:
    drafter = plan.draft.replace(":", "") if plan.draft.startswith("exit:") else Path(plan.draft).stem.lower()
    return {"exits": "exits.npz", "trees": f"trees_{drafter}.jsonl", "lookups": "lookups.jsonl"}


class _Parts:
    """Finished prompts of an unfinished recording."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder = folder / PARTS
        self._made: list[Path] = []
        stamp = self.folder / "plan.json"
        text = json.dumps(asdict(plan), indent=1)
        if stamp.is_file():
            if read_bytes(stamp).decode("utf-8", "replace") != text:
                raise InputError(f"{folder}: holds an unfinished recording of another plan; give another folder")
            return
        self._made = make_folders(self.folder)
        check_output(folder / MANIFEST)
        with replaced(stamp) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def take_back(self) -> None:
        """Leave nothing of a recording that was refused before its first prompt was done."""
        if self._made and [path.name for path in self.folder.iterdir()] == ["plan.json"]:
            (self.folder / "plan.json").unlink()
            remove_empty(self._made)

    def keep(self, name: str, make: Callable[[], Any]) -> Any:
        """The part of that name, made when it is not there yet."""
        file = self.folder / f"{name}.json"
        if file.is_file():
            try:
                return json.loads(read_bytes(file))
            except ValueError:
                file.unlink()
        value = make()
        with replaced(file) as temporary:
            temporary.write_text(json.dumps(value, separators=(",", ":")), encoding="utf-8")
        return value

    def remove(self) -> None:
        """Remove all parts."""
        shutil.rmtree(self.folder)


def lines(records: Iterable[Any]) -> bytes:
    """JSON lines of records."""
    return "".join(json.dumps(entry, separators=(",", ":"), allow_nan=False) + "\n" for entry in records).encode()


def _manifest(
    plan: Plan, made: Any, contents: dict[str, bytes], rows: Sequence[dict[str, Any]], recorder: str
) -> bytes:
    today = datetime.date.today().isoformat()
    files = {}
    for name, content in contents.items():
        row = next((row for row in rows if row["file"] == name), None)
        entry = {
            "sha256": sha256_hex(content),
            "bytes": len(content),
            "format": row["format"] if row else "prompts",
            "model": made.target.name,
            "licence": made.target.licence,
            "source": f"measured: {made.source(name, plan)}, {recorder}, {today}",
        }
        if row and row["format"] == "exit":
            entry |= {"default": str(max(made.exits.layers)), "variants": [str(layer) for layer in made.exits.layers]}
        if row:
            entry["prompts"] = PROMPTS
        files[name] = entry
    plan_data = {key: value for key, value in asdict(plan).items() if value is not None}
    for key in ("model", "draft", "prompts", "adapters", "train"):
        if "/" in str(plan_data.get(key, "")):
            plan_data[key] = Path(plan_data[key]).name  # where the files lay is nobody's business
    document = {"recorded": today, "plan": plan_data, "files": files}
    return (json.dumps(document, indent=2) + "\n").encode()


def npz_bytes(arrays: dict[str, np.ndarray]) -> bytes:
    """A compressed archive of arrays with no time stamps in it, so that equal arrays give equal bytes."""
    import io
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            inner = io.BytesIO()
            np.lib.format.write_array(inner, np.ascontiguousarray(array), allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            archive.writestr(info, inner.getvalue(), zipfile.ZIP_DEFLATED)
    return out.getvalue()
