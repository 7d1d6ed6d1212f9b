"""What asks for the impossible is answered at once, by name; what is not a plain file or plain YAML is refused."""

from __future__ import annotations

import gzip
import json
import os
import struct
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import material
from harness import Case, call, verdict

#: Seconds of CPU for an answer, imports and compilation apart.
AT_ONCE_S = 1.0
HUGE = str(2**40)
RUN = (*material.RUN, "--tokens", "2", "--trace", "off")
PRODUCT = ("trace", "npu", "--m", HUGE, "--k", "4096", "--n", "4096")


def answer(case: Case, tmp_path: Path) -> str:
    """The line on stderr of a refusal that is as it should be."""
    outcome = call(case, tmp_path / "case")
    assert not verdict(case, outcome)
    assert outcome.code == 2, outcome
    return outcome.err


def sweep_of(axes: dict, **keys) -> dict[str, bytes]:
    data = {"kind": "sweep", "name": "big", "run": "run.yaml", "axes": axes, **keys}
    return {"big.yaml": json.dumps(data).encode(), "run.yaml": material.FILES["run.yaml"]}


SPAN = {"low": "2 GB/s", "high": "3 GB/s"}
#: What is asked for -> (command line, files, words of the answer).
IMPOSSIBLE = {
    "2^40 tokens": ((*material.RUN, "--tokens", HUGE), {}, "--tokens"),
    "1e9 prompts": ((*RUN, "--prompts", str(10**9)), {}, "--prompts"),
    "2^40 rows of a prompt": ((*RUN[:9], "--set", f"job.prompt_tokens={HUGE}"), {}, "job.prompt_tokens"),
    "a 1 TB store of DRAM": ((*RUN, "--set", "system.dram.capacity_bytes=1 TB"), {}, "system.dram.capacity_bytes"),
    "a store beyond int64": ((*RUN, "--set", "system.dram.capacity_bytes=1e30 TB"), {}, "system.dram.capacity_bytes"),
    "a 1 EB store of flash": ((*RUN, "--set", "system.flash.capacity_bytes=1 EB"), {}, "system.flash.capacity_bytes"),
    "1 TB of VTCM": ((*RUN, "--set", "system.npu.vtcm_bytes=1 TB"), {}, "system.npu.vtcm_bytes"),
    "2^40 windows": ((*RUN, "--set", f"system.npu.window_sessions={HUGE}"), {}, "system.npu.window_sessions"),
    "2^40 rows at a time": ((*RUN, "--set", f"system.npu.row_multiple={HUGE}"), {}, "system.npu.row_multiple"),
    "2^40 vector contexts": ((*RUN, "--set", f"system.npu.hvx_contexts={HUGE}"), {}, "system.npu.hvx_contexts"),
    "2^40 DRAM channels": ((*RUN, "--set", f"system.dram.channels={HUGE}"), {}, "system.dram.channels"),
    "2^40 layers": ((*RUN, "--set", f"model.target.layers={HUGE}"), {}, "model.target.layers"),
    "2^40 words": ((*RUN, "--set", f"model.target.vocab={HUGE}"), {}, "model.target.vocab"),
    "2^40 layer buffers": ((*RUN, "--set", f"schedule.ring={HUGE}"), {}, "schedule.ring"),
    "2^40 cycles of latency": (
        ("run", "ahasd_full", "--trace", "off", "--set", f"system.pim.aau_latency_cycles={HUGE}"),
        {},
        "system.pim.aau_latency_cycles",
    ),
    "2^40 cycles of control": (
        ("run", "ahasd_full", "--trace", "off", "--set", f"system.control.edc_update_cycles={HUGE}"),
        {},
        "system.control.edc_update_cycles",
    ),
    "1e9 points of an axis": (
        ("sweep", "big.yaml", "-o", "out"),
        sweep_of({"job.seed": {**SPAN, "steps": 10**9}}),
        "big",
    ),
    "1e9 points of a product": (
        ("sweep", "big.yaml", "-o", "out"),
        sweep_of({f"job.{key}": list(range(1, 1001)) for key in ("seed", "tokens", "prompts")}),
        "the sweep has 1000000000 points, more than 1000000",
    ),
    "1e9 samples": (
        ("sweep", "big.yaml", "-o", "out"),
        sweep_of({"system.flash.stream_bytes_per_s": SPAN}, sample={"points": 10**9, "method": "lhs", "seed": 1}),
        "sample.points",
    ),
    "2^40 trials": (("search", "big.yaml", "--trials", HUGE), sweep_of({"job.seed": [0, 1]}), "--trials"),
    "2^40 workers": (("sweep", "big.yaml", "-j", HUGE, "-o", "out"), sweep_of({"job.seed": [0, 1]}), "-j"),
    "2^40 memory channels": (("trace", "dram", "rw.txt", "--channels", HUGE), material.FILES, "channels"),
    "2^40 x 2^40 weights": (("trace", "pim", "--gemv", f"{HUGE}x{HUGE}"), {}, "GEMV"),
    "2^40 requests": (("trace", "flash", "--pattern", "rand_read", "--requests", HUGE), {}, "requests"),
    "a request of 1 TB": (("trace", "flash", "--pattern", "rand_read", "--size", "1 TB"), {}, "32 MiB"),
    "2^40 rows of a product": ((*PRODUCT, "--system", "oneplus_12"), {}, "--m"),
    "2^40 rows on an array": ((*PRODUCT, "--array", "1x1", "--dataflow", "os"), {}, "--m"),
    "an array of 2^80": (("trace", "npu", "--array", f"{HUGE}x{HUGE}", "--dataflow", "os"), {}, "array"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_the_impossible_is_named_at_once(name, tmp_path):
    args, files, words = IMPOSSIBLE[name]
    case = Case(args, files)
    call(case, tmp_path / "case")  # imports
    outcome = call(case, tmp_path / "case")
    assert not verdict(case, outcome)
    assert outcome.code == 2, outcome
    assert words in outcome.err
    assert outcome.cpu_s < AT_ONCE_S


# -- YAML ---------------------------------------------------------------------------------------------

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
)
#: What is in the file -> (its text behind the first two lines, words of the answer).
YAML = {
    "aliases of aliases": (LAUGHS, "expands to more than 100000 values"),
    "an alias in itself": ("job: &a {x: *a}\n", "has no anchor before it"),
    "nesting": ("job: " + "[" * 100_000 + "\n", "is nested deeper than 20 levels"),
    "nested mappings": ("job: " + "{a: " * 50_000 + "\n", "is nested deeper than 20 levels"),
    "a python object": (
        "job: !!python/object/apply:os.system ['touch owned']\n",
        "is not allowed; write a plain value",
    ),
    "a python name": ("job: !!python/name:os.system\n", "is not allowed; write a plain value"),
    "a tag of one's own": ("job: !run {a: 1}\n", "is not allowed; write a plain value"),
    "a binary": ("job: !!binary aGVsbG8=\n", "is not allowed; write a plain value"),
    "a tag directive": ("%TAG ! tag:yaml.org,2002:python/\n---\njob: 1\n", ""),
    "a merge key": ("job: &a {x: 1}\nmodel: {<<: *a}\n", "big.yaml:"),
    "a number of 400 digits": ("job: {tokens: " + "9" * 400 + "}\n", "big.yaml:"),
    "many keys": ("".join(f"k{i}: 1\n" for i in range(200_000)), "larger than 1048576 bytes"),
    "many values": ("job: [" + "1, " * 150_000 + "1]\n", "expands to more than 100000 values"),
}


@pytest.mark.parametrize("name", YAML)
def test_yaml_that_is_not_plain(name, tmp_path):
    text, words = YAML[name]
    case = Case(("check", "big.yaml"), {"big.yaml": b"kind: run\nname: big\n" + text.encode()})
    outcome = call(case, tmp_path / "case")
    assert not verdict(case, outcome)
    assert outcome.code == 2
    assert words in outcome.err
    assert outcome.cpu_s < 10 * AT_ONCE_S  # a megabyte of YAML is read in some seconds


# -- paths --------------------------------------------------------------------------------------------

PART = "kind: part\nname: part\nbase: {}\ndevice: flash\nspec: {{}}\n"
CLIMBS = [
    "../part2.yaml",
    "/etc/passwd",
    "/etc/passwd.yaml",
    "a/b.yaml",
    "~/x.yaml",
    "..",
    "",
    "file:///etc/x.yaml",
    "x\\y.yaml",
]


@pytest.mark.parametrize("base", CLIMBS)
def test_a_base_is_a_name_beside_the_file(base, tmp_path):
    (tmp_path / "part2.yaml").write_bytes(material.FILES["part.yaml"])
    text = PART.format(json.dumps(base)).encode()
    assert "part.yaml:3: " in answer(Case(("check", "part.yaml"), {"part.yaml": text}), tmp_path)


@pytest.mark.parametrize(
    "stream", ["recorded:../../etc/passwd", "recorded:/etc/passwd:1", "recorded:..", "../../../etc/passwd"]
)
def test_a_stream_name_does_not_climb(stream, tmp_path):
    line = answer(Case(("run", *material.RUN[1:7], "--stream", stream)), tmp_path)
    assert "root:" not in line
    assert stream in line or "no recording" in line


@pytest.mark.parametrize("path", ["../run.yaml", "/etc/passwd", "../../x.npz"])
@pytest.mark.parametrize("key", ["system", "target", "stream"])
def test_a_file_names_no_path_outside(key, path, tmp_path):
    """What a run file of a stranger names is a name, never a path of this machine."""
    (tmp_path / "run.yaml").write_bytes(material.FILES["run.yaml"])
    job = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25", **({} if key == "system" else {key: path})}
    data = {"kind": "run", "name": "run", "system": path if key == "system" else "oneplus_12", "job": job}
    data["schedule"] = {"name": "flash_ar"}
    answer(Case(("check", "run.yaml"), {"run.yaml": json.dumps(data).encode()}), tmp_path)


#: Commands that read a file, with ``{}`` in its place.
READERS = {
    "run": ["run", "{}.yaml"],
    "check": ["check", "{}.yaml"],
    "check stream": ["check", "{}.npz"],
    "stream": ["run", *material.RUN[1:7], "--stream", "./{}.jsonl"],
    "sweep": ["sweep", "{}.yaml", "-o", "out"],
    "system": ["show", "system", "./{}.yaml"],
    "standard": ["trace", "dram", "rw.txt", "--standard", "./{}.yaml"],
    "dram": ["trace", "dram", "{}.txt"],
    "pim": ["trace", "pim", "{}.txt"],
    "flash": ["trace", "flash", "{}.txt"],
    "gguf": ["import", "model", "{}.gguf"],
    "config.json": ["import", "model", "{}.json"],
    "prices": ["report", "done", "--tables", "{}.yaml"],
    "report": ["report", "{}.x"],
    "replay": ["replay", "{}.x"],
    "explain": ["explain", "{}.x"],
    "diff": ["diff", "{}.x", "done"],
    "plot": ["plot", "{}.csv", "--kind", "lines", "-o", "f.svg"],
}


def make(kind: str, path: Path) -> None:
    """Put something at `path` that is no plain file."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "huge":
        with path.open("wb") as stream:
            stream.truncate(1 << 40)  # a hole: it takes no room
    else:
        path.symlink_to(
            {"loop": path.name, "dangling": "nowhere", "device": "/dev/zero", "memory": "/proc/self/mem"}[kind]
        )


@pytest.mark.parametrize("kind", ["fifo", "folder", "loop", "dangling", "device", "memory", "huge"])
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_plain_file_is_refused(reader, kind, tmp_path, monkeypatch, capsys):
    """No reader waits for a pipe, follows a loop, drinks from a device, takes a folder or reads a file of 1 TB."""
    from archsim.cli import run_cli

    if reader in ("dram", "flash") and kind == "huge":
        pytest.skip("these stream a trace of any length; its first line is refused")
    monkeypatch.chdir(tmp_path)
    args = [word.format("odd") for word in READERS[reader]]
    name = next(word for word in args if "odd" in word).removeprefix("./")
    make(kind, tmp_path / name)
    (tmp_path / "rw.txt").write_bytes(material.FILES["rw.txt"])
    if "done" in args:
        for path, data in material.run_folder().items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_bytes(data)
    before = sorted(path.name for path in tmp_path.iterdir())
    code = run_cli(args)
    _, err = capsys.readouterr()
    assert code == 2, err
    assert err.startswith("archsim: ")
    assert err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before


# -- compressed files ---------------------------------------------------------------------------------


def zip_bomb() -> bytes:
    """An archive whose one array is 260 MiB of zeros, in a megabyte."""
    buffer = BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w", force_zip64=True) as out,
    ):
        head = b"{'descr': '|u1', 'fortran_order': False, 'shape': (272629760,), }"
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + head.ljust(117) + b"\n")
        for _ in range(260):
            out.write(bytes(1 << 20))
    return buffer.getvalue()


def test_a_zip_bomb_is_refused_before_it_unfolds(tmp_path):
    assert "x.npz: " in answer(Case(("check", "x.npz"), {"x.npz": zip_bomb()}), tmp_path)


BOMB = gzip.compress(bytes(1 << 26), mtime=0)


@pytest.mark.parametrize("device", ["dram", "pim", "flash"])
def test_a_gzip_bomb_is_refused_at_its_first_line(device, tmp_path):
    """64 MiB of zeros in 64 KiB: no line of a trace is that long."""
    assert "t.gz" in answer(Case(("trace", device, "t.gz"), {"t.gz": BOMB}), tmp_path)


def test_a_parquet_bomb_is_refused(tmp_path):
    """Four million equal rows in 200 kilobytes, under a digest that nobody could check without unfolding them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from archsim.trace.columns import SCHEMA

    zeros = pa.table({name: pa.array([0]).take(pa.array([0] * 1_000_000)) for name in SCHEMA["rows"]})
    buffer = BytesIO()
    with pq.ParquetWriter(buffer, zeros.schema, compression="zstd") as writer:
        for _ in range(4):
            writer.write_table(zeros)
    files = material.run_folder() | {"done/rows.parquet": buffer.getvalue()}
    line = answer(Case(("report", "done"), files), tmp_path)
    assert "done/rows.parquet: 4000000 rows in " in line


def test_memory_that_is_not_there_is_one_line(tmp_path, monkeypatch, capsys):
    """What no bound foresaw still ends in words."""
    from archsim import catalogue
    from archsim.cli import run_cli

    monkeypatch.setattr(catalogue, "catalogue", lambda kind: bytearray(1 << 62))
    assert run_cli(["list", "systems"]) == 3
    assert capsys.readouterr().err == "archsim: not enough memory for this; lower the sizes it asks for\n"
