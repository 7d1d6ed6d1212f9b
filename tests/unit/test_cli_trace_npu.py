"""``archsim trace npu`` as a user calls it."""

from __future__ import annotations

import json

import pytest

from archsim.cli import run_cli

KEYS = {"cycles", "time_us", "tflop_s", "utilisation", "stall_cycles", "sram", "dram", "shares", "roofline"}
SHARES = {"dma", "dequant", "activation", "hmx", "output", "flush"}
MATMUL = ["--m", "128", "--k", "1024", "--n", "1024"]
ON_SYSTEM = [*MATMUL, "--dtype", "q4_0", "--system", "oneplus_12"]
ON_ARRAY = [*MATMUL, "--array", "32x32", "--dataflow", "ws"]


def call(args, capsys):
    code = run_cli(["trace", "npu", *(str(arg) for arg in args)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def document(args, capsys):
    code, out, err = call([*args, "--json"], capsys)
    assert (code, err) == (0, "")
    return json.loads(out)


def test_array(capsys):
    """Cycles and counts that SCALE-Sim printed for this product."""
    found = document(ON_ARRAY, capsys)
    assert set(found) >= KEYS
    assert set(found["shares"]) >= SHARES
    assert found["cycles"] == 227_327
    assert [found["sram"][key] for key in ("ifmap_reads", "filter_reads", "ofmap_writes")] == [
        4194304,
        1048576,
        4194304,
    ]
    parts = ("activation", "hmx", "output", "wait")
    assert sum(found["shares"][part] for part in parts) == pytest.approx(1)
    assert found["tflop_s"] == pytest.approx(2 * 128 * 1024**2 / 227_328 / 1e3)  # at 1 GHz
    assert found["utilisation"] == pytest.approx(found["roofline"]["fraction_of_ceiling"])


def test_array_with_little_memory_and_a_slow_link(capsys):
    ample = document(ON_ARRAY, capsys)
    slow = document([*ON_ARRAY, "--sram", "4 KiB", "--link", "4", "--clock", "2 GHz"], capsys)
    assert slow["stall_cycles"] == slow["cycles"] - ample["cycles"] > 0
    assert slow["dram"]["ifmap_reads"] == 32 * ample["dram"]["ifmap_reads"]
    assert slow["time_us"] == pytest.approx(slow["length_cycles"] / 2e3)
    assert slow["roofline"]["bound"] == "memory"
    assert slow["roofline"]["fraction_of_ceiling"] <= 1


@pytest.mark.parametrize("kernel", ["gemv", "ggml_hvx", "static_graph"])
def test_matmul_on_a_system(kernel, capsys):
    found = document([*ON_SYSTEM, "--kernel", kernel], capsys)
    assert set(found) >= KEYS
    assert set(found["shares"]) >= SHARES
    assert found["kernel"] == kernel
    assert found["resolution"] == ("tile" if kernel == "static_graph" else "operator")
    assert (found["shares"]["hmx"] > 0) == (kernel == "static_graph")
    assert all(0 <= share <= 1.001 for share in found["shares"].values())
    assert found["time_us"] == pytest.approx(found["cycles"] / 1469, rel=1e-4)
    assert found["utilisation"] == pytest.approx(found["tflop_s"] / 12.034048)
    assert 0 < found["roofline"]["fraction_of_ceiling"] <= 1
    streams = 128 if kernel == "gemv" else 1
    activations = 0 if kernel == "static_graph" else 4 * 128 * 1024
    assert found["dram"]["read_bytes"] == streams * 1024 * 1024 // 32 * 18 + activations
    assert found["memory_wait_cycles"] == 0


def test_the_system_chooses_its_kernel(capsys):
    assert document(["--m", "1", *ON_SYSTEM[2:]], capsys)["kernel"] == "gemv"
    assert document(ON_SYSTEM, capsys)["kernel"] == "ggml_hvx"


def test_dram_that_is_slower_than_dma_is_waited_for(capsys):
    args = ["--m", 1, "--k", 1024, "--n", 1024, "--dtype", "fp16", "--system", "oneplus_12", "--kernel", "static_graph"]
    args += ["--set", "system.npu.graph_unpack_cycles=0.001", "--set", "system.npu.graph_output_cycles=0.001"]
    args += ["--set", "system.npu.dma_bytes_per_s=200 GB/s", "--set", "system.npu.tile_cycles_fp16=1"]
    found = document(args, capsys)
    assert found["memory_wait_cycles"] > 0
    assert found["dram"]["bandwidth_gb_s"] == pytest.approx(62, rel=1e-3)
    assert found["roofline"]["bound"] == "memory"
    assert found["roofline"]["fraction_of_ceiling"] == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize(
    "args",
    [
        ["--op", "attention", "--m", 32, "--kv", 256, "--heads", 32, "--kv-heads", 8, "--head-dim", 128],
        ["--op", "attention", "--m", 1, "--kv", 0, "--heads", 8, "--head-dim", 64],
        ["--op", "norm", "--m", 32, "--k", 4096],
        ["--op", "rope", "--m", 32, "--k", 4096],
        ["--op", "softmax", "--m", 32, "--k", 4096],
        ["--op", "swiglu", "--m", 32, "--k", 14336],
    ],
)
def test_other_operators(args, capsys):
    found = document([*args, "--system", "oneplus_12"], capsys)
    assert set(found) >= KEYS
    assert found["cycles"] > 0
    assert (found["tflop_s"] > 0) == ("attention" in args)


def test_softmax_costs_more_than_rope(capsys):
    common = ["--m", 256, "--k", 4096, "--system", "oneplus_12", "--set", "system.npu.l2fetch_bytes_per_s=5000 GB/s"]
    softmax, rope = (document(["--op", op, *common], capsys) for op in ("softmax", "rope"))
    assert softmax["shares"]["hvx"] * softmax["cycles"] == pytest.approx(
        24 / 10 * rope["shares"]["hvx"] * rope["cycles"], rel=1e-3
    )


def test_table(capsys):
    code, out, err = call(ON_ARRAY, capsys)
    assert (code, err) == (0, "")
    assert "227327" in out.replace(",", "")


@pytest.mark.parametrize("args", [[*ON_SYSTEM, "--kernel", "static_graph"], [*ON_ARRAY, "--link", "2"]])
def test_figure_and_perfetto(args, capsys, tmp_path):
    args = ["--m", 128, "--k", 256, "--n", 256, *args[len(MATMUL) :]]
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    args = [*args, "--figure", tmp_path / "stages.png", "--perfetto", tmp_path / "stages.pftrace"]
    found = document(args, capsys)
    assert (tmp_path / "stages.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    trace = protos.Trace()
    trace.ParseFromString((tmp_path / "stages.pftrace").read_bytes())
    names = {p.track_descriptor.uuid: p.track_descriptor.name for p in trace.packet if p.HasField("track_descriptor")}
    assert set(names.values()) >= ({"dma", "dequant", "hmx", "output"} if "--system" in args else {"fill", "stream"})
    events = [(p.timestamp, p.track_event) for p in trace.packet if p.HasField("track_event")]
    begins = sum(event.type == protos.TrackEvent.Type.TYPE_SLICE_BEGIN for _, event in events)
    assert len(events) == 2 * begins
    last = max(time for time, _ in events) / 1e6  # a nanosecond in the file is a picosecond
    assert last == pytest.approx(found["time_us"], rel=1e-3)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["stages.pftrace", "stages.png"]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ([*MATMUL], "give --system NAME or --array ROWSxCOLS, one of the two"),
        ([*ON_SYSTEM, "--array", "8x8"], "give --system NAME or --array ROWSxCOLS, one of the two"),
        ([*ON_ARRAY, "--kernel", "gemv"], "--kernel belongs to --system"),
        ([*ON_ARRAY, "--set", "a.b=1"], "--set belongs to --system"),
        ([*ON_SYSTEM, "--dataflow", "ws"], "--dataflow belongs to --array"),
        ([*ON_SYSTEM, "--link", "1"], "--link belongs to --array"),
        ([*MATMUL, "--array", "8x8"], "--array needs --dataflow ws, os or is"),
        ([*MATMUL, "--array", "0x3", "--dataflow", "ws"], "array rows is 0; it must be between 1 and 4096"),
        ([*MATMUL, "--array", "8", "--dataflow", "ws"], "array '8' is not ROWSxCOLS; for example 32x32"),
        ([*MATMUL, "--array", "8x8", "--dataflow", "xx"], "no dataflow 'xx'; known: is, os, ws"),
        ([*ON_ARRAY, "--sram", "1 KiB,2 KiB"], "SRAM '1 KiB,2 KiB' is not one size or three with commas"),
        ([*ON_ARRAY, "--sram", "512"], "has no unit"),
        ([*ON_ARRAY, "--link", "-1"], "link words a cycle is -1; it must be between 0 and 1048576"),
        ([*ON_ARRAY, "--clock", "3"], "has no unit"),
        ([*ON_ARRAY, "--clock", "9 kHz"], "clock '9 kHz' is outside 1 MHz to 1 THz"),
        ([*ON_ARRAY, "--dtype", "q4_0"], "an array has no words of 'q4_0'"),
        ([*ON_ARRAY, "--op", "norm"], "an array runs matmul, not norm; give --system for the others"),
        ([*ON_SYSTEM, "--op", "matmull"], "no operator 'matmull'; did you mean 'matmul'?"),
        ([*ON_SYSTEM, "--kernel", "ggml"], "no kernel 'ggml'"),
        ([*ON_SYSTEM, "--dtype", "q4_2"], "no data type 'q4_2'; did you mean 'q4_"),
        ([*ON_SYSTEM[:-1], "oneplus_13"], "oneplus_15"),
        ([*ON_SYSTEM, "--heads", "3"], "matmul takes no --heads"),
        (["--k", 4, "--n", 4, "--system", "oneplus_12"], "matmul needs --m"),
        (["--m", 0, "--k", 4, "--n", 4, "--system", "oneplus_12"], "--m is 0; it must be between 1 and 4194304"),
        (["--m", 1, "--k", -4, "--n", 4, "--system", "oneplus_12"], "--k is -4; it must be between 1 and 4194304"),
        (["--m", 1, "--k", 4, "--n", 10**9, "--array", "8x8", "--dataflow", "os"], "--n is 1000000000; it must be"),
        (["--m", 4, "--k", 4194304, "--n", 4194304, "--array", "1x1", "--dataflow", "ws"], "folds; at most 16777216"),
        (
            ["--m", 1, "--k", 4096, "--n", 2097152, *ON_SYSTEM[6:], "--kernel", "static_graph"],
            "1 x 4096 x 2097152 is a walk of 8388608 tiles; at most 4194304",
        ),
        (
            ["--m", 64, "--k", 4194304, "--n", 8, "--system", "oneplus_12", "--kernel", "static_graph"],
            "matmul cannot run: operator 0 on device 'npu': 32 rows of k = 4194304 do not fit",
        ),
        (
            [
                "--op",
                "attention",
                "--m",
                1,
                "--kv",
                4,
                "--heads",
                6,
                "--kv-heads",
                4,
                "--head-dim",
                64,
                *ON_SYSTEM[-2:],
            ],
            "--heads 6 is no multiple of --kv-heads 4",
        ),
        ([*ON_SYSTEM, "--figure", "bad.xyz"], "bad.xyz: a figure is written as .svg, .pdf or .png"),
        ([*ON_SYSTEM, "--figure", "missing/a.png"], "missing/a.png: cannot be written: there is no folder"),
        ([*ON_SYSTEM, "--perfetto", "/"], "is a folder, not a file; choose another output"),
        ([*ON_SYSTEM, "--perfetto", "a.png", "--figure", "a.png"], "--figure a.png is also --perfetto"),
        (
            [*MATMUL, "--array", "1x1", "--dataflow", "ws", "--figure", "a.png"],
            "1048576 folds are too many to draw; at most 65536",
        ),
    ],
)
def test_bad_input(args, text, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(args, capsys)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert text in err
    assert not list(tmp_path.iterdir())
