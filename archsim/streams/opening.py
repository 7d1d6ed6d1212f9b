"""From the text of a stream to the stream.

=============================================  ========================================================================
``recorded:<stem>[:<variant>]``                a shipped recording, or ``traces/<stem>`` of an ``ARCHSIM_PATH`` folder
``synthetic:<target>[+<draft>]:<task>``        the generator; without a draft it is the target's EAGLE3 head
``synthetic:<diffusion model>:<task>[:...]``   the denoising generator, with a preset or ``level=<number>``
``path/to/file.npz[:<variant>]``, ``.jsonl``   a recording of one of the formats of :mod:`archsim.streams.formats`
=============================================  ========================================================================
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from archsim.config import InputError, user_folders
from archsim.streams.acceptance import acceptance, default_draft, prompt_tokens, table
from archsim.streams.denoise import synthetic_denoising
from archsim.streams.early_exit import ExitStream
from archsim.streams.exits import ExitRecords, load_exits
from archsim.streams.files import read_bytes, read_jsonl, read_npz, sha256_hex
from archsim.streams.formats import jsonl_format, load_denoise, load_jacobi, load_ngrams, load_trees
from archsim.streams.generator import Shape
from archsim.streams.interface import DecisionStream
from archsim.streams.prompts import PROMPTS, load_prompts
from archsim.streams.recorded import BlockStream, NgramStream
from archsim.streams.synthetic import SyntheticStream
from archsim.streams.trees import TreeStream
from archsim.units import quote, suggest

SUFFIXES = (".npz", ".jsonl")
DEFAULT_TOKENS = 128
MAX_LENGTH = 1 << 24
_SHAPE = tuple(field.name for field in fields(Shape))
_JOB = ("target", "prompt_tokens", "tokens")
_FORMS = "recorded:<name>[:<variant>], synthetic:<target>[+<draft>]:<task>, or the path of a .npz or .jsonl recording"
MANIFEST = "manifest.json"
_NO_STREAM = ("prompts", "adapters")
_FACTS = ("sha256", "format", "model", "source", "licence", "default", "prompts")  # of a recording's own manifest
_KEPT = 8  # parsed recordings kept in memory

_parsed: dict[tuple[str, str, str], Any] = {}


class _Found(NamedTuple):
    """A recording's file, its content and what is known of it."""

    path: Path
    data: bytes
    name: str
    variant: str
    facts: Mapping[str, Any]  # its entry in the manifest; empty for a stranger's file


def open_stream(text: str, seed: int, **context: Any) -> DecisionStream:
    """Open the stream that `text` names.

    Parameters
    ----------
    text : str
        See the module.
    seed : int
        Keys every draw together with the stream's name.
    **context
        ``target``: the model simulated (a recording of another one becomes a proxy). ``prompt_tokens``: prompt length,
        instead of the recorded or typical one. ``tokens``: output length of synthetic requests (default 128; a
        recording has its own). Fields of :class:`archsim.streams.generator.Shape`, for synthetic streams only. None
        counts as not given.

    Raises
    ------
    InputError
        For anything that is wrong with the text, the context or the file, in one line.
    """
    given = {key: value for key, value in context.items() if value is not None}
    for key in given:
        if key not in _SHAPE + _JOB:
            raise InputError(f"unknown stream setting {quote(key)}; {suggest(key, _SHAPE + _JOB)}")
    for key in ("prompt_tokens", "tokens"):
        value = given.get(key)
        if value is not None and (type(value) is not int or not 0 < value <= MAX_LENGTH):
            raise InputError(f"{key} must be a whole number from 1 to {MAX_LENGTH}, not {quote(value)}")
    if not isinstance(text, str):
        raise InputError(f"a stream is named by a text, not {quote(text)}: {_FORMS}")
    if text.startswith("synthetic:"):
        return _synthetic(text, seed, given)
    found = _shipped(text) if text.startswith("recorded:") else _stranger(text)
    for key in given:
        if key in _SHAPE:
            raise InputError(f"{key} is for synthetic streams and cannot change the recorded {quote(text)}")
    return _recorded(found, seed, given)


def label(stream: DecisionStream, target_model: str, draft_model: str | None = None) -> str:
    """How reports name the origin of a stream's decisions when `target_model` (with `draft_model`) is simulated.

    ``synthetic`` or ``recorded`` when the stream's decisions are those of the simulated models; else
    ``synthetic-proxy:<target>+<draft>`` or ``recorded-proxy:<target>`` with the stream's own.
    """
    own = stream.model == target_model and (draft_model is None or stream.draft in (None, draft_model))
    if stream.kind == "synthetic":
        pair = f"{stream.model}+{stream.draft}" if stream.draft else stream.model
        return "synthetic" if own else f"synthetic-proxy:{pair}"
    return "recorded" if own else f"recorded-proxy:{stream.model}"


def _synthetic(text: str, seed: int, given: dict[str, Any]) -> DecisionStream:
    parts = text.split(":")
    if all(parts) and (len(parts) == 4 or (len(parts) == 3 and parts[1] in table().diffusion)):
        return _denoising(text, parts, seed, given)
    models = parts[1].split("+") if len(parts) == 3 else []
    if not 1 <= len(models) <= 2 or not all(models) or not parts[2]:
        raise InputError(f"cannot read stream {quote(text)}; write synthetic:<target>[+<draft>]:<task>")
    target, draft, task = models[0], models[1] if len(models) == 2 else default_draft(models[0]), parts[2]
    prompt, _ = prompt_tokens(task)
    tail = table().tails.get((target, draft))
    shape = ({} if tail is None else {"tail": tail}) | {key: given[key] for key in _SHAPE if key in given}
    source = "given as acceptance"
    if "acceptance" not in shape:
        cell = acceptance(target, draft, task).level
        shape["acceptance"], source = cell.value, cell.source
    return SyntheticStream(
        f"synthetic:{target}+{draft}:{task}",
        seed,
        Shape(**shape),
        prompt_tokens=given.get("prompt_tokens", prompt),
        tokens=given.get("tokens", DEFAULT_TOKENS),
        source=source,
        model=target,
        draft=draft,
    )


def _denoising(text: str, parts: list[str], seed: int, given: dict[str, Any]) -> DecisionStream:
    for key in given:
        if key in _SHAPE:
            raise InputError(f"{key} is for speculative streams and cannot change the denoising {quote(text)}")
    return synthetic_denoising(
        parts[1],
        parts[2],
        parts[3] if len(parts) == 4 else "",
        seed,
        prompt=given.get("prompt_tokens"),
        tokens=given.get("tokens", DEFAULT_TOKENS),
    )


@cache
def packed_traces() -> Path:
    """Folder of the recordings that come with archsim: in the installed wheel, or beside the package in a checkout."""
    package = resources.files("archsim")
    for folder in (Path(str(package.joinpath("_data", "traces"))), Path(str(package)).parent / "traces"):
        if folder.is_dir():
            return folder
    raise InputError("archsim's own recordings are missing; install it again")


@cache
def manifest() -> Mapping[str, Mapping[str, Any]]:
    """Facts about the shipped recordings by file name: format, model, checksum, licence, variants."""
    path = packed_traces() / MANIFEST
    try:
        return json.loads(read_bytes(path).decode("utf-8"))["files"]
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: not a manifest of recordings; install archsim again") from error


def recorded_names() -> list[str]:
    """Names of the shipped recordings, without variants."""
    return sorted(Path(name).stem for name, facts in manifest().items() if facts["format"] not in _NO_STREAM)


def _shipped(text: str) -> _Found:
    _, _, rest = text.partition(":")
    stem, _, variant = rest.partition(":")
    if not stem or "/" in stem or "\\" in stem or stem.startswith("."):
        raise InputError(f"cannot read stream {quote(text)}; write recorded:<name>[:<variant>]")
    for folder in user_folders():
        for suffix in SUFFIXES:
            path = folder / "traces" / (stem + suffix)
            if path.is_file():
                data = read_bytes(path)
                return _Found(path, data, f"recorded:{stem}", variant, _facts_beside(path, data))
    for name, facts in manifest().items():
        if Path(name).stem == stem and facts["format"] not in _NO_STREAM:
            return _Found(packed_traces() / name, _verified(name), f"recorded:{stem}", variant, facts)
    raise InputError(f"no recording {quote(stem)}; {suggest(stem, recorded_names())}")


def _verified(name: str) -> bytes:
    path = packed_traces() / name
    data = read_bytes(path)
    if sha256_hex(data) != manifest()[name]["sha256"]:
        raise InputError(f"{path}: its checksum is not the one in manifest.json; restore it or install archsim again")
    return data


def _stranger(text: str) -> _Found:
    name, variant = text, ""
    if not text.endswith(SUFFIXES):
        name, _, variant = text.rpartition(":")
    if not name.endswith(SUFFIXES):
        raise InputError(f"cannot read stream {quote(text)}; write {_FORMS}")
    if not text.isprintable():
        raise InputError(f"cannot read stream {quote(text)}; a path has printable characters only")
    path = Path(name)
    data = read_bytes(path)
    return _Found(path, data, f"recorded:{path.stem}", variant, _facts_beside(path, data))


def _facts_beside(path: Path, data: bytes) -> Mapping[str, Any]:
    """What a ``manifest.json`` beside a recording says of it, as ``archsim record`` writes it; empty without one."""
    beside = path.parent / MANIFEST
    if not beside.is_file():
        return {}
    try:
        facts = json.loads(read_bytes(beside))["files"].get(path.name, {})
        facts = {key: facts[key] for key in _FACTS if isinstance(facts.get(key), str)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}  # another tool's manifest
    if facts.get("sha256", "") != sha256_hex(data):
        if "sha256" not in facts:
            return {}
        raise InputError(
            f"{path}: its checksum is not the one in {MANIFEST} beside it; restore it, or remove the entry"
        )
    return facts


def _recorded(found: _Found, seed: int, given: dict[str, Any]) -> DecisionStream:
    exits = found.path.suffix == ".npz"
    records = None if exits else _cached(found, "lines", lambda: read_jsonl(found.path, found.data))
    kind = "exit" if exits else jsonl_format(records)
    model = found.facts.get("model", found.path.stem)
    common = {
        "kind": "recorded" if given.get("target", model) == model else "recorded-proxy",
        "source": found.facts.get("source", f"{found.path} (sha256 {sha256_hex(found.data)[:12]})"),
        "model": model,
        "prompts": given.get("prompt_tokens", _prompts(found)),
    }
    if exits:
        recording = _cached(found, "exit", lambda: load_exits(found.path, read_npz(found.path, found.data)))
        layer = _layer(found, recording)
        return ExitStream(f"{found.name}:{layer}", seed, recording, layer, **common)
    if kind == "denoise":
        mode = found.variant or found.facts.get("default") or str(records[0].values.get("mode", ""))
        recording = _cached(found, f"denoise:{mode}", lambda: load_denoise(records, mode))
        return BlockStream(f"{found.name}:{mode}", seed, recording, **common)
    if found.variant:
        raise InputError(f"stream {found.name} has no variants, so {quote(found.variant)} is none of it")
    load, stream = {
        "tree": (load_trees, TreeStream),
        "ngram": (load_ngrams, NgramStream),
        "jacobi": (load_jacobi, BlockStream),
    }[kind]
    return stream(found.name, seed, _cached(found, kind, lambda: load(records)), **common)


def _layer(found: _Found, recording: ExitRecords) -> int:
    if not found.variant:
        return int(found.facts.get("default", max(recording.layers)))
    names = [str(layer) for layer in recording.layers]
    if found.variant not in names:
        raise InputError(f"stream {found.name} has no exit {quote(found.variant)}; it has {', '.join(names)}")
    return int(found.variant)


def _prompts(found: _Found) -> Mapping[str, int] | int | None:
    """Prompt lengths: the manifest's single number, or those of the prompts file beside the recording."""
    if "prompt_tokens" in found.facts:
        return found.facts["prompt_tokens"]
    name = str(found.facts.get("prompts", PROMPTS))
    if Path(name).name != name:
        raise InputError(f"{found.path}: its manifest names the prompts {quote(name)}; a file beside it is needed")
    path = found.path.parent / name
    if not path.is_file():
        return None
    data = _verified(name) if found.path.parent == packed_traces() else read_bytes(path)
    return _cached(found._replace(path=path, data=data), "prompts", lambda: load_prompts(read_jsonl(path, data)))


def _cached(found: _Found, what: str, parse: Any) -> Any:
    """The parsed content, kept by path and checksum; its arrays are made read-only as streams share them."""
    key = (str(found.path), sha256_hex(found.data), what)
    if key not in _parsed:
        parsed = parse()
        for column in parsed if isinstance(parsed, tuple) else ():
            if isinstance(column, np.ndarray):
                column.setflags(write=False)
        while len(_parsed) >= _KEPT:
            del _parsed[next(iter(_parsed))]
        _parsed[key] = parsed
    return _parsed[key]
