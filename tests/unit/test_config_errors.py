"""Broken configurations: the exact message of each."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import BaseModel, ConfigDict

from archsim import config, registry
from archsim.config import InputError, load_config, reading


def _fakes() -> ModuleType:
    """Module of the fake device, schedule and model: a file beside the tests, so loaded by its path."""
    path = Path(__file__).parent / "data_config" / "fakes.py"
    spec = importlib.util.spec_from_file_location("config_fakes", path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


fakes = _fakes()
tree = fakes.tree

A = "parts/disk_a.yaml"
B = "parts/disk_b.yaml"
M = "parts/memory_a.yaml"
P = "systems/phone.yaml"
R = "runs/chat.yaml"
S = "sweeps/lengths.yaml"
KINDS = {"parts": "part", "systems": "system", "runs": "run", "sweeps": "sweep"}

# file, text, what replaces it, message after the file's name
EDITS = [
    (A, "16 KiB", "16384", "7: spec.page_bytes: '16384' has no unit; expected a size such as '8 MiB'"),
    (
        A,
        "16 KiB",
        "16 KB/s",
        "7: spec.page_bytes: '16 KB/s' has the unknown unit 'KB/s'; expected a size such as '8 MiB'",
    ),
    (A, "16 KiB", "16 Kib", "7: spec.page_bytes: '16 Kib' has the unknown unit 'Kib'; expected a size such as '8 MiB'"),
    (
        A,
        "16 KiB",
        "sixteen",
        "7: spec.page_bytes: 'sixteen' is not a number with a unit; expected a size such as '8 MiB'",
    ),
    (A, "16 KiB", "1.5 B", "7: spec.page_bytes: '1.5 B' is not a whole number of B; expected a size such as '8 MiB'"),
    (A, "16 KiB", "-16 KiB", "7: spec.page_bytes: '-16 KiB' is negative; expected a size such as '8 MiB'"),
    (A, "16 KiB", "nan B", "7: spec.page_bytes: 'nan B' is not finite; expected a size such as '8 MiB'"),
    (A, "16 KiB", "1e30 B", "7: spec.page_bytes: '1e30 B' is too large; at most 4611686018427387904 B"),
    (A, "16 KiB", "256 B", "7: spec.page_bytes: '256 B' should be greater than or equal to 512"),
    (A, "16 KiB", "null", "7: spec.page_bytes: nothing is not a number with a unit; expected a size such as '8 MiB'"),
    (A, "16 KiB", "[1 B]", "7: spec.page_bytes: a list is not a number with a unit; expected a size such as '8 MiB'"),
    (A, "35 us", "35 W", "11: spec.timing.read_ps: '35 W' is a power; expected a time such as '35 us'"),
    (
        A,
        "35 us",
        "0.5 ps",
        "11: spec.timing.read_ps: '0.5 ps' is not a whole number of ps; expected a time such as '35 us'",
    ),
    (
        A,
        "value: 4.0 GB/s",
        "value: 4.0",
        "6: spec.read_bytes_per_s: '4.0' has no unit; expected a rate such as '4 GB/s'",
    ),
    (
        A,
        "value: 4.0 GB/s",
        "value: 4.0 GB",
        "6: spec.read_bytes_per_s: '4.0 GB' is a size; expected a rate such as '4 GB/s'",
    ),
    (
        A,
        "value: 4.0 GB/s",
        "value: 0 GB/s",
        "6: spec.read_bytes_per_s: '0 GB/s' is zero; expected a rate such as '4 GB/s'",
    ),
    (
        A,
        "value: 4.0 GB/s",
        "value: 400 GB/s",
        "6: spec.read_bytes_per_s: '400 GB/s' should be less than or equal to 100000000000",
    ),
    (A, "queue: 32", "queue: 0", "8: spec.queue: '0' should be greater than or equal to 1"),
    (A, "queue: 32", "queue: 3.5", "8: spec.queue: '3.5' should be a valid integer"),
    (A, "queue: 32", 'queue: "32"', "8: spec.queue: the text '32' should be a valid integer"),
    (A, "queue: 32", "queue: true", "8: spec.queue: 'true' should be a valid integer"),
    (A, "queue: 32", "queue: 32 B", "8: spec.queue: the text '32 B' should be a valid integer"),
    (A, "cell: tlc", "cell: mlc", "9: spec.cell: 'mlc' should be 'tlc' or 'qlc'"),
    (A, "cell: tlc", "cell: qlc\n  spare: 1.5", "10: spec.spare: '1.5' should be less than or equal to 1"),
    (A, "cell: tlc", "cell: tlc\n  spare: .nan", "10: spec.spare: 'nan' should be a finite number"),
    (A, "cell: tlc", "cell: tlc\n  cache: maybe", "10: spec.cache: the text 'maybe' should be a valid boolean"),
    (A, "queue: 32\n  cell: tlc", "queue: 65\n  cell: qlc", "5: spec: a QLC disk queues at most 64 requests"),
    (
        A,
        "cell: tlc",
        "cell: tlc\n  lanes_hz: [1 GHz, 2 GB]",
        "10: spec.lanes_hz: '2 GB' is a size; expected a frequency such as '1.4 GHz'",
    ),
    (
        A,
        "cell: tlc",
        "cell: tlc\n  energy: {read: 1 W}",
        "10: spec.energy.read: '1 W' is a power; expected an energy such as '2.1 nJ'",
    ),
    (A, "queue: 32", "qeue: 32", "8: spec: unknown field 'qeue'; did you mean 'queue'?"),
    (
        A,
        "queue: 32",
        "zzz: 32",
        "8: spec: unknown field 'zzz'; known: active_mw, cache, cell, energy, lanes_hz, page_bytes, "
        "queue, read_bytes_per_s, spare, timing",
    ),
    (A, "  queue: 32\n", "", "5: spec: the field 'queue' is missing"),
    (A, "read_ps: 35", "reed_ps: 35", "11: spec.timing: unknown field 'reed_ps'; did you mean 'read_ps'?"),
    (A, "    read_ps: 35 us\n", "", "10: spec.timing: the field 'read_ps' is missing"),
    (A, "timing:\n", "timing: 3\n#", "12: is not YAML: did not find expected key"),
    (A, "device: disk", "devise: disk", "3: unknown key 'devise'; did you mean 'device'?"),
    (A, "device: disk", "device: dosk", "3: device: unknown device 'dosk'; did you mean 'disk'?"),
    (A, "device: disk\n", "", "1: a part needs the key 'device'"),
    (A, "device: disk", "device: 3", "3: device: expected text, not '3'"),
    (A, "device: disk", "device: ''", "3: device: expected text, not ''"),
    (A, "kind: part", "kind: prat", "1: unknown kind 'prat'; did you mean 'part'?"),
    (A, "kind: part\n", "", "1: needs the key 'kind': one of part, system, model, run, sweep"),
    (A, "name: disk_a\n", "", "1: needs the key 'name'"),
    (
        A,
        "name: disk_a",
        "name: disk_x",
        "2: the name 'disk_x' differs from the file's name 'disk_a'; write name: 'disk_a' or rename the file",
    ),
    (A, "name: disk_a", "name: 3", "2: name: expected text, not '3'"),
    (A, "spec:\n", "spec: []\nnote:\n", "5: spec: expected a mapping, not a list"),
    (
        A,
        'source: "data sheet, table 1"\n',
        "",
        "6: spec.page_bytes: has no source; write {value: ..., source: ...} or give the file a 'source:'",
    ),
    (A, 'source: "measured"', 'source: " "', "6: spec.read_bytes_per_s: expected a source as text, not ' '"),
    (A, 'source: "measured"', "source: 3", "6: spec.read_bytes_per_s: expected a source as text, not '3'"),
    (
        A,
        'source: "measured"',
        'sauce: "measured"',
        "6: spec.read_bytes_per_s: unknown key 'sauce'; did you mean 'source'?",
    ),
    (A, "{value: 300 us, ", "{", "12: spec.timing.program_ps: has 'source' but no 'value'"),
    (
        B,
        'source: "data sheet of the successor"\n',
        "",
        "5: spec.read_bytes_per_s: has no source; write {value: ..., source: ...} or give the file a 'source:'",
    ),
    (
        P,
        'source: "tear-down"\n',
        "",
        "5: system.dram.size_bytes: has no source; write {value: ..., source: ...} or give the file a 'source:'",
    ),
    (
        A,
        "[3 GB/s, 5 GB/s]",
        "[3 GB/s, 3.5 GB/s]",
        "6: spec.read_bytes_per_s: 4 GB/s is outside its own range [3 GB/s, 3.5 GB/s]",
    ),
    (A, "[3 GB/s, 5 GB/s]", "[5 GB/s, 3 GB/s]", "6: spec.read_bytes_per_s: the range [5 GB/s, 3 GB/s] is upside down"),
    (
        A,
        "[3 GB/s, 5 GB/s]",
        "[3, 5]",
        "6: spec.read_bytes_per_s: range: '3' has no unit; expected a rate such as '4 GB/s'",
    ),
    (A, "[3 GB/s, 5 GB/s]", "[3 GB/s]", "6: spec.read_bytes_per_s: expected a range such as [low, high], not a list"),
    (A, "[3 GB/s, 5 GB/s]", "3 GB/s", "6: spec.read_bytes_per_s: expected a range such as [low, high], not '3 GB/s'"),
    (
        M,
        '{value: 16, source: "JEDEC"}',
        '{value: 16, source: "JEDEC", range: [a, 20]}',
        "9: spec.banks: range: 'a' is not a number",
    ),
    (
        M,
        '{value: 16, source: "JEDEC"}',
        '{value: 16, source: "JEDEC", range: [17, 20]}',
        "9: spec.banks: 16 is outside its own range [17, 20]",
    ),
    (A, "cell: tlc", "cell: {value: tlc, range: [1, 2]}", "9: spec.cell: has a range but is not a number"),
    (B, "base: disk_a.yaml", "base: disk_z.yaml", "3: base: no part 'disk_z' in parts; did you mean 'disk_b'?"),
    (
        B,
        "base: disk_a.yaml",
        "base: ../disk_a.yaml",
        "3: a base is a file name such as 'other.yaml', not '../disk_a.yaml'",
    ),
    (B, "base: disk_a.yaml", "base: disk_a", "3: a base is a file name such as 'other.yaml', not 'disk_a'"),
    (B, "base: disk_a.yaml", "base: disk_b.yaml", "3: a file cannot be its own base"),
    (
        B,
        "base: disk_a.yaml",
        "base: /etc/passwd.yaml",
        "3: a base is a file name such as 'other.yaml', not '/etc/passwd.yaml'",
    ),
    (A, "device: disk", "device: disk\nbase: disk_b.yaml", "4: 'disk_b.yaml' and 'disk_a.yaml' are each other's base"),
    (B, "base: disk_a.yaml", "base: 3", "3: base: expected text, not '3'"),
    (A, "queue: 32", "queue: 32\n  queue: 33", "9: the key 'queue' is given twice (first on line 8)"),
    (
        A,
        "queue: 32",
        "queue: !!python/object/apply:os.system ['true']",
        "8: the tag '!!python/object/apply:os.system' is not allowed; write a plain value",
    ),
    (A, "queue: 32", "queue: !!int 32", "8: the tag '!!int' is not allowed; write a plain value"),
    (A, "queue: 32", "queue: *q", "8: the alias '*q' has no anchor before it"),
    (A, "queue: 32", "[queue]: 32", "8: a key must be plain text"),
    (A, "queue: 32", "queue: [32", "9: is not YAML: did not find expected ',' or ']'"),
    (A, "queue: 32", "\tqueue: 32", "8: is not YAML: found a tab character that violates indentation"),
    (A, "kind: part", "---\nkind: part\n---\nkind: part", "3: a second document starts here; one file holds one"),
    (A, "queue: 32", "queue: 32\u0007", "8: the character '\\x07' is not allowed"),
    (A, "queue: 32", "queue: " + "[" * 30 + "]" * 30, "8: is nested deeper than 20 levels"),
    (P, "flash: disk_a", "flash: disk_aa", "5: devices.flash: no part 'disk_aa' in parts; did you mean 'disk_a'?"),
    (
        P,
        "flash: disk_a",
        "flash: ../disk_a",
        "5: devices.flash: '../disk_a' is not the name of a part: a name has letters, digits, '.', '_' and '-' only",
    ),
    (P, "flash: disk_a", "flash: 3", "5: devices.flash: expected the name of a part, not '3'"),
    (
        P,
        "flash: disk_a",
        "Flash: disk_a",
        "5: devices: 'Flash' is not a device name: lower-case letters, digits and '_' only",
    ),
    (
        P,
        "flash: disk_a",
        "flash.x: disk_a",
        "5: devices: 'flash.x' is not a device name: lower-case letters, digits and '_' only",
    ),
    (P, "{part: memory_a, ", "{prat: memory_a, ", "6: devices.dram: unknown key 'prat'; did you mean 'part'?"),
    (P, "{part: memory_a, ", "{part: memory_a, x: 1, ", "6: devices.dram: unknown key 'x'; known: part, spec"),
    (P, "spec: {size_bytes: 16 GiB}", "spec: 3", "6: devices.dram.spec: expected a mapping, not '3'"),
    (P, "size_bytes", "siz_bytes", "6: system.dram: unknown field 'siz_bytes'; did you mean 'size_bytes'?"),
    (P, "16 GiB", "16 GHz", "6: system.dram.size_bytes: '16 GHz' is a frequency; expected a size such as '8 MiB'"),
    (
        P,
        "  flash: disk_a\n  dram: {part: memory_a, spec: {size_bytes: 16 GiB}}\n",
        "  {}\n",
        "4: devices: a system needs at least one device",
    ),
    (P, "devices:", "device:", "4: unknown key 'device'; did you mean 'devices'?"),
    (R, "system: phone", "system: fone", "3: system: no system 'fone' in systems; did you mean 'phone'?"),
    (R, "name: chain", "name: chian", "5: schedule.name: unknown schedule 'chian'; did you mean 'chain'?"),
    (R, "  name: chain\n", "", "4: schedule.name: expected the name of a schedule, not nothing"),
    (R, "length: 4", "lenght: 4", "6: schedule: schedule 'chain' has no field 'lenght'; did you mean 'length'?"),
    (R, "length: 4", "length: 0", "6: schedule.length: '0' is out of range; 1 to 256 is allowed"),
    (R, "length: 4", "length: 4.0", "6: schedule.length: '4.0' should be a valid integer"),
    (R, "length: 4", "length: four", "6: schedule.length: the text 'four' should be a valid integer"),
    (R, "length: 4", "length: true", "6: schedule.length: 'true' should be a valid integer"),
    (R, "length: 4", "where: gpu", "6: schedule.where: 'gpu' should be 'cpu' or 'npu'"),
    (R, "length: 4", "margin: .nan", "6: schedule.margin: 'nan' is out of range; 0 to inf is allowed"),
    (R, "length: 4", "wait_ps: 4", "6: schedule.wait_ps: '4' has no unit; expected a time such as '35 us'"),
    (R, "length: 4", "widths: [1, x]", "6: schedule.widths: the text 'x' should be a valid integer"),
    (R, "name: chain\n  length: 4", "name: plain", "4: schedule: the field 'steps' is missing"),
    (R, "tokens: 16", "tokens: 0", "11: job.tokens: '0' should be greater than or equal to 1"),
    (R, "tokens: 16", "tokens: 1000001", "11: job.tokens: '1000001' should be less than or equal to 1000000"),
    (R, "tokens: 16", "prompts: 100001", "11: job.prompts: '100001' should be less than or equal to 100000"),
    (R, "tokens: 16", "dram_fraction: 1.1", "11: job.dram_fraction: '1.1' should be less than or equal to 1"),
    (R, "tokens: 16", "token: 16", "11: job: unknown field 'token'; did you mean 'tokens'?"),
    (R, "tokens: 16", "seed: -1", "11: job.seed: '-1' should be greater than or equal to 0"),
    (R, "target: big", "target: bigg", "8: job.target: no model 'bigg' in models; did you mean 'big'?"),
    (R, "  target: big\n", "", "7: job: the field 'target' is missing"),
    (
        R,
        "target: big",
        "target: ../big",
        "8: job.target: '../big' is not the name of a model: a name has letters, digits, '.', '_' and '-' only",
    ),
    (
        R,
        "draft: small",
        "draft: eagle3-bigg",
        "9: model.draft: no model 'eagle3-bigg', and no model 'bigg' to derive it from; did you mean 'big'?",
    ),
    (R, "draft: small", "draft: eagle3-small", "9: model.draft: no head for small"),
    (
        R,
        "tokens: 16",
        "kv_dtype: fp17",
        "11: job.kv_dtype: 'fp17' should be 'FP32', 'FP16', 'BF16', 'INT8', 'Q8_0' or 'Q4_0'",
    ),
    (R, "stream: synthetic:big:chat", "stream: ''", "10: job.stream: '' string should have at least 1 character"),
    (R, "tokens: 16", "acceptance: 1", "11: job.acceptance: '1' should be less than 1"),
    (R, "job:", "model: {target: {layer: 2}}\njob:", "7: model.target: unknown field 'layer'; did you mean 'layers'?"),
    (
        R,
        "job:",
        "model: {predictor: {layers: 2}}\njob:",
        "7: model: the job has no model in the role 'predictor'; known: draft, target",
    ),
    (R, "job:", "model: {target: 2}\njob:", "7: model.target: expected a mapping, not '2'"),
    (R, "system: phone\n", "", "1: a run needs the key 'system'"),
    (R, "job:\n", "jobs:\n", "7: unknown key 'jobs'; did you mean 'job'?"),
    (S, "run: chat", "run: 3", "3: run: expected text, not '3'"),
    (S, "[2, 4, 8]", "[]", "5: axes.schedule.length: needs at least 1 item(s)"),
    (S, "[2, 4, 8]", "{low: 1, hi: 4}", "5: axes.schedule.length: unknown field 'hi'; did you mean 'high'?"),
    (S, "set:\n  schedule.greedy", "set:\n  schedule.length", "1: 'schedule.length' is both an axis and set"),
]


@pytest.mark.parametrize(("file", "old", "new", "message"), EDITS)
def test_broken_file(tree, file, old, new, message):
    path = tree / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        load_config(KINDS[path.parent.name], path.stem)
    assert caught.value.message == f"{file}:{message}"
    assert "\n" not in str(caught.value)
    assert config.check_file(path)[0] == str(caught.value)


# --set, message after "--set "
SETS = [
    ("job.tokens", "'job.tokens' has no '='; write PATH=VALUE, such as job.tokens=64"),
    ("=3", "'=3' has an empty path or part of one; write PATH=VALUE"),
    ("job..tokens=3", "'job..tokens=3' has an empty path or part of one; write PATH=VALUE"),
    ("job.tokens=", "job.tokens: has no value; write PATH=VALUE"),
    ("jbo.tokens=3", "jbo.tokens: no path starts with 'jbo'; did you mean 'job'?"),
    ("job.toknes=3", "job.toknes: unknown field 'toknes'; did you mean 'tokens'?"),
    ("job.tokens=3 B", "job.tokens: the text '3 B' should be a valid integer"),
    ("job.tokens=[1", "job.tokens: is not YAML: did not find expected ',' or ']'"),
    ("job=3", "job: names no field; write job.FIELD=VALUE"),
    ("system.flsh=disk_b", "system.flsh: system 'phone' has no device 'flsh'; did you mean 'flash'?"),
    ("system.flash=disk_q", "system.flash: no part 'disk_q' in parts; did you mean 'disk_b'?"),
    ("system.flash=3", "system.flash: expected a name, not '3'"),
    (
        "system.flash.read_bytes_per_s=4.0",
        "system.flash.read_bytes_per_s: '4.0' has no unit; expected a rate such as '4 GB/s'",
    ),
    (
        "system.flash.read_bytes_per_s=4 GB",
        "system.flash.read_bytes_per_s: '4 GB' is a size; expected a rate such as '4 GB/s'",
    ),
    (
        "system.flash.read_byte_per_s=4 GB/s",
        "system.flash.read_byte_per_s: unknown field 'read_byte_per_s'; did you mean 'read_bytes_per_s'?",
    ),
    ("system.flash.queue.x=3", "system.flash.queue.x: 'system.flash.queue' is a single value; it has no fields"),
    ("system.flash.timing.red_ps=3 us", "system.flash.timing.red_ps: unknown field 'red_ps'; did you mean 'read_ps'?"),
    ("system=fone", "system: no system 'fone' in systems; did you mean 'phone'?"),
    ("schedule=chian", "schedule: unknown schedule 'chian'; did you mean 'chain'?"),
    ("schedule=plain", "schedule: the field 'steps' is missing"),
    ("schedule.lenght=4", "schedule.lenght: schedule 'chain' has no field 'lenght'; did you mean 'length'?"),
    ("schedule.length=1000", "schedule.length: '1000' is out of range; 1 to 256 is allowed"),
    ("schedule.length.x=3", "schedule.length.x: a schedule's fields have no fields of their own"),
    ("model.target=big", "model.target: names no field; write model.target.FIELD=VALUE"),
    (
        "model.predictor.layers=3",
        "model.predictor.layers: the job has no model in the role 'predictor'; known: draft, target",
    ),
    ("model.target.layers=0", "model.target.layers: '0' should be greater than 0"),
    ("model.target.layrs=3", "model.target.layrs: unknown field 'layrs'; did you mean 'layers'?"),
    ("job.target=bigg", "job.target: no model 'bigg' in models; did you mean 'big'?"),
    ("job.draft=eagle3-small", "job.draft: no head for small"),
    (
        "system.flash.page_bytes=!!python/none x",
        "system.flash.page_bytes: the tag '!!python/none' is not allowed; write a plain value",
    ),
    ("system.flash.cell=tlc\nqlc", "system.flash.cell: 'tlc qlc' should be 'tlc' or 'qlc'"),
    ("job.tokens=1,5", "job.tokens: the text '1,5' should be a valid integer"),
    ("system.flash=./disk", "system.flash: disk: no such file"),
]


@pytest.mark.parametrize(("setting", "message"), SETS)
def test_broken_set(tree, setting, message):
    with pytest.raises(InputError) as caught:
        load_config("run", "chat", [setting])
    assert str(caught.value) == f"--set {message}"


def test_set_given_twice(tree):
    with pytest.raises(InputError) as caught:
        load_config("run", "chat", ["job.tokens=3", "job.tokens=4"])
    assert str(caught.value) == "--set job.tokens: is given twice"


# kind, name, --set, message
OTHERS = [
    ("part", "disk_a", "spec.qeue=3", "--set spec.qeue: unknown field 'qeue'; did you mean 'queue'?"),
    ("part", "disk_a", "queue=3", "--set queue: no path starts with 'queue'; known: spec"),
    ("part", "disk_a", "spec=3", "--set spec: names no field; write spec.FIELD=VALUE"),
    ("model", "big", "spec.layers=0", "--set spec.layers: '0' should be greater than 0"),
    (
        "model",
        "eagle3-nobody",
        "spec.layers=1",
        "model eagle3-nobody: spec: no model 'eagle3-nobody', and no model 'nobody' to derive it from; "
        "known: big, small",
    ),
    (
        "system",
        "phone",
        "system=phone",
        "--set system: names no device; write system.DEVICE=PART or system.DEVICE.FIELD=VALUE",
    ),
    ("system", "phone", "job.tokens=3", "--set job.tokens: no path starts with 'job'; known: system"),
    (
        "sweep",
        "lengths",
        "job.tokens=3",
        "--set 'job.tokens=3' cannot change a sweep; put the value under its 'set:'",
    ),
]


@pytest.mark.parametrize(("kind", "name", "setting", "message"), OTHERS)
def test_broken_set_of_another_kind(tree, kind, name, setting, message):
    with pytest.raises(InputError) as caught:
        load_config(kind, name, [setting])
    assert str(caught.value) == message


# bytes of parts/odd.yaml (None: no such file), message after the file's name
ODD = [
    (None, ": no such file"),
    (b"", ": is empty; expected 'kind:', 'name:' and what the kind needs"),
    (b"# only a comment\n", ": is empty; expected 'kind:', 'name:' and what the kind needs"),
    (b"- 1\n", ":1: expected a mapping such as 'kind: part', not a list"),
    (b"just text\n", ":1: expected a mapping such as 'kind: part', not 'just text'"),
    (b"kind: part\nname: caf\xe9\n", ":2: is not UTF-8 text"),
    (b"\xff\xfek\x00", ":1: is not UTF-8 text"),
    (b"kind: part\n" + b"#" * reading.MAX_FILE_BYTES, ": is larger than 1048576 bytes"),
    (
        b"a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
        + b"".join(
            b"%c: &%c [%s]\n" % (ord(new), ord(new), b", ".join([b"*" + old.encode()] * 9))
            for old, new in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        ":6: expands to more than 100000 values",
    ),
    (b"a: &a [*a]\n", ":1: the alias '*a' has no anchor before it"),
    (b"a: [" + b"1," * 100_001 + b"]\n", ":1: expands to more than 100000 values"),
    (b"{{a: 1}: 2}\n", ":1: a key must be plain text"),
    (b"a: " + b"[" * 5000, ":1: is nested deeper than 20 levels"),
    (b"? - complex\n: 1\n", ":1: a key must be plain text"),
    (b"%YAML 1.2\n---\n!map {a: 1}\n", ":3: the tag '!map' is not allowed; write a plain value"),
]


@pytest.mark.parametrize(("content", "message"), ODD)
def test_odd_file(tree, content, message):
    path = tree / "parts" / "odd.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_config("part", "parts/odd.yaml")
    assert str(caught.value) == f"parts/odd.yaml{message}"
    assert config.check_file("parts/odd.yaml") == [f"parts/odd.yaml{message}"]


A_NAME = "a name has letters, digits, '.', '_' and '-' only"

# name or path of a part, message
NAMES = [
    ("disk_c", "no part 'disk_c' in parts; did you mean 'disk_b'?"),
    ("radio", "no part 'radio' in parts; known: disk_a, disk_b, memory_a"),
    ("", f"'' is not the name of a part: {A_NAME}"),
    ("..", f"'..' is not the name of a part: {A_NAME}"),
    ("a b", f"'a b' is not the name of a part: {A_NAME}"),
    ("a" * 200, f"'{'a' * 57}...' is not the name of a part: {A_NAME}"),
    ("parts/disk_z.yaml", "parts/disk_z.yaml: no such file"),
    ("parts/", "parts: is a folder, not a file"),
    ("./notes.txt", "notes.txt: expected a file that ends in .yaml"),
]


@pytest.mark.parametrize(("name", "message"), NAMES)
def test_missing_part(tree, name, message):
    (tree / "notes.txt").write_text("kind: part\n")
    with pytest.raises(InputError) as caught:
        load_config("part", name)
    assert str(caught.value) == message


def test_a_folder_is_no_file(tree):
    (tree / "parts" / "folder.yaml").mkdir()
    assert config.check_file("parts/folder.yaml") == ["parts/folder.yaml: is a folder, not a file"]
    assert "folder" not in config.names("part")


def test_unknown_kind(tree):
    with pytest.raises(InputError) as caught:
        load_config("sytem", "phone")
    assert str(caught.value) == "unknown kind 'sytem'; did you mean 'system'?"


def test_search_path_entry_that_is_no_folder(tree, monkeypatch):
    monkeypatch.setenv("ARCHSIM_PATH", "nowhere")
    with pytest.raises(InputError) as caught:
        config.search_path("part")
    assert str(caught.value) == "ARCHSIM_PATH names 'nowhere', which is not a folder"


def test_missing_names_say_where_it_looked(tree, monkeypatch):
    (tree / "mine" / "parts").mkdir(parents=True)
    monkeypatch.setenv("ARCHSIM_PATH", "mine")
    with pytest.raises(InputError) as caught:
        load_config("part", "disk_q")
    assert str(caught.value) == "no part 'disk_q' in mine/parts, mine, parts; did you mean 'disk_b'?"


def test_a_file_of_another_kind(tree):
    (tree / "parts/phone.yaml").write_text((tree / P).read_text())
    with pytest.raises(InputError) as caught:
        load_config("part", "phone")
    assert str(caught.value) == "parts/phone.yaml:1: is a system; expected a part"


def test_a_base_has_no_base(tree):
    (tree / "parts/disk_c.yaml").write_text("kind: part\nname: disk_c\nbase: disk_b.yaml\n")
    with pytest.raises(InputError) as caught:
        load_config("part", "disk_c")
    message = "parts/disk_c.yaml:3: the base 'disk_b.yaml' has a base itself; only one level is allowed"
    assert str(caught.value) == message


def test_a_base_of_another_kind(tree):
    (tree / "parts/phone.yaml").write_text((tree / P).read_text())
    (tree / "parts/disk_c.yaml").write_text("kind: part\nname: disk_c\nbase: phone.yaml\n")
    with pytest.raises(InputError) as caught:
        load_config("part", "disk_c")
    assert str(caught.value) == "parts/phone.yaml:1: is a system; expected a part"


def test_a_base_for_another_device(tree):
    path = tree / A
    path.write_text(path.read_text().replace("device: disk", "device: disk\nbase: memory_a.yaml"))
    with pytest.raises(InputError) as caught:
        load_config("part", "disk_a")
    message = f"{M}:5: spec: unknown field 'transfer_rate_per_s'; did you mean 'read_bytes_per_s'?"
    assert str(caught.value) == message


def test_an_error_in_a_part_names_the_part_wherever_it_is_used(tree):
    path = tree / A
    path.write_text(path.read_text().replace("16 KiB", "16 GHz"))
    for kind, name in (("part", "disk_b"), ("system", "phone"), ("run", "chat")):
        with pytest.raises(InputError) as caught:
            load_config(kind, name)
        assert str(caught.value).startswith(f"{A}:7: ")
        assert str(caught.value).endswith("page_bytes: '16 GHz' is a frequency; expected a size such as '8 MiB'")


# key of a run given as data, its value, message
GIVEN = [
    (
        "job",
        {"target": "big", "stream": "s", "tokens": 0},
        "run: job.tokens: '0' should be greater than or equal to 1",
    ),
    ("job", {"target": "big"}, "run: job: the field 'stream' is missing"),
    ("job", 3, "run: job: expected a mapping, not '3'"),
    ("system", "fone", "run: system: no system 'fone' in systems; did you mean 'phone'?"),
    ("system", 3, "run: system: '3' is not the name of a system: " + A_NAME),
    ("schedule", {"name": "chian"}, "run: schedule.name: unknown schedule 'chian'; did you mean 'chain'?"),
    ("sched", {}, "run: unknown key 'sched'; did you mean 'schedule'?"),
]


@pytest.mark.parametrize(("key", "value", "message"), GIVEN)
def test_given_run_names_the_field(tree, key, value, message):
    run = {"system": "phone", "schedule": {"name": "chain"}, "job": {"target": "big", "stream": "s"}}
    with pytest.raises(InputError) as caught:
        load_config("run", {**run, key: value})
    assert str(caught.value) == message


def test_given_run_needs_its_keys(tree):
    with pytest.raises(InputError) as caught:
        load_config("run", {})
    assert str(caught.value) == "run: needs 'system'"


def test_a_schedule_that_needs_a_role_the_job_lacks(tree):
    judged = type("Judged", (registry.get("schedule", "chain"),), {"roles": ("predictor",)})
    registry.register("schedule", "judged")(judged)
    with pytest.raises(InputError) as caught:
        load_config("run", "chat", ["schedule=judged"])
    assert str(caught.value) == "runs/chat.yaml:7: job: schedule 'judged' needs a model in the role 'predictor'"


def test_a_predictor_for_a_schedule_that_has_none(tree):
    with pytest.raises(InputError) as caught:
        load_config("run", "chat", ["job.predictor=chat-model"])
    assert str(caught.value) == "--set job.predictor: schedule 'chain' has no role 'predictor'; leave it out"


def test_given_run_must_be_plain_data(tree):
    with pytest.raises(InputError) as caught:
        load_config("run", {"system": "phone", "schedule": {"name": "chain"}, "job": {"target": tree}})
    message = "run: job: is not plain data: Object of type PosixPath is not JSON serializable"
    assert str(caught.value) == message


def test_range_of_a_schedule_field_is_checked(tree):
    path = tree / R
    wrapped = "length: {value: 4, source: tuned, range: [2, 3]}"
    path.write_text(path.read_text().replace("length: 4", wrapped))
    with pytest.raises(InputError) as caught:
        load_config("run", "chat")
    assert str(caught.value) == f"{R}:6: schedule.length: 4 is outside its own range [2, 3]"
    path.write_text(path.read_text().replace("[2, 3]", "[2, 8]"))
    source = load_config("run", "chat").sources["schedule.length"]
    assert (source.text, source.range) == ("tuned", (2.0, 8.0))


def test_unknown_field_inside_a_list(tree):
    class Lane(BaseModel):
        model_config = ConfigDict(extra="forbid")

        width: int

    class Bus(BaseModel):
        model_config = ConfigDict(extra="forbid")

        lanes: tuple[Lane, ...]

    registry.register("device", "bus")(type("BusDevice", (), {"Spec": Bus}))
    path = tree / "parts" / "bus_a.yaml"
    for item, message in [
        ("{widht: 3}", "5: spec.lanes: unknown field 'widht'; did you mean 'width'?"),
        ("{}", "5: spec.lanes: the field 'width' is missing"),
        ("{width: x}", "5: spec.lanes: the text 'x' should be a valid integer"),
    ]:
        path.write_text(f"kind: part\nname: bus_a\ndevice: bus\nspec:\n  lanes: [{item}]\n")
        with pytest.raises(InputError) as caught:
            load_config("part", "bus_a")
        assert str(caught.value) == f"parts/bus_a.yaml:{message}"
    path.write_text("kind: part\nname: bus_a\ndevice: bus\nsource: s\nspec:\n  lanes: [{width: 3}]\n")
    assert load_config("part", "bus_a").sources["spec.lanes.0.width"].text == "s"
