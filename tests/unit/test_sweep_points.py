"""Axes to points, and what is wrong with a sweep, by exact message."""

from __future__ import annotations

import pytest

from archsim.config import InputError, SweepSpec
from archsim.sweep.points import axis_values, count, points


def spec(**fields):
    return SweepSpec(run="demo_chain_sd", **{"axes": {"job.tokens": [1, 2]}, **fields})


def test_last_axis_changes_fastest_and_zipped_axes_move_together():
    made = points(spec(axes={"a": [1, 2], "b": ["x", "y"], "c": [3, 4]}, zip=[["a", "c"]]))
    assert made == [
        {"a": 1, "b": "x", "c": 3},
        {"a": 1, "b": "y", "c": 3},
        {"a": 2, "b": "x", "c": 4},
        {"a": 2, "b": "y", "c": 4},
    ]


@pytest.mark.parametrize(
    ("span", "values"),
    [
        ({"low": 64, "high": 1024, "steps": 5, "log": True}, [64, 128, 256, 512, 1024]),
        ({"low": 0.0, "high": 1.0, "steps": 3}, [0.0, 0.5, 1.0]),
        ({"low": 1, "high": 9, "steps": 3}, [1, 5, 9]),
        ({"low": "1 GHz", "high": "2 GHz", "steps": 3}, ["1.0 GHz", "1.5 GHz", "2.0 GHz"]),
        ({"low": "4 MiB", "high": "16 MiB", "steps": 3, "log": True}, ["4194304 B", "8388608 B", "16777216 B"]),
    ],
)
def test_spans(span, values):
    assert axis_values("p", spec(axes={"p": span}).axes["p"]) == values


def test_conditions_compare_numbers_and_quantities():
    axes = {"a": ["1 GB/s", "2 GB/s", "4 GB/s"], "b": ["1.5 GB/s"], "n": [1, 2, 3]}
    where = [{"left": "a", "op": ">", "right": "b"}, {"left": "n", "op": "!=", "right": 2}]
    kept = points(spec(axes=axes, where=where))
    assert [(p["a"], p["n"]) for p in kept] == [("2 GB/s", 1), ("2 GB/s", 3), ("4 GB/s", 1), ("4 GB/s", 3)]


def test_hypercube_hits_every_slice_once_and_is_the_same_each_time():
    fields = {"axes": {"x": {"low": 0.0, "high": 1.0}, "y": ["a", "b"]}, "sample": {"method": "lhs", "points": 50}}
    made = points(spec(**fields))
    assert sorted(int(p["x"] * 50) for p in made) == list(range(50))
    assert sum(p["y"] == "a" for p in made) == 25
    assert made == points(spec(**fields))
    assert made != points(spec(**{**fields, "sample": {"method": "lhs", "points": 50, "seed": 1}}))


BAD = [
    ({"axes": {"a": [1, 2], "b": [1]}, "zip": [["a", "b"]]}, "zip: axes that move together need equally many values; a has 2, b has 1"),
    ({"axes": {"a": [1, 2, 1]}}, "axes.a: the value 1 comes twice; lower steps or take one out"),
    (
        {"axes": {"a": [1, 1, 2], "b": [3, 3, 4]}, "zip": [["a", "b"]]},
        "axes.a and b: the values 1, 3 come twice; lower steps or take one out",
    ),
    ({"axes": {"a": {"low": 1, "high": 3, "steps": 5}}}, "axes.a: the value 2 comes twice; lower steps or take one out"),
    ({"axes": {"a": {"low": 3, "high": 1, "steps": 2}}}, "axes.a: low 3 is not below high 1"),
    ({"axes": {"a": {"low": 0, "high": 1, "steps": 2, "log": True}}}, "axes.a: a logarithmic span needs a low above zero, not 0"),
    ({"axes": {"a": {"low": 0, "high": 1}}}, "axes.a: a span of a grid needs 'steps' or 'step'"),
    ({"axes": {"a": {"low": "1 GHz", "high": "2 MHz", "steps": 2}}}, "axes.a: low and high are in different units (1 GHz and 2 MHz); write both alike"),
    ({"axes": {"a": {"low": "one", "high": "two", "steps": 2}}}, "axes.a: 'one' is no number with a unit"),
    ({"axes": {"a": [1, 2]}, "where": [{"left": "a", "op": ">", "right": 5}]}, "where: no point satisfies a > 5; loosen it or widen the axes"),
    ({"axes": {"a": [1, 2]}, "where": [{"left": "a", "op": "<", "right": "1 GB"}]}, "where: a < 1 GB compares '1' with '1 GB'; give numbers, or quantities of one dimension"),
    ({"axes": {f"a{i}": list(range(1000)) for i in range(4)}}, "the sweep has 1000000000000 points, more than 1000000; use 'sample' or fewer steps"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "message"), BAD)
def test_wrong_sweeps(fields, message):
    with pytest.raises(InputError) as caught:
        points(spec(**fields))
    assert caught.value.message == message


def test_count_needs_no_list():
    assert count(spec(axes={f"a{i}": list(range(1000)) for i in range(9)})) == 10**27
