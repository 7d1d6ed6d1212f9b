"""The benchmark command: which figures there are, how they are judged, and what it refuses."""

import pytest

from archsim.bench import suite
from archsim.bench.suite import SUITE, Benchmark, chosen, machine, measure
from archsim.cli import run_cli
from archsim.units import InputError


def fixed(values, **bounds):
    left = iter(values)
    return Benchmark("some", "s", lambda: lambda: next(left), **bounds)


@pytest.mark.parametrize(
    ("values", "bounds", "best", "verdict"),
    [
        ((3.0, 1.0, 2.0), {"aim": 1.0}, 1.0, "ok"),
        ((3.0, 1.5, 2.0), {"aim": 1.0}, 1.5, "missed"),
        ((3.0, 1.0, 2.0), {"aim": 3.0, "most": False}, 3.0, "ok"),
        ((3.0, 1.0, 2.0), {"aim": 3.1, "most": False}, 3.0, "missed"),
        ((3.0, 1.0, 2.0), {}, 1.0, ""),
    ],
)
def test_the_best_repeat_is_judged(values, bounds, best, verdict):
    found = measure(fixed(values, repeats=3, **bounds))
    assert (found["best"], found["median"], found["repeats"], found["verdict"]) == (best, 2.0, 3, verdict)


def test_a_quick_round_takes_two_repeats_and_leaves_out_what_is_long():
    assert measure(fixed((2.0, 1.0)), quick=True)["repeats"] == 2
    assert {b.name for b in chosen((), quick=True)} == {b.name for b in SUITE if not b.long}


def test_names_and_groups_are_chosen():
    assert [b.name for b in chosen(["engine"])] == ["engine.12x4", "engine.40x10", "engine.emit"]
    assert [b.name for b in chosen(["run.llada", "pim."])] == ["pim.512_rows", "run.llada"]
    assert len({b.name for b in SUITE}) == len(SUITE)
    with pytest.raises(InputError, match=r"--only 'engin': no such benchmark; there is: machine.python, machine.jit, "):
        chosen(["engin"])


def test_the_machine_itself_is_measured():
    """A step of the jitted loop takes some cycles, one of the interpreter's more; neither is a second or nothing."""
    python, jit = (bench.prepare()() for bench in chosen(["machine"]))
    assert 0.2 < jit < python < 10_000


def test_the_machine_is_described():
    found = machine()
    assert found["cores"] >= 1
    assert all(found[name] for name in ("cpu", "python", "numpy", "numba", "archsim", "kernel_sources"))


def test_the_command_prints_one_document(capsys, monkeypatch):
    monkeypatch.setattr(suite, "SUITE", (fixed((1.0, 2.0, 3.0, 4.0, 5.0), aim=1.0),))
    assert run_cli(["bench", "--json"]) == 0
    assert '"verdict": "ok"' in capsys.readouterr().out
    assert run_cli(["bench", "--only", "other"]) == 2
