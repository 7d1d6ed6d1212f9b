"""Bad input: one exact line on stderr, exit code 2, nothing written."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from archsim import registry
from archsim.cli import run_cli
from archsim.config import packed_folder
from archsim.schedules.baselines import ResidentAr
from archsim.units import suggest

CONFIGS = str(packed_folder())
GIVEN = ["run", "--system", "oneplus_12", "--schedule", "flash_ar", "--target", "smollm2-135m", "--tokens", "4"]
GIVEN += ["--stream", "recorded:exit_layers:25"]


def swapped(option: str, value: str) -> list[str]:
    args = list(GIVEN)
    args[args.index(option) + 1] = value
    return args


#: Command line -> the line on stderr, without the leading "archsim: ".
COMMANDS: dict[str, tuple[list[str], str]] = {
    "no arguments to run": (
        ["run"],
        "give a run file, or also --system, --schedule, --target, --stream (see archsim run --help)",
    ),
    "unknown command": (["rnu"], "No such command 'rnu'. Did you mean 'run'?"),
    "unknown option": (["run", "--tokns", "4"], "No such option: --tokns (Possible options: --tokens, --workers)"),
    "unknown system": (
        swapped("--system", "oneplus_13"),
        "--system: no system 'oneplus_13' in {configs}/systems; did you mean 'oneplus_15'?",
    ),
    "unknown schedule": (
        swapped("--schedule", "flash_rr"),
        "--schedule: unknown schedule 'flash_rr'; did you mean 'flash_ar'?",
    ),
    "unknown target": (
        swapped("--target", "llama-3.1-9b"),
        "--target: no model 'llama-3.1-9b' in {configs}/models; did you mean 'llama-3.1-8b'?",
    ),
    "unknown stream": (
        swapped("--stream", "recorded:exit_layer:25"),
        "no recording 'exit_layer'; did you mean 'exit_layers'?",
    ),
    "unknown variant": (
        swapped("--stream", "recorded:exit_layers:26"),
        "stream recorded:exit_layers has no exit '26'; it has 10, 15, 20, 25",
    ),
    "stream text": (
        swapped("--stream", "nothing"),
        "cannot read stream 'nothing'; write recorded:<name>[:<variant>], synthetic:<target>[+<draft>]:<task>, or the path of a .npz or .jsonl recording",
    ),
    "synthetic task": (
        swapped("--stream", "synthetic:llama-3.1-8b:humanevil"),
        "unknown task 'humanevil'; did you mean 'humaneval'?",
    ),
    "diffusion target": (
        swapped("--stream", "synthetic:llada-8b:gsm8k"),
        "stream synthetic:llada-8b:gsm8k cannot serve schedule flash_ar: it has denoise, the schedule needs chain or tree or steps",
    ),
    "tokens zero": (swapped("--tokens", "0"), "--tokens: '0' should be greater than or equal to 1"),
    "tokens text": (
        swapped("--tokens", "four"),
        "Invalid value for '--tokens': 'four' is not a whole number",
    ),
    "tokens huge": (
        swapped("--tokens", "1000000000"),
        "--tokens: '1000000000' should be less than or equal to 1000000",
    ),
    "prompts too many": (
        [*GIVEN, "--prompts", "1000"],
        "stream recorded:exit_layers:25 has 24 requests, the job asks for 1000 prompts; lower job.prompts",
    ),
    "seed negative": ([*GIVEN, "--seed", "-1"], "--seed: '-1' should be greater than or equal to 0"),
    "trace mode": ([*GIVEN, "--trace", "all"], "--trace 'all' is not one of off, tasks, full"),
    "set without =": (
        [*GIVEN, "--set", "job.tokens"],
        "--set 'job.tokens' has no '='; write PATH=VALUE, such as job.tokens=64",
    ),
    "set unknown root": (
        [*GIVEN, "--set", "sytem.flash=ufs_3_1"],
        "--set sytem.flash: no path starts with 'sytem'; did you mean 'system'?",
    ),
    "set unknown device": (
        [*GIVEN, "--set", "system.flush=ufs_3_1"],
        "--set system.flush: system 'oneplus_12' has no device 'flush'; did you mean 'flash'?",
    ),
    "set unknown part": (
        [*GIVEN, "--set", "system.flash=ufs_3_2"],
        "--set system.flash: no part 'ufs_3_2' in {configs}/parts; did you mean 'ufs_3_1'?",
    ),
    "set unknown field": (
        [*GIVEN, "--set", "system.flash.stream_bytes=4 GB/s"],
        "--set system.flash.stream_bytes: unknown field 'stream_bytes'; did you mean 'stream_bytes_per_s'?",
    ),
    "set without unit": (
        [*GIVEN, "--set", "system.flash.stream_bytes_per_s=4"],
        "--set system.flash.stream_bytes_per_s: '4' has no unit; expected a rate such as '4 GB/s'",
    ),
    "set wrong dimension": (
        [*GIVEN, "--set", "system.flash.stream_bytes_per_s=4 GB"],
        "--set system.flash.stream_bytes_per_s: '4 GB' is a size; expected a rate such as '4 GB/s'",
    ),
    "set unknown unit": (
        [*GIVEN, "--set", "system.flash.stream_bytes_per_s=4 XB/s"],
        "--set system.flash.stream_bytes_per_s: '4 XB/s' has the unknown unit 'XB/s'; expected a rate such as '4 GB/s'",
    ),
    "set above link": (
        [*GIVEN, "--set", "system.flash.stream_bytes_per_s=40 GB/s"],
        "--set system.flash.stream_bytes_per_s: stream_bytes_per_s 4e+10 is above link_bytes_per_s 5.8e+09",
    ),
    "set too slow": (
        [*GIVEN, "--set", "system.flash.stream_bytes_per_s=1 B/s"],
        "--set system.flash.stream_bytes_per_s: '1 B/s' should be greater than or equal to 1000000",
    ),
    "set negative": (
        [*GIVEN, "--set", "system.dram.capacity_bytes=-1 GB"],
        "--set system.dram.capacity_bytes: '-1 GB' is negative; expected a size such as '8 MiB'",
    ),
    "set schedule field": (
        [*GIVEN, "--set", "schedule.rings=4"],
        "--set schedule.rings: schedule 'flash_ar' has no field 'rings'; did you mean 'ring'?",
    ),
    "set schedule range": (
        [*GIVEN, "--set", "schedule.ring=0"],
        "--set schedule.ring: '0' is out of range; 1 to 1024 is allowed",
    ),
    "set job fraction": (
        [*GIVEN, "--set", "job.dram_fraction=1.5"],
        "--set job.dram_fraction: '1.5' should be less than or equal to 1",
    ),
    "set job unknown": (
        [*GIVEN, "--set", "job.token=4"],
        "--set job.token: unknown field 'token'; did you mean 'tokens'?",
    ),
    "set model": (
        [*GIVEN, "--set", "model.target.layer=4"],
        "--set model.target.layer: unknown field 'layer'; did you mean 'layers'?",
    ),
    "set model shape": (
        [*GIVEN, "--set", "model.target.heads=7"],
        "--set model.target.heads: heads (7) must be a multiple of kv_heads (3)",
    ),
    "set twice": ([*GIVEN, "--set", "job.seed=4", "--set", "job.seed=5"], "--set job.seed: is given twice"),
    "option and set": (
        [*GIVEN, "--set", "job.tokens=5"],
        "--set job.tokens: --tokens gives this value too; keep one of them",
    ),
    "set link below stream": (
        [*GIVEN, "--set", "job.seed=3", "--set", "system.flash.link_bytes_per_s=1 MB/s"],
        "--set system.flash.link_bytes_per_s: stream_bytes_per_s 4.265e+09 is above link_bytes_per_s 1e+06",
    ),
    "set threads": (
        [*GIVEN, "--set", "system.cpu.threads=9"],
        "--set system.cpu.threads: threads is 9; with 8 cores it can be at most 8",
    ),
    "tokens as a fraction": (swapped("--tokens", "2.0"), "Invalid value for '--tokens': '2.0' is not a whole number"),
    "tokens in other digits": (
        swapped("--tokens", "\u0664"),
        "Invalid value for '--tokens': '\u0664' is not a whole number",
    ),
    "set tokens as a fraction": (
        ["run", "demo_flash_ar", "--set", "job.tokens=2.0"],
        "--set job.tokens: '2.0' should be a valid integer",
    ),
    "quantity in other digits": (
        [*GIVEN, "--set", "system.flash.stream_bytes_per_s=\u0664 GB/s"],
        "--set system.flash.stream_bytes_per_s: '\u0664 GB/s' is not a number with a unit; expected a rate such as '4 GB/s'",
    ),
    "option beside a file, tokens": (
        ["run", "demo_flash_ar", "--tokens", "0"],
        "--tokens: '0' should be greater than or equal to 1",
    ),
    "option beside a file, comment": (
        ["run", "demo_flash_ar", "--stream", "x # y"],
        "cannot read stream 'x # y'; write recorded:<name>[:<variant>], synthetic:<target>[+<draft>]:<task>, or the path of a .npz or .jsonl recording",
    ),
    "option without a file, comment": (
        swapped("--stream", "x # y"),
        "cannot read stream 'x # y'; write recorded:<name>[:<variant>], synthetic:<target>[+<draft>]:<task>, or the path of a .npz or .jsonl recording",
    ),
    "option beside a file, list": (
        ["run", "demo_flash_ar", "--target", "[a, b]"],
        "--target: '[a, b]' is not the name of a model: a name has letters, digits, '.', '_' and '-' only",
    ),
    "option beside a file, schedule": (
        ["run", "demo_flash_ar", "--schedule", "3"],
        f"--schedule: unknown schedule '3'; {suggest('3', registry.names('schedule'))}",
    ),
    "draft of a draft": (
        [*swapped("--schedule", "chain_sd"), "--set", "job.draft=eagle3-eagle3-qwen3-8b"],
        "--set job.draft: no model 'eagle3-eagle3-qwen3-8b': 'eagle3-qwen3-8b' is an EAGLE3 head itself and has none of its own; name another draft",
    ),
    "stream is a folder": (
        swapped("--stream", "folder.npz"),
        "folder.npz: no such file; give the path of a recording or recorded:<name>",
    ),
    "empty output": ([*GIVEN, "-o", ""], "Invalid value for '-o' / '--output': the path is empty"),
    "output device": (
        [*GIVEN, "-o", "/dev/null"],
        "/dev/null: is a device, not a folder; choose another output folder",
    ),
    "run a device": (["run", "/dev/zero"], "/dev/zero: is a device, not a file"),
    "run a folder": (["run", "/usr"], "/usr: is a folder, not a file"),
    "check a device": (["check", "/dev/zero"], "/dev/zero: is a device, not a file"),
    "import a device": (
        ["import", "model", "/dev/zero"],
        "/dev/zero: is a device, not a file; give a config.json, the folder of one, or a GGUF file",
    ),
    "replay nothing": (["replay", ""], "Invalid value for 'DIR': the path is empty"),
    "report nothing": (["report", ""], "Invalid value for 'DIR': the path is empty"),
    "replay a device": (
        ["replay", "/dev/null"],
        "/dev/null: is a device; give the run folder that `archsim run` wrote",
    ),
    "report to nothing": (["report", "x", "--perfetto", ""], "Invalid value for '--perfetto': the path is empty"),
    "figures to nothing": (["report", "x", "--figures", ""], "Invalid value for '--figures': the path is empty"),
    "report to a device": (
        ["report", "x", "--perfetto", "/dev/full"],
        "/dev/full: is a device, not a file; choose another output",
    ),
    "report to a folder": (["report", "x", "--perfetto", "."], ".: is a folder, not a file; choose another output"),
    "figures to a device": (
        ["report", "x", "--figures", "/dev/null"],
        "/dev/null: is a device, not a folder; choose another output folder",
    ),
    "show schedule, unknown field": (
        ["show", "schedule", "chain_sd", "--set", "schedule.lenght=4"],
        "--set schedule.lenght: schedule 'chain_sd' has no field 'lenght'; did you mean 'length'?",
    ),
    "show schedule, other root": (
        ["show", "schedule", "chain_sd", "--set", "job.tokens=4"],
        "--set job.tokens: no path starts with 'job'; known: schedule",
    ),
    "show schedule, name": (
        ["show", "schedule", "chain_sd", "--set", "schedule.name=flash_ar"],
        "--set schedule.name: cannot rename the schedule 'chain_sd' that is shown",
    ),
    "show schedule, no field": (
        ["show", "schedule", "chain_sd", "--set", "schedule=flash_ar"],
        "--set schedule: names no field; write schedule.FIELD=VALUE",
    ),
    "kv dtype": (
        [*GIVEN, "--set", "job.kv_dtype=fp7"],
        "--set job.kv_dtype: 'fp7' should be 'FP32', 'FP16', 'BF16', 'INT8', 'Q8_0' or 'Q4_0'",
    ),
    "too big for dram": (
        [*swapped("--target", "llama-3.1-8b"), "--set", "job.prompt_tokens=200000"],
        "the job needs 27.5 GB of dram and oneplus_12 has 17.2 GB (target weights 592 MB, target ring of 6 layer buffers 736 MB, target KV of 200004 rows 26.2 GB); lower job.tokens, job.dram_fraction or the ring, or move keys and values away (job.kv_tier=split, job.kv_dtype=Q8_0), or choose a smaller model",
    ),
    "too big for a window": (
        [
            *swapped("--target", "llama-3.1-8b"),
            *("--set", "job.prompt_tokens=1000000", "--set", "system.dram.capacity_bytes=400 GB"),
            *("--set", "model.target.max_position=2000000"),
        ],
        "target: buffer kv of 131 GB does not fit the address window of npu, 13.4 GB in 4 session(s); raise system.npu.window_bytes",
    ),
    "missing run file": (["run", "nope.yaml"], "nope.yaml: no such file"),
    "missing run name": (["run", "demo_flash"], "no run 'demo_flash' in {configs}/runs; did you mean 'demo_flash_ar'?"),
    "output file": (
        [*GIVEN, "-o", "/etc/passwd"],
        "/etc/passwd: is a file, not a folder; choose another output folder",
    ),
    "output without a trace": (
        [*GIVEN, "--trace", "off", "-o", "there"],
        "--trace off writes no run folder, so -o there would stay empty; leave one of them out, or keep the headline numbers alone with --json",
    ),
    "show device unknown": (["show", "device", "npuu"], "unknown device 'npuu'; did you mean 'npu'?"),
    "replay missing": (["replay", "nope"], "nope: no such folder; give the run folder that `archsim run` wrote"),
    "report missing": (["report", "nope"], "nope: no such folder; give the run folder that `archsim run` wrote"),
    "list unknown": (
        ["list", "machines"],
        "cannot list 'machines'; known: controllers, devices, flash_devices, models, parts, pim_devices, runs, schedules, standards, streams, sweeps, "
        "systems",
    ),
    "show unknown kind": (
        ["show", "machine", "flash"],
        "cannot show 'machine'; known: controller, device, flash_device, model, part, pim_device, run, schedule, standard, system",
    ),
    "show unknown name": (
        ["show", "system", "oneplus"],
        "no system 'oneplus' in {configs}/systems; did you mean 'oneplus_15'?",
    ),
    "check missing": (["check", "nope.yaml"], "nope.yaml: no such file"),
    "import missing": (
        ["import", "model", "nope.json"],
        "nope.json: no such file; give a config.json, the folder of one, or a GGUF file",
    ),
    "acceptance range": (
        [*swapped("--stream", "synthetic:llama-3.1-8b:gsm8k"), "--set", "job.acceptance=1.5"],
        "--set job.acceptance: '1.5' should be less than 1",
    ),
    "acceptance on recording": (
        [*GIVEN, "--set", "job.acceptance=0.5"],
        "acceptance is for synthetic streams and cannot change the recorded 'recorded:exit_layers:25'",
    ),
}


def call(args, capsys) -> tuple[int, str, str]:
    code = run_cli(args)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("name", COMMANDS)
def test_bad_command_line(name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args, line = COMMANDS[name]
    code, out, err = call(args, capsys)
    assert err == f"archsim: {line}\n".replace("{configs}", CONFIGS)
    assert code == 2
    assert out == ""
    assert list(tmp_path.iterdir()) == []


#: File name -> (its text, the line that ``archsim check`` prints after the file's path).
FILES: dict[str, tuple[str | bytes, str]] = {
    "run.yaml": (
        "kind: run\nname: run\nsystem: oneplus_12\nschedule: {name: flash_ar}\njob: {target: llama-3.1-8b, stream: 'recorded:exit_layers:25', tokns: 8}\n",
        ":5: job: unknown field 'tokns'; did you mean 'tokens'?",
    ),
    "kind.yaml": ("kind: machine\nname: kind\n", ":1: unknown kind 'machine'; known: model, part, run, sweep, system"),
    "nokind.yaml": ("name: nokind\n", ":1: needs the key 'kind': one of part, system, model, run, sweep"),
    "empty.yaml": ("", ": is empty; expected 'kind:', 'name:' and what the kind needs"),
    "list.yaml": ("- a\n- b\n", ":1: expected a mapping such as 'kind: part', not a list"),
    "syntax.yaml": ("kind: run\nname: [\n", ":3: is not YAML: did not find expected node content"),
    "tag.yaml": (
        "kind: !!python/object:os.system run\nname: tag\n",
        ":1: the tag '!!python/object:os.system' is not allowed; write a plain value",
    ),
    "twice.yaml": ("kind: run\nkind: run\nname: twice\n", ":2: the key 'kind' is given twice (first on line 1)"),
    "name.yaml": (
        "kind: run\nname: other\nsystem: oneplus_12\nschedule: {name: flash_ar}\njob: {target: llama-3.1-8b, stream: 'recorded:exit_layers:25'}\n",
        ":2: the name 'other' differs from the file's name 'name'; write name: 'name' or rename the file",
    ),
    "base.yaml": ("kind: run\nname: base\nbase: base.yaml\n", ":3: a file cannot be its own base"),
    "part.yaml": (
        "kind: part\nname: part\ndevice: rails\nspec: {base_mw: 2.0 W}\n",
        ":4: spec.base_mw: has no source; write {value: ..., source: ...} or give the file a 'source:'",
    ),
    "unit.yaml": (
        "kind: part\nname: unit\nbase: ufs_4_0.yaml\ndevice: flash\nspec: {stream_bytes_per_s: {value: 4.0, source: mine}}\n",
        ":5: spec.stream_bytes_per_s: '4.0' has no unit; expected a rate such as '4 GB/s'",
    ),
    "range.yaml": (
        "kind: part\nname: range\nbase: ufs_4_0.yaml\ndevice: flash\nspec: {stream_bytes_per_s: {value: 4.0 GB/s, source: mine, range: [5 GB/s, 6 GB/s]}}\n",
        ":5: spec.stream_bytes_per_s: 4 GB/s is outside its own range [5 GB/s, 6 GB/s]",
    ),
    "field.yaml": (
        "kind: part\nname: field\nbase: ufs_4_0.yaml\ndevice: flash\nspec: {strem_bytes_per_s: {value: 4.0 GB/s, source: mine}}\n",
        ":5: spec: unknown field 'strem_bytes_per_s'; did you mean 'stream_bytes_per_s'?",
    ),
    "system.yaml": (
        "kind: system\nname: system\ndevices: {flash: ufs_9}\n",
        ":3: devices.flash: no part 'ufs_9' in {folder}, {configs}/parts; did you mean 'ufs_4_1'?",
    ),
    "wired.yaml": (
        "kind: system\nname: wired\ndevices: {flash: ufs_4_0}\n",
        ": system 'wired': device 'flash': no pool 'dram.bandwidth' in this system; it has: flash.link",
    ),
    "stream.jsonl": (
        '{"id": 1}\n',
        ":1: not a known recording: a line has 'par' (tree), 'ngram' (look-up), 'it' (Jacobi) or 'masked' (denoising)",
    ),
    "stream.npz": (b"PK\x03\x04 not an archive", ": not a complete .npz archive: File is not a zip file"),
    "json.jsonl": ("{not json}\n", ":1:2: not JSON: Expecting property name enclosed in double quotes"),
    "utf8.yaml": (b"kind: run\nname: \xff\xfe\n", ":2: is not UTF-8 text"),
}


@pytest.mark.parametrize("name", FILES)
def test_bad_file(name, capsys, tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    text, line = FILES[name]
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    code, out, err = call(["check", str(path)], capsys)
    assert err == f"archsim: {path}{line}\n".replace("{configs}", CONFIGS).replace("{folder}", str(tmp_path))
    assert code == 2
    assert out == ""


def test_json_of_check_lists_problems(capsys, tmp_path):
    path = tmp_path / "part.yaml"
    path.write_text("kind: prat\n")
    code, out, err = call(["check", str(path), "--json"], capsys)
    assert code == 2
    assert err == ""
    [entry] = json.loads(out)["files"]
    assert entry["problems"]


@dataclass(frozen=True)
class Stuck(ResidentAr):
    """Waits for what nobody fires."""

    def generate(self, sim, job):
        yield sim.signal("never")


def test_simulation_failures_exit_with_3(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    registry.names("schedule")
    monkeypatch.setitem(registry._items["schedule"], "stuck", Stuck)
    code, out, err = call(swapped("--schedule", "stuck"), capsys)
    assert err.startswith("archsim: ")
    assert err.count("\n") == 1
    assert "signal 'never'" in err
    assert (code, out) == (3, "")
    assert list(tmp_path.iterdir()) == []


def test_shapes_a_device_cannot_run_are_named(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wide = [
        "model.target.ffn=2097152",
        "model.target.hidden=65536",
        "schedule.ring=1",
        "system.dram.capacity_bytes=540 GB",
        "system.flash.capacity_bytes=16 TB",
        "system.npu.window_bytes=60 TB",
    ]
    code, out, err = call([*GIVEN, *(part for text in wide for part in ("--set", text))], capsys)
    assert err.startswith("archsim: target: layer.load (")
    assert err.count("\n") == 1
    assert (code, out) == (2, "")
