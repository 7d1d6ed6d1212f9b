"""Every command that prints a table has --json: one document on stdout; its errors are one line on stderr, exit 2."""

import json

import pytest
from click import Context

from archsim.cli import run_cli
from archsim.commands import parser
from archsim.session import load, run

JOB = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25", "tokens": 4}
RUN = ["run", "--system", "oneplus_12", "--schedule", "flash_ar", "--trace", "off", "--tokens", "4"]
RUN += ["--target", JOB["target"], "--stream", JOB["stream"]]
SWEEP = """kind: sweep
name: tiny
run: demo_flash_ar
set: {job.tokens: 2, job.target: smollm2-135m}
axes: {schedule.ring: [2, 3]}
objectives: {decode_tokens_per_s: max}
"""
NPU = ["--m", "8", "--k", "256", "--n", "256", "--dtype", "int8", "--array", "8x8", "--dataflow", "os"]
PLAIN = {
    "check": ["check", "{phone}"],
    "diff": ["diff", "{run}", "{run}"],
    "explain": ["explain", "{run}"],
    "import model": ["import", "model", "{config}"],
    "list": ["list", "systems"],
    "new": ["new", "machine", "my_phone", "-o", "{new}"],
    "plot": ["plot", "{run}", "--kind", "latency", "-o", "{figure}"],
    "replay": ["replay", "{run}"],
    "report": ["report", "{run}"],
    "run": RUN,
    "schema": ["schema", "run"],
    "search": ["search", "{sweep}", "--trials", "2", "-o", "{search}"],
    "show": ["show", "part", "ufs_4_0"],
    "sweep": ["sweep", "{sweep}", "-o", "{swept}"],
    "trace flash": ["trace", "flash", "--pattern", "rand_read", "--size", "4 KiB", "--qd", "1", "--requests", "20"],
    "trace npu": ["trace", "npu", *NPU],
    "trace pim": ["trace", "pim", "--gemv", "512x512"],
    "trace dram": ["trace", "dram", "{dram}"],
}
#: Commands whose own tests run them with --json: they take minutes, a model of one's own, or files of one's own.
ELSEWHERE = {"demo", "reproduce", "bench", "compare", "calibrate", "record"}


def commands(command=None, path=()):
    """Every command with its words."""
    command = parser() if command is None else command
    inner = getattr(command, "commands", None)
    if inner is None:
        yield " ".join(path), command
        return
    for name, other in inner.items():
        yield from commands(other, (*path, name))


COMMANDS = dict(commands())


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("json")
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 256}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "torch_dtype": "float16",
        "hidden_act": "silu",
        **sizes,
    }
    texts = {"config.json": json.dumps(config), "tiny.yaml": SWEEP, "reads.txt": "R 0x0\nR 0x40\n"}
    for name, text in texts.items():
        (folder / name).write_text(text)
    made = run(load(system="oneplus_12", schedule="flash_ar", job=JOB), output=folder / "run")
    new = {name: folder / name for name in ("new", "swept", "search")}
    known = {"config": "config.json", "sweep": "tiny.yaml", "dram": "reads.txt", "figure": "latency.svg"}
    (folder / "phone.yaml").write_text("kind: system\nname: phone\nbase: oneplus_12.yaml\n")
    return {"run": made.folder, "phone": folder / "phone.yaml", **new, **{k: folder / v for k, v in known.items()}}


def options(command):
    return {name for parameter in command.params for name in parameter.opts}


def test_every_command_is_known_here():
    assert set(COMMANDS) <= {*PLAIN, *ELSEWHERE}, "a new command needs an entry in PLAIN"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_json(name):
    assert "--json" in options(COMMANDS[name]), f"archsim {name} has no --json"
    assert COMMANDS[name].get_short_help_str(), f"archsim {name} does not say what it does"


@pytest.mark.parametrize("name", [name for name in COMMANDS if name in PLAIN])
def test_json_is_one_document(name, files, capsys):
    args = [word.format(**files) for word in PLAIN[name]]
    assert run_cli([*args, "--json"]) == 0
    shown = capsys.readouterr()
    assert isinstance(json.loads(shown.out), (dict, list))
    assert shown.err == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_errors_with_json_are_one_line(name, capsys, tmp_path, monkeypatch):
    """Arguments that name nothing, or an option that is none: exit 2, one line, and nothing on stdout."""
    monkeypatch.chdir(tmp_path)
    needed = [p for p in COMMANDS[name].params if p.param_type_name == "argument"]
    for args in ([*["no/such.thing"] * len(needed), "--no-such-option"], ["./no.such.yaml"] * len(needed)):
        if "--no-such-option" not in args and (not needed or name == "check"):
            continue  # what `check` finds wrong is its document
        assert run_cli([*name.split(), *args, "--json"]) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.count("\n") == 1, shown.err
        assert shown.err.startswith("archsim: ")
    assert list(tmp_path.iterdir()) == []


def test_contexts_can_be_made():
    assert all(isinstance(Context(command), Context) for command in COMMANDS.values())


def test_a_command_is_parsed_the_same_without_the_others():
    for name, whole in parser().commands.items():
        [(alone, one)] = parser(name).commands.items()
        assert alone == name
        for words, command in commands(one):
            same = dict(commands(whole))[words]
            assert [each.opts for each in command.params] == [each.opts for each in same.params]
            assert command.help == same.help
