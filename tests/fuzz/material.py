"""What the grammars start from: files that archsim takes, and the words of its command line."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from archsim.cli import run_cli
from archsim.config import packed_folder

RUN = ["run", "--system", "oneplus_12", "--schedule", "flash_ar", "--target", "smollm2-135m"]
RUN += ["--stream", "recorded:exit_layers:25", "--set", "job.prompt_tokens=4"]
TRACES = Path(__file__).parents[2] / "traces"

FILES: dict[str, bytes] = {
    "run.yaml": b"kind: run\nname: run\nsystem: oneplus_12\nschedule: {name: flash_ar}\n"
    b"job: {target: smollm2-135m, stream: 'recorded:exit_layers:25', tokens: 2, prompt_tokens: 4}\n",
    "sweep.yaml": b"kind: sweep\nname: sweep\nrun: run.yaml\naxes: {job.seed: [0, 1]}\n"
    b"objectives: {decode_tokens_per_s: max}\n",
    "span.yaml": b"kind: sweep\nname: span\nrun: run.yaml\n"
    b"axes: {system.flash.stream_bytes_per_s: {low: 2 GB/s, high: 3 GB/s, steps: 2}}\nrepeat: []\n",
    "prices.yaml": b'kind: prices\nname: prices\nsource: "x"\nenergy_pj: {dram.io_bits: {value: 3.4 pJ, range: '
    b"[1.4 pJ, 17 pJ]}}\nnodes: {npu: {from_nm: 4, to_nm: 7}}\n",
    "part.yaml": b"kind: part\nname: part\nbase: ufs_4_0.yaml\ndevice: flash\nspec: {stream_bytes_per_s: "
    b"{value: 4.2 GB/s, source: mine, range: [4 GB/s, 5 GB/s]}}\n",
    "rw.txt": b"R 0x40\nW 0x80\nR 0x1000\n",
    "ldst.txt": b"LD 64\nST 0x80\n",
    "dramsim3.txt": b"0x40 READ 0\n0x80 WRITE 9\n",
    "aim.trace": b"AiM WR_GB 1 0 1\nAiM MAC_ABK 4 1 0\nAiM RD_MAC 0 1\nAiM EOC\n",
    "mqsim.txt": b"0 0 0 8 1\n1000 0 64 8 0\n",
    "config.json": json.dumps(
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "vocab_size": 256,
            "max_position_embeddings": 64,
            "hidden_act": "silu",
            "tie_word_embeddings": True,
        }
    ).encode(),
}


@functools.cache
def shipped() -> dict[str, tuple[str, bytes]]:
    """Configuration files that come with archsim: kind and text by file name."""
    from archsim.datafiles import shelf

    found = {}
    for path in sorted(packed_folder().glob("*/*.yaml")):
        found[path.name] = (path.parent.name.removesuffix("s"), path.read_bytes())
    for kind in ("standard", "controller", "pim_device"):
        for path in sorted(shelf(kind).folder.glob("*.yaml")):
            found[path.name] = (kind, path.read_bytes())
    for path in sorted((Path(__file__).parents[2] / "archsim" / "devices" / "flash" / "ssds").glob("*.yaml")):
        found[path.name] = ("flash_device", path.read_bytes())
    return found


def warm() -> None:
    """Run one command of each sort, so that no case waits for a kernel to be compiled."""
    models = (
        ("chain_sd", "smollm2-135m", "recorded:exit_layers:25"),
        ("dllm_npu", "llada-8b", "synthetic:llada-8b:gsm8k"),
    )
    tail = ["--tokens", "2", "--trace", "off", "--set", "job.prompt_tokens=4"]
    commands = [
        ["run", "--system", "oneplus_12", "--schedule", schedule, "--target", target, "--stream", stream, *tail]
        for schedule, target, stream in models
    ]
    commands += [["trace", "dram", "rw.txt"], ["trace", "dram", "ldst.txt", "--injection", "chain"]]
    commands += [["trace", "pim", "aim.trace", "--device", "lpddr5_pim"], ["trace", "pim", "--gemv", "64x64"]]
    commands += [["trace", "flash", "mqsim.txt"], ["explain", "done"], ["replay", "done"], ["check", "done"]]
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for name, data in (FILES | run_folder() | sweep_folder()).items():
                Path(name).parent.mkdir(exist_ok=True)
                Path(name).write_bytes(data)
            for args in commands:
                said = io.StringIO()
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
                    code = run_cli(args)
                if code:
                    raise RuntimeError(f"{args} ended in {code}: {said.getvalue()}")
        finally:
            os.chdir(here)


@functools.cache
def run_folder() -> dict[str, bytes]:
    """Files of a finished run, by path ``done/...``."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "done"
        with contextlib.redirect_stdout(io.StringIO()):
            code = run_cli([*RUN, "--tokens", "2", "-o", str(made), "--json"])
        if code:
            raise RuntimeError(f"the run to start from ended in {code}")
        return {f"done/{path.name}": path.read_bytes() for path in sorted(made.iterdir())}


@functools.cache
def _read() -> tuple[dict[str, Any], Any]:
    from archsim.trace.runfolder import read_run

    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "done"
        made.mkdir()
        for name, data in run_folder().items():
            (made.parent / name).write_bytes(data)
        manifest, tables = read_run(made)
    return tables, manifest


def run_tables() -> tuple[dict[str, dict[str, np.ndarray]], dict[str, Any]]:
    """Tables and manifest of the finished run, to be changed."""
    tables, manifest = _read()
    copied = {table: {name: values.copy() for name, values in columns.items()} for table, columns in tables.items()}
    return copied, json.loads(json.dumps(manifest))


def resealed(tables: dict[str, dict[str, np.ndarray]], manifest: Any) -> dict[str, bytes]:
    """Files of a run folder with these tables, with every digest in the manifest made anew."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from archsim.trace.columns import digest_of, run_digest
    from archsim.trace.manifest import seal

    files, facts = {}, {}
    for table, columns in tables.items():
        buffer = io.BytesIO()
        pq.write_table(
            pa.table({k: pa.array(v.tolist()) if v.dtype.kind == "U" else v for k, v in columns.items()}), buffer
        )
        files[f"done/{table}.parquet"] = buffer.getvalue()
        digest = digest_of(table, columns)
        facts[table] = {"rows": digest.rows, "columns": digest.types, "digest": digest.digest()}
    if isinstance(manifest, dict) and isinstance(manifest.get("tables"), dict):
        manifest["tables"] = facts
        manifest["digest"] = run_digest({table: facts[table]["digest"] for table in ("rows", "blocks", "notes")})
        with contextlib.suppress(ValueError):
            manifest = seal(manifest)
    files["done/manifest.json"] = json.dumps(manifest).encode()
    return files


@functools.cache
def sweep_folder() -> dict[str, bytes]:
    """Files of a finished sweep of `FILES`, by path ``table/...``."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("run.yaml", "sweep.yaml"):
            (Path(folder) / name).write_bytes(FILES[name])
        here = os.getcwd()
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                code = run_cli(["sweep", "sweep.yaml", "-o", "table", "--json"])
        finally:
            os.chdir(here)
        if code:
            raise RuntimeError(f"the sweep to start from ended in {code}")
        made = Path(folder) / "table"
        return {f"table/{path.relative_to(made)}": path.read_bytes() for path in made.rglob("*") if path.is_file()}


@functools.cache
def recordings() -> dict[str, bytes]:
    """The beginnings of the shipped recordings, and a small archive of exits."""
    found = {}
    for path in sorted(TRACES.glob("*.jsonl")):
        found[path.name] = b"".join(path.read_bytes().splitlines(keepends=True)[:6])
    with np.load(TRACES / "exit_layers.npz") as archive:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **{name: archive[name] for name in archive.files})
    found["exits.npz"] = buffer.getvalue()
    return found


@functools.cache
def block_samples() -> dict[str, bytes]:
    """Sample traces of requests to a flash device."""
    return {path.name: path.read_bytes() for path in sorted((TRACES / "flash" / "samples").iterdir())}


@functools.cache
def gguf_file() -> bytes:
    """A GGUF file of two tensors and a few keys, put together by hand (version 3, little-endian)."""
    text = lambda s: struct.pack("<Q", len(s)) + s.encode()  # noqa: E731
    keys = [("general.architecture", 8, text("llama")), ("llama.block_count", 4, struct.pack("<I", 1))]
    sizes = {"embedding_length": 32, "feed_forward_length": 64, "attention.head_count": 4, "context_length": 64}
    sizes |= {"attention.head_count_kv": 2, "vocab_size": 32}
    keys += [(f"llama.{key}", 4, struct.pack("<I", value)) for key, value in sizes.items()]
    tensors = [("token_embd.weight", (32, 32)), ("output_norm.weight", (32,)), ("blk.0.attn_norm.weight", (32,))]
    tensors += [("blk.0.attn_q.weight", (32, 32)), ("blk.0.attn_k.weight", (32, 16)), ("blk.0.ffn_norm.weight", (32,))]
    tensors += [("blk.0.attn_v.weight", (32, 16)), ("blk.0.attn_output.weight", (32, 32))]
    tensors += [
        ("blk.0.ffn_gate.weight", (32, 64)),
        ("blk.0.ffn_up.weight", (32, 64)),
        ("blk.0.ffn_down.weight", (64, 32)),
    ]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    head += b"".join(text(key) + struct.pack("<I", kind) + value for key, kind, value in keys)
    at = 0
    for name, shape in tensors:
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        head += struct.pack("<IQ", 0, at)
        at += int(np.prod(shape)) * 4
    return head + b"\0" * (-len(head) % 32) + b"\0" * at


def commands() -> dict[tuple[str, ...], Any]:
    """Every command by its words, from the tree that the command line itself is parsed with."""
    from archsim.commands import parser

    def walk(command: Any, words: tuple[str, ...]) -> dict[tuple[str, ...], Any]:
        below = getattr(command, "commands", None)
        if below is None:
            return {words: command}
        return {path: leaf for name, item in below.items() for path, leaf in walk(item, (*words, name)).items()}

    return walk(parser(), ())


@functools.cache
def names() -> list[str]:
    """Names of everything that can be listed."""
    from archsim.catalogue import KINDS, catalogue

    found = [entry["name"] for kind in KINDS for entry in catalogue(kind)]
    return sorted(set(found)) + sorted({*KINDS, *KINDS.values()})


@functools.cache
def paths() -> dict[str, str]:
    """Dotted paths that ``--set`` takes, with their values as text."""
    from archsim.config import describe, load_config

    found: dict[str, str] = {}
    for name in ("demo_chain_sd", "llada_gsm8k", "ahasd_full", "thermal_session"):
        for row in describe(load_config("run", name)):
            found.setdefault(row.path, str(row.value))
    return found
