"""Readers of measured files: every sample, every unit, and what malformed files are told."""

from __future__ import annotations

import json

import pytest

from archsim.config import InputError
from archsim.measurements.names import dtype_of, model_of, type_in
from archsim.measurements.readers import LIMIT_BYTES, known_formats, read_measurements
from archsim.measurements.rows import FlashCase, ModelCase, OperatorCase, dimension_of
from archsim.streams.opening import packed_traces

SAMPLES = packed_traces() / "measurements"


@pytest.mark.parametrize(
    ("file", "style", "rows", "lost"),
    [
        ("llama_bench.jsonl", "llama-bench", 12, 2),
        ("fio.json", "fio", 18, 2),
        ("hexagon_profile.log", "ggml-hexagon", 9, 1),
        ("operators.csv", "table", 17, 0),
        ("oneplus_12_published.csv", "table", 19, 0),
    ],
)
def test_samples_are_recognised_and_no_row_is_lost(file, style, rows, lost):
    found = read_measurements(SAMPLES / file)
    assert (found.format, len(found.rows)) == (style, rows)
    assert sum(row.case is None for row in found.rows) == lost
    assert all((row.case is None) == bool(row.problem) for row in found.rows)
    assert all(row.value > 0 for row in found.rows if row.case is not None)


def test_every_format_is_one_module_with_a_line_about_it():
    known = known_formats()
    assert list(known) == ["fio", "ggml-hexagon", "llama-bench", "table"]
    assert all(entry.what for entry in known.values())


def test_a_format_recognises_its_own_sample_only():
    texts = {read_measurements(file).format: file.read_text() for file in sorted(SAMPLES.glob("*.[cjl]*"))}
    for name, entry in known_formats().items():
        assert [style for style, text in texts.items() if entry.recognise(text)] == [name]


# --- llama-bench


def bench(**fields):
    row = {"model_filename": "Qwen3-4B-Q4_0.gguf", "model_type": "qwen3 4B Q4_0", "backends": "HTP", "devices": "HTP0"}
    row |= {
        "n_gpu_layers": 99,
        "n_prompt": 0,
        "n_gen": 64,
        "n_depth": 0,
        "type_k": "f16",
        "type_v": "f16",
        "avg_ts": 9.0,
    }
    return row | fields


def write(tmp_path, data, name="m.json"):
    path = tmp_path / name
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def test_llama_bench_places_by_backend_and_layers(tmp_path):
    rows = [
        bench(),
        bench(n_gpu_layers=0),
        bench(backends="CPU", devices="auto", n_threads=4),
        bench(devices="Vulkan0"),
    ]
    npu, host, cpu, other = read_measurements(write(tmp_path, rows)).rows
    assert npu.case == ModelCase("npu", "qwen3-4b", 0, 64, 0, 512, "Q4_0", "FP16")
    assert host.case.device == "cpu"
    assert cpu.case.threads == 4
    assert other.problem == "backend 'Vulkan0' is neither the CPU nor the NPU"


def test_llama_bench_prompt_batches_and_both(tmp_path):
    rows = [bench(n_prompt=1024, n_gen=0, n_batch=2048, n_ubatch=256), bench(n_prompt=512, n_depth=4096)]
    prompt, both = read_measurements(write(tmp_path, rows)).rows
    assert (prompt.case.prompt, prompt.case.batch, prompt.group) == (1024, 256, "npu prefill")
    assert (both.case.generated, both.case.depth, both.group) == (64, 4096, "npu prefill and decode")


def test_llama_bench_takes_nanoseconds_where_no_speed_is_given(tmp_path):
    row = bench(n_gen=128, avg_ns=16e9, samples_ns=[1, 2, 3])
    del row["avg_ts"]
    (found,) = read_measurements(write(tmp_path, [row])).rows
    assert found.value == pytest.approx(8.0)
    assert found.samples == 3


def test_llama_bench_knows_a_model_by_name_size_or_target(tmp_path):
    named = bench(model_n_params=8_030_261_312)
    strange = bench(model_filename="finetune.gguf", model_type="qwen3 ?B Q8_0")
    rows = read_measurements(write(tmp_path, [named, strange])).rows
    assert rows[0].problem == "8.03e+09 parameters, and qwen3-4b has 4.02e+09; give --target"
    assert rows[1].problem == "no model of archsim is meant by 'finetune.gguf'; give --target"
    hinted = read_measurements(write(tmp_path, [strange]), target="qwen3-8b").rows[0]
    assert (hinted.case.model, hinted.case.dtype) == ("qwen3-8b", "Q8_0")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (bench(avg_ts=0), "[0]: avg_ts is '0'; expected a number above 0"),
        (bench(avg_ts="fast"), "[0]: avg_ts is 'fast'; expected a number above 0"),
        (bench(n_gen=-1), "[0]: n_gen is '-1'; expected a whole number from 0 to 1099511627776"),
        (bench(n_gen=0), "[0]: has neither n_prompt nor n_gen above 0"),
        (bench(n_ubatch=0), "[0]: n_ubatch is '0'; expected a whole number from 1 to 1099511627776"),
        (7, "[0]: expected a mapping, not '7'"),
    ],
)
def test_llama_bench_names_the_field(tmp_path, row, message):
    path = write(tmp_path, [row])
    with pytest.raises(InputError) as error:
        read_measurements(path, style="llama-bench")
    assert str(error.value) == f"{path}: {message}"


def test_jsonl_names_the_line(tmp_path):
    path = write(tmp_path, json.dumps(bench()) + "\n" + json.dumps(bench(avg_ts=None)) + "\n", "m.jsonl")
    with pytest.raises(InputError, match="line 2: avg_ts is nothing"):
        read_measurements(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[{"avg_ts": NaN, "n_prompt": 1, "n_gen": 0}]', "holds NaN"),
        ('[{"avg_ts": 1,\n "n_prompt": }]', "line 2: is not JSON"),
        ('{"avg_ts": ' + "[" * 100_000, "is nested too deeply"),
        ('{"avg_ts": ' + "9" * 5000 + "}", "is not JSON"),
    ],
)
def test_broken_json_is_one_line(tmp_path, text, words):
    with pytest.raises(InputError, match=words):
        read_measurements(write(tmp_path, text))


# --- fio


def job(name="a", rw="randread", bw=1_000_000, groupid=0, **options):
    options = {"rw": rw, "bs": "4k", "iodepth": "8", "direct": "1", "size": "128m"} | options
    return {"jobname": name, "groupid": groupid, "job options": options, "read": {"bw_bytes": bw}, "write": {}}


def fio(tmp_path, *jobs, **common):
    return read_measurements(write(tmp_path, {"fio version": "fio-3.36", "global options": common, "jobs": jobs})).rows


def test_fio_gives_the_part_and_the_event_level(tmp_path):
    part, event = fio(tmp_path, job())
    assert part.case == FlashCase("rand_read", 4096, 8, 128 << 20)
    assert event.case == FlashCase("rand_read", 4096, 8, 128 << 20, "", "event")
    assert (part.value, part.unit) == (1.0, "MB/s")


def test_fio_sizes_are_its_own(tmp_path):
    for text, size in (("4k", 4096), ("4Ki", 4000), ("1m", 1 << 20), ("512", 512), ("4kb,8k", 4096)):
        assert fio(tmp_path, job(bs=text))[0].case.size_bytes == size
    assert fio(tmp_path, job(bs="4k", kb_base="1000"))[0].case.size_bytes == 4000
    assert fio(tmp_path, job(bs="4Ki"), kb_base="1000")[0].case.size_bytes == 4096


def test_fio_adds_up_entries_of_one_job_and_multiplies_its_depth(tmp_path):
    part = fio(tmp_path, job(numjobs="2", bw=3_000_000), job(numjobs="2", bw=5_000_000))[0]
    assert (part.value, part.case.depth) == (8.0, 16)


def test_fio_takes_kib_where_no_bytes_are_given(tmp_path):
    entry = job()
    entry["read"] = {"bw": 1000}
    assert fio(tmp_path, entry)[0].value == pytest.approx(1.024)


@pytest.mark.parametrize(
    ("jobs", "problem"),
    [
        ([job(rw="randrw")], "rw=randrw: only reads are simulated"),
        ([job(bsrange="4k-8k")], "a range of block sizes"),
        ([job(direct="0")], "buffered (direct is not 1): the kernel's page cache is not simulated"),
        ([job(), job("b")], "ran beside other jobs of the same group (no stonewall)"),
        ([job(bw=0)], "nothing was read"),
        ([{**job(), "error": 5}], "fio reports the error '5'"),
        ([job(size="1t", iodepth="64", bs="1t")], "more bytes in flight than a device can hold"),
    ],
)
def test_fio_says_why_a_job_is_not_simulated(tmp_path, jobs, problem):
    assert fio(tmp_path, *jobs)[0].problem == problem


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (job(bs="big"), r"jobs\[0\]\.bs: 'big' is not a size"),
        (job(iodepth="0"), r"jobs\[0\]: iodepth is '0'"),
        (job(bw="x"), r"jobs\[0\]\.read: bw_bytes is 'x'"),
    ],
)
def test_fio_names_the_field(tmp_path, entry, words):
    with pytest.raises(InputError, match=words):
        fio(tmp_path, entry)


# --- ggml-hexagon


START = "ggml-hex: HTP0 profile-op MUL_MAT"
SHAPE = ("w x a -> r", "4096:1024 x 4096:2 -> 1024:2", "q4_0 x f32 -> f32", "18:2304 x 4:16384 -> 4:4096")
FORMS = (
    " : ".join((f"{START}: {SHAPE[0]}", *SHAPE[1:], "b x b", "op-usec 90 op-cycles 9 op-pkts 4 (0.4) call-usec 130")),
    " : ".join((f"{START}: {SHAPE[0]}", *SHAPE[1:], "usec 90 cycles 9 pmu [1,2,3,4,5,6,7,8]")),
    "0.01.2 D " + "|".join((f"{START}|{SHAPE[0]}", *SHAPE[1:], "hvx-tiled", "usec 90 cycles 9 start 7 mhz 1469.0")),
)


@pytest.mark.parametrize("line", FORMS)
def test_hexagon_reads_the_three_forms_alike(tmp_path, line):
    (row,) = read_measurements(
        write(tmp_path, f"load: done\n{line}\n{line.replace('usec 90', 'usec 100')}\n", "p.log")
    ).rows
    assert row.case == OperatorCase("npu", "matmul", (2, 4096, 1024), "q4_0", called=False)
    assert (row.value, row.unit, row.samples, row.place) == (95.0, "us", 2, "line 2")


def profile(tmp_path, op, dims, types="f32 -> f32"):
    line = f"ggml-hex: HTP0 profile-op {op}|names|{dims}|{types}|----|----|usec 10 cycles 1\n"
    return read_measurements(write(tmp_path, line, "p.log")).rows[0]


def test_hexagon_shapes_of_the_other_operators(tmp_path):
    kv = "64:1:32:1 x 64:4096:8:1 x 64:4096:8:1 x 4096:1 -> 64:32"
    found = profile(tmp_path, "FLASH_ATTN_EXT", kv, "f32 x f16 x f16 x f16 -> f32").case
    assert (found.op, found.sizes) == ("attention", (1, 4095, 32, 8, 64))
    assert profile(tmp_path, "RMS_NORM", "4096:7 -> 4096:7").case.sizes == (7, 4096)
    assert profile(tmp_path, "ROPE", "128:32:7 x 7 -> 128:32:7").case.sizes == (7, 4096)
    assert profile(tmp_path, "SWIGLU", "28672:7 -> 14336:7").case.sizes == (7, 14336)


@pytest.mark.parametrize(
    ("op", "dims", "types", "problem"),
    [
        ("MUL_MAT+ADD", "64:64 x 64:1 x 64:1 -> 64:1", "q4_0 x f32 -> f32", "fused operators"),
        ("MUL_MAT", "64:256:8 x 64:35:32 -> 256:35:32", "f16 x f32 -> f32", "a product of batches"),
        ("MUL_MAT", "64:64 x 64:1 -> 64:1", "mxfp4 x f32 -> f32", "weights of type 'mxfp4'"),
        ("CPY", "64:1 -> 64:1", "f32 -> f16", "CPY has no counterpart"),
    ],
)
def test_hexagon_says_why_an_operator_is_not_simulated(tmp_path, op, dims, types, problem):
    found = profile(tmp_path, op, dims, types)
    assert found.problem.startswith(problem)
    assert found.case is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("x profile-op MUL_MAT|a|b|usec 4", "line 1: expected names, dims, types, strides and usec N"),
        ("x profile-op MUL_MAT|a|4096:q x 2|q4_0|s|k|usec 4 cycles 4", "line 1: dims '4096:q' are not sizes"),
        ("x profile-op MUL_MAT|a|0:1 x 2|q4_0|s|k|usec 4 cycles 4", "line 1: dims '0:1' are empty or too large"),
        ("x profile-op ???", "line 1: profile-op without an operator"),
    ],
)
def test_hexagon_names_the_line(tmp_path, line, words):
    with pytest.raises(InputError, match=words.replace("?", r"\?")):
        read_measurements(write(tmp_path, line, "p.log"), style="ggml-hexagon")


# --- table

HEAD = "operator,shape,dtype,value,unit"


def table(tmp_path, *lines, head=HEAD, **options):
    return read_measurements(write(tmp_path, "\n".join((head, *lines)) + "\n", "t.csv"), **options).rows


def test_units_are_read_by_dimension(tmp_path):
    lines = [f"matmul,1x64x32,Q4_0,2,{unit}" for unit in ("us", "ms", "tok/s", "MB/s", "GB/s", "MiB/s")]
    assert [row.base_value for row in table(tmp_path, *lines)] == [2e-6, 2e-3, 2.0, 2e6, 2e9, 2.0 * 2**20]
    with pytest.raises(InputError, match=r"line 2: value: unit 'mW' is none of a time, a rate of bytes or of tokens"):
        table(tmp_path, "matmul,1x64x32,Q4_0,2,mW")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("matmull,1x1x1,Q4_0,1,us", "no operator 'matmull'"),
        ("matmul,1x1,Q4_0,1,us", "shape '1x1': 3 sizes with 'x' between"),
        ("matmul,1x0x4,Q4_0,1,us", "shape is '0'"),
        ("matmul,1x1x1,Q9,1,us", "dtype 'Q9' is not among archsim's"),
        ("matmul,1x1x1,-,1,us", "a product needs the dtype of its weights"),
        ("matmul,1x1x1,Q4_0,-1,us", "value: '-1 us' is negative"),
        ("matmul,1x1x1,Q4_0,0,us", "value '0' must be above 0"),
        ("matmul,1x1x1,Q4_0,one,us", "value: 'one us' is not a number with a unit"),
        ("matmul,1x1x1,Q4_0,1", "has 4 fields, the header 5"),
        ("matrices,1,Q4_0,1,us", "matrices needs a model"),
        ("attention,1x1x8x3x64,-,1,us", "heads are no multiple of KV heads"),
        ("seq_read,512 furlongs,-,1,MB/s", "shape: '512 furlongs' has the unknown unit"),
        ("rand_read,4 KiB,-,1,MB/s", "SIZE@SPAN"),
        ("seq_read,4 KiB,-,1,tok/s", "a read has no tokens"),
    ],
)
def test_table_names_line_and_field(tmp_path, line, words):
    with pytest.raises(InputError) as error:
        table(tmp_path, line)
    assert "line 2: " in str(error.value)
    assert words in str(error.value)


def test_table_columns_are_checked(tmp_path):
    with pytest.raises(InputError, match="line 1: unknown column 'colour'"):
        table(tmp_path, head=HEAD + ",colour")
    with pytest.raises(InputError, match="line 1: the column dtype is missing"):
        table(tmp_path, head="operator,shape,value,unit")
    with pytest.raises(InputError, match="tolerance '5 %' is not a share"):
        table(tmp_path, "matmul,1x1x32,FP16,1,us,5 %", head=HEAD + ",tolerance")
    with pytest.raises(InputError, match="hold_out is 'maybe'; yes or no"):
        table(tmp_path, "matmul,1x1x32,FP16,1,us,maybe", head=HEAD + ",hold_out")


def test_optional_columns_reach_the_row(tmp_path):
    head = HEAD + ",device,kernel,model,group,tolerance,hold_out"
    lines = ("layers,16@200,-,1,ms,cpu,,qwen3-4b,mine,0.02,yes", "rand_read,4 KiB@1 MiB@4,-,1,MB/s,event,prime,,,,")
    row, read = table(tmp_path, *lines, head=head)
    assert row.case == OperatorCase("cpu", "layers", (16, 200), "", "", "qwen3-4b")
    assert (row.group, row.tolerance, row.held_out) == ("mine", 0.02, True)
    assert read.case == FlashCase("rand_read", 4096, 4, 1 << 20, "prime", "event")
    assert (read.held_out, read.tolerance) == (None, None)


# --- all


def test_files_that_are_nothing_known_or_too_large_are_refused(tmp_path):
    with pytest.raises(InputError, match="is none of fio, ggml-hexagon, llama-bench, table; name its format"):
        read_measurements(write(tmp_path, "hello\n"))
    with pytest.raises(InputError, match="is empty"):
        read_measurements(write(tmp_path, "\n\n"))
    with pytest.raises(InputError, match="no such file"):
        read_measurements(tmp_path / "none.json")
    with pytest.raises(InputError, match="no format 'fioo'"):
        read_measurements(write(tmp_path, "{}"), style="fioo")
    large = tmp_path / "large.csv"
    with open(large, "wb") as stream:
        stream.truncate(LIMIT_BYTES + 1)
    with pytest.raises(InputError, match="is larger than 67108864 bytes"):
        read_measurements(large)


def test_names_of_models_and_types():
    assert model_of("models/Meta-Llama-3.1-8B-Instruct-Q4_0.gguf") == "llama-3.1-8b"
    assert model_of("Llama-2-7B.gguf") == "llama2-7b"
    assert model_of("qwen3-14b-q4_0") == "qwen3-14b"
    assert model_of("Qwen3-32B") == ""
    assert [dtype_of(text) for text in ("f16", "q4_0", "F32", "mxfp4")] == ["FP16", "Q4_0", "FP32", ""]
    assert [type_in(text) for text in ("qwen3 4B Q4_0", "x-Q4_K_M.gguf", "llama F16")] == ["Q4_0", "Q4_K_M", "F16"]
    assert type_in("none") == ""
    assert [dimension_of(unit) for unit in ("ns", "KiB/s", "tok/s")] == ["s", "B/s", "tok/s"]


# --- as programs really write


def test_a_log_before_the_json_is_no_part_of_it(tmp_path):
    noise = "[INFO] start\nggml_hex: loading\n  Device 0: HTP {v81}\n"
    for text in (json.dumps([bench()]), json.dumps([bench()], indent=2), json.dumps(bench())):
        assert read_measurements(write(tmp_path, noise + text)).rows[0].value == 9.0
    lines = "\n".join(json.dumps(bench(n_gen=count)) for count in (8, 16))
    assert [row.place for row in read_measurements(write(tmp_path, noise + lines)).rows] == ["line 4", "line 5"]
    document = {"fio version": "fio-3.36", "jobs": [job()]}
    assert read_measurements(write(tmp_path, "sh: odd\nfio: warning\n" + json.dumps(document, indent=2))).rows
    with pytest.raises(InputError, match="line 5: is not JSON"):
        read_measurements(write(tmp_path, noise + '[{"avg_ts": 1,\n "n_prompt": }]'))


def test_other_outputs_of_llama_bench_are_told_apart(tmp_path):
    table = (
        "| model | size | test |                  t/s |\n| --- | ---: | --- | ---: |\n| qwen3 | 2 | pp512 | 71.2 |\n"
    )
    with pytest.raises(InputError, match=r"a table of llama-bench for reading, .*; give -o jsonl"):
        read_measurements(write(tmp_path, table))
    with pytest.raises(InputError, match="CSV or SQL; give -o jsonl"):
        read_measurements(write(tmp_path, "build_commit,build_number,cpu_info\n"))


def test_a_model_that_ran_in_part_on_the_npu_is_not_simulated_as_a_whole(tmp_path):
    rows = read_measurements(write(tmp_path, [bench(n_gpu_layers=count) for count in (36, 35, -1)])).rows
    assert rows[0].case is not None
    assert rows[1].problem == "35 of 36 layers ran on the NPU, and the others on the CPU"
    assert rows[2].problem.startswith("n_gpu_layers -1 is none or all of them")
    alone = read_measurements(write(tmp_path, bench(n_gpu_layers=-1, backends="CPU", devices="none"))).rows
    assert alone[0].case.device == "cpu"


def test_tokens_per_second_as_llama_cpp_writes_them(tmp_path):
    text = "operator,shape,dtype,value,unit,model\nprefill,128,-,27,t/s,qwen3-4b\n"
    assert read_measurements(write(tmp_path, text)).rows[0].unit == "tok/s"


def test_samples_are_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(read_measurements("traces/measurements/llama_bench.jsonl").rows) == 12
    with pytest.raises(InputError, match="no such file"):
        read_measurements("traces/measurements/none.jsonl")
    with pytest.raises(InputError, match="no such file"):
        read_measurements("traces/../pyproject.toml")
    (tmp_path / "traces" / "measurements").mkdir(parents=True)
    mine = "operator,shape,dtype,value,unit\nnorm,1x4096,-,26,us\n"
    (tmp_path / "traces" / "measurements" / "operators.csv").write_text(mine)
    assert len(read_measurements("traces/measurements/operators.csv").rows) == 1
