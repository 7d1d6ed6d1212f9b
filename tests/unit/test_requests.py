"""Arrivals, turns and the percentiles of a run's service."""

import itertools
import re

import numpy as np
import pytest

from archsim.config import InputError
from archsim.session import load, replay, run

JOB = {"target": "smollm2-135m", "stream": "synthetic:qwen3-4b:mbpp", "tokens": 6, "prompt_tokens": 24}
PHONE = {"system": "oneplus_12", "schedule": {"name": "resident_ar"}}


def simulated(sets=(), **job):
    return run(load({**PHONE, "job": {**JOB, **job}}, sets=sets), trace="off")


def served(result):
    from archsim.report.summary import requests

    return requests(result.trace)


def test_a_closed_loop_waits_for_nothing_and_arrives_at_the_end_of_the_request_before():
    result = simulated(prompts=3)
    entries = served(result)
    for before, after in itertools.pairwise(entries):
        assert after["arrival_s"] == pytest.approx(before["arrival_s"] + before["latency_s"], rel=1e-12)
    assert result.summary["queue_p99_s"] == 0.0
    assert not (result.trace.notes["kind"] == "begin").any()


def test_requests_far_apart_do_not_wait_and_close_ones_wait_for_all_before_them():
    alone = served(simulated())[0]
    apart = served(simulated(prompts=3, arrivals="fixed", arrival_period_ps="10 s"))
    assert [entry["arrival_s"] for entry in apart] == [0.0, 10.0, 20.0]
    assert all(entry["queue_s"] == 0 for entry in apart)
    at_once = served(simulated(prompts=3, arrivals="fixed", arrival_period_ps="1 ps"))
    for number, entry in enumerate(at_once):
        assert entry["queue_s"] == pytest.approx(number * alone["latency_s"], rel=0.02)
        assert entry["ttft_s"] >= entry["queue_s"]


def test_poisson_arrivals_are_drawn_by_number_with_the_mean_asked():
    from archsim.config import JobSpec
    from archsim.streams import open_stream
    from archsim.units import from_numbers
    from archsim.workload.requests import requests_of

    def times(count, seed):
        values = {**JOB, "prompts": count, "seed": seed, "arrivals": "poisson", "arrival_rate_hz": 4.0}
        stream = open_stream(JOB["stream"], seed, target=JOB["target"], prompt_tokens=24, tokens=6)
        return [request.arrival_ps for request in requests_of(from_numbers(JobSpec, values), stream)]

    many = times(4000, 7)
    assert times(50, 7) == many[:50]
    assert times(50, 8) != many[:50]
    gaps = np.diff(many) * 1e-12
    assert gaps.mean() == pytest.approx(0.25, rel=0.05)
    assert gaps.std() == pytest.approx(0.25, rel=0.08)  # an exponential's deviation is its mean


def test_a_list_of_arrivals_has_lengths_of_its_own(tmp_path):
    file = tmp_path / "requests.csv"
    file.write_text("arrival_s,prompt_tokens,output_tokens\n0,8,3\n0.5,40,5\n")
    result = simulated(arrivals=str(file))
    entries = served(result)
    assert [entry["arrival_s"] for entry in entries] == [0.0, 0.5]
    assert [entry["prompt_tokens"] for entry in entries] == [8, 40]
    assert [entry["tokens"] for entry in entries] == [3, 5]
    assert result.trace.manifest["config"]["job"]["arrivals"] == [[0.0, 8, 3], [0.5, 40, 5]]
    assert (
        load({**PHONE, "job": {**JOB, "arrivals": [[0, 8, 3], [0.5, 40, 5]]}}).digest
        == load({**PHONE, "job": {**JOB, "arrivals": str(file)}}).digest
    )


BAD = {
    "arrival_period_ps belongs to arrivals: fixed": {"arrivals": "fixed"},
    "arrival_rate_hz belongs to arrivals: poisson": {"arrival_rate_hz": "2 Hz"},
    "must be in order of time": {"arrivals": [[1, 8, 3], [0, 8, 3]]},
    "the list of arrivals is empty": {"arrivals": []},
    "job.arrivals: '0' should be greater than or equal to 1": {"arrivals": [[0, 8, 3], [1, 8, 0]]},
    "'nonsense' should be 'closed', 'fixed' or 'poisson'": {"arrivals": "nonsense"},
    "leave prompts and turns out": {"arrivals": [[1, 8, 3]], "turns": 2},
    "turn_tokens is for jobs of several turns": {"turn_tokens": 5},
    "at most 100000 requests": {"prompts": 1000, "turns": 1000},
    "nowhere.csv: no such file; expected a list of arrivals": {"arrivals": "nowhere.csv"},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arrivals_are_refused_in_one_line(message):
    with pytest.raises(InputError, match=re.escape(message)) as error:
        load({**PHONE, "job": {**JOB, **BAD[message]}})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time,in,out\n1,2,3\n", ":1: expected the columns arrival_s,prompt_tokens,output_tokens"),
        ("arrival_s,prompt_tokens,output_tokens\n1,2\n", ":2: expected a time in seconds"),
        ("arrival_s,prompt_tokens,output_tokens\nx,2,3\n", ":2: expected a time in seconds"),
        ("arrival_s,prompt_tokens,output_tokens\n0,2,3\n\n1,2,0\n", ":4: output_tokens is '0'; it should be greater"),
        ("arrival_s,prompt_tokens,output_tokens\nnan,2,3\n", ":2: arrival_s is 'nan'; it should be"),
        ("arrival_s,prompt_tokens,output_tokens\n1,2,3\n0,2,3\n", ":3: arrives at 0 s, before the line above"),
    ],
)
def test_a_bad_list_is_refused_with_its_line(text, message, tmp_path):
    file = tmp_path / "bad.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=re.escape(message)):
        load({**PHONE, "job": {**JOB, "arrivals": str(file)}})


def test_replay_repeats_arrivals_and_streams(tmp_path):
    data = {
        **PHONE,
        "job": {**JOB, "prompts": 3, "arrivals": "poisson", "arrival_rate_hz": "20 Hz"},
        "background": {"idle": "android_idle", "display": "display_120hz"},
    }
    result = run(load(data), output=tmp_path / "run")
    assert replay(tmp_path / "run")["identical"]
    assert result.summary["queue_p99_s"] > 0


def macs_of_prefill(result):
    """Multiply-accumulates of each request's prefill, by request: (products, attention)."""
    trace = result.trace
    prefill = np.append(trace.blocks["phase"] == "prefill", False)[trace.row_block] & (trace.row_op >= 0)
    request = np.append(trace.blocks["request"], -1)[trace.row_block]
    kinds, macs = trace.ops["kind"][trace.row_op], trace.ops["macs"][trace.row_op]
    return [
        tuple(int(macs[prefill & (request == r) & (kinds == kind)].sum()) for kind in ("matmul", "attention"))
        for r in range(int(request.max()) + 1)
    ]


def test_with_reuse_the_prefill_of_a_turn_is_linear_in_its_new_tokens():
    turns, new, out = 4, 24, 6
    with_it, without = (macs_of_prefill(simulated(turns=turns, prefix_reuse=on)) for on in (True, False))
    first, each = with_it[0][0], with_it[0][0] // new  # of one row through all matrices
    assert with_it[0] == without[0]
    for turn in range(1, turns):
        assert with_it[turn][0] == each * (new + 1)  # and the answer's last token, which no pass has computed
        assert without[turn][0] == each * (new + turn * (new + out))
    pair = with_it[0][1] // (new * (new + 1) // 2)
    for turn in range(1, turns):
        history, rows = turn * (new + out) - 1, new + 1
        assert with_it[turn][1] == pair * (rows * history + rows * (rows + 1) // 2)
        total = new + turn * (new + out)
        assert without[turn][1] == pair * (total * (total + 1) // 2)
    assert first == each * new


def test_time_to_first_token_by_turn():
    reused, again = (simulated(turns=3, prefix_reuse=on, prompt_tokens=200).summary["turns"] for on in (True, False))
    reused, again = list(reused.values()), list(again.values())
    assert [entry["prompt_tokens"] for entry in reused] == [200, 406, 612]
    assert [entry["prefilled_tokens"] for entry in reused] == [200, 201, 201]
    assert [entry["prefilled_tokens"] for entry in again] == [200, 406, 612]
    assert reused[0]["ttft_s"] == again[0]["ttft_s"]
    assert all(a["ttft_s"] < b["ttft_s"] for a, b in zip(reused[1:], again[1:]))
    assert again[1]["ttft_s"] < again[2]["ttft_s"]


def test_turn_tokens_and_conversations():
    result = simulated(turns=2, prompts=2, turn_tokens=5)
    assert [entry["prompt_tokens"] for entry in served(result)] == [24, 35, 24, 35]
    assert [entry["cached_tokens"] for entry in served(result)] == [0, 29, 0, 29]
