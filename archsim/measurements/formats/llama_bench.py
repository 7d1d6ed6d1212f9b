"""``llama-bench -o json`` or ``-o jsonl`` of llama.cpp.

A list of objects, one object, or one object a line, after whatever log the backends wrote before. Read are
``model_filename`` and ``model_type`` (model, type of the weights), ``model_n_params`` (held against the model),
``backends``, ``devices`` and ``n_gpu_layers`` (where the layers run), ``n_prompt``, ``n_gen``, ``n_depth``,
``n_batch``, ``n_ubatch``, ``n_threads``, ``type_k`` and ``type_v``, and
``avg_ts``, or ``avg_ns`` where it is missing; ``samples_ts`` or ``samples_ns`` is counted. Others are not needed.

A row with ``n_gen`` and no prompt is decoding, one with ``n_prompt`` and no ``n_gen`` prefill, one with both is both,
one after the other. Backends ``HTP`` and ``Hexagon`` are the NPU, ``CPU`` (or no layer off it) the CPU; a
model that ran in part on the NPU is listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from archsim.measurements.models import spec_of
from archsim.measurements.names import dtype_of, model_of, type_in
from archsim.measurements.readers import Format, Hints, Source
from archsim.measurements.rows import Measurement, ModelCase, group_of
from archsim.units import quote

_MARKDOWN = re.compile(r"^\|\s*model\s*\|.*\|\s*t/s\s*\|", re.M)
_NPU = re.compile(r"\b(htp\d*|hexagon)\b", re.I)
#: More layers than a model has.
ALL_LAYERS = 1 << 20
#: Relative difference of parameters from which two models are not the same.
_PARAMETERS = 0.10


def recognise(text: str) -> bool:
    """Whether fields of llama-bench are there."""
    return '"avg_ts"' in text or ('"n_prompt"' in text and '"n_gen"' in text)


def instead(text: str) -> str:
    """What to say of llama-bench's other outputs."""
    if _MARKDOWN.search(text):
        return "is a table of llama-bench for reading, which does not say all that ran; give -o jsonl to llama-bench"
    if text.startswith(("build_commit,", "INSERT INTO", "CREATE TABLE")):
        return "is llama-bench's CSV or SQL; give -o jsonl to llama-bench"
    return ""


def read(text: str, source: Source, hints: Hints) -> Iterator[Measurement]:
    """Rows of the file."""
    for place, entry in _entries(text, source):
        yield _row(source.mapping(place, entry), place, source, hints)


def _entries(text: str, source: Source) -> Iterator[tuple[str, Any]]:
    text = source.document(text)
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if lines[0][1].lstrip().startswith("{") and all(line.lstrip().startswith("{") for _, line in lines) and lines[1:]:
        for number, line in lines:
            yield f"line {number}", source.json(line, f"line {number}")
        return
    data = source.json(text)
    for number, entry in enumerate(data if isinstance(data, list) else [data]):
        yield f"[{number}]", entry


def _row(entry: Mapping[str, Any], place: str, source: Source, hints: Hints) -> Measurement:
    counts = {}
    for field, default in (("n_prompt", 0), ("n_gen", 0), ("n_depth", 0), ("n_threads", 0), ("n_gpu_layers", 0)):
        value = entry.get(field, default)
        if field == "n_gpu_layers" and isinstance(value, int) and not isinstance(value, bool) and value < 0:
            value = ALL_LAYERS
        counts[field] = source.whole(place, field, value)
    batches = [source.whole(place, field, entry.get(field, 512), least=1) for field in ("n_batch", "n_ubatch")]
    tokens = counts["n_prompt"] + counts["n_gen"]
    if not tokens:
        source.fail(place, "has neither n_prompt nor n_gen above 0")
    if "avg_ts" in entry:
        speed = source.number(place, "avg_ts", entry["avg_ts"])
    elif "avg_ns" in entry:
        speed = tokens * 1e9 / source.number(place, "avg_ns", entry["avg_ns"])
    else:
        source.fail(place, "has neither avg_ts nor avg_ns")
    samples = entry.get("samples_ts", entry.get("samples_ns"))
    where, problem = _device(entry, counts["n_gpu_layers"])
    model, dtype, words = _model(entry, hints)
    kv = {dtype_of(str(entry.get(field, "f16"))) for field in ("type_k", "type_v")}
    if not (problem or words) and (len(kv) > 1 or "" in kv):
        words = f"KV cache of {quote(entry.get('type_k'))} and {quote(entry.get('type_v'))}"
    problem = problem or words or _share_off(entry, where, model)
    parts = [f"{short}{counts[field]}" for short, field in (("pp", "n_prompt"), ("tg", "n_gen")) if counts[field]]
    label = f"{model or entry.get('model_type') or '?'} {'+'.join(parts)}" + (
        f" @ d{counts['n_depth']}" if counts["n_depth"] else ""
    )
    case = None
    if not problem:
        threads = counts["n_threads"] if where == "cpu" else 0
        run = (counts["n_prompt"], counts["n_gen"], counts["n_depth"], min(batches))
        case = ModelCase(where, model, *run, dtype, kv.pop(), threads)
    group = group_of(case) if case else "not simulated"
    count = len(samples) if isinstance(samples, list) and samples else 1
    return Measurement(place, label, group, speed, "tok/s", case, problem, None, count)


def _device(entry: Mapping[str, Any], layers: int) -> tuple[str, str]:
    """Where the layers ran, or why that cannot be simulated."""
    backends, devices = (str(entry.get(field) or "") for field in ("backends", "devices"))
    named = backends if devices in ("", "auto") else devices
    if named.upper() in ("", "CPU", "NONE") or not layers:
        return "cpu", ""
    if _NPU.search(named):
        return "npu", ""
    return "", f"backend {quote(named)} is neither the CPU nor the NPU"


def _share_off(entry: Mapping[str, Any], where: str, model: str) -> str:
    """Why a model that ran in part on the NPU is not simulated; empty where all layers ran there, or none."""
    layers = entry.get("n_gpu_layers", ALL_LAYERS)
    if where != "npu" or not isinstance(layers, int) or layers >= (all_layers := spec_of(model).layers):
        return ""
    if layers < 0:
        return f"n_gpu_layers {layers} is none or all of them, as llama.cpp's version has it; give a number"
    return f"{layers} of {all_layers} layers ran on the NPU, and the others on the CPU"


def _model(entry: Mapping[str, Any], hints: Hints) -> tuple[str, str, str]:
    """Model, type of its weights, and why there is none."""
    said = [str(entry.get(field, "")) for field in ("model_filename", "model_type")]
    model = next(filter(None, map(model_of, said)), "") or hints.target
    if not model:
        return "", "", f"no model of archsim is meant by {quote(said[0] or said[1])}; give --target"
    dtype = next(filter(None, map(type_in, (said[1], said[0]))), "")
    if dtype and not dtype_of(dtype):
        return model, "", f"weights of type {quote(dtype)} are not among archsim's"
    wanted = entry.get("model_n_params")
    if isinstance(wanted, int) and not isinstance(wanted, bool) and wanted > 0:
        found = _parameters(model)
        if abs(found / wanted - 1) > _PARAMETERS:
            return model, "", f"{wanted:.3g} parameters, and {model} has {found:.3g}; give --target"
    return model, dtype_of(dtype), ""


def _parameters(model: str) -> int:
    return sum(spec_of(model).parameters.values())


FORMAT = Format("llama-bench", "llama-bench -o json or jsonl", recognise, read, instead)
