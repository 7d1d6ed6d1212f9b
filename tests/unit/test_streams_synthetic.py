"""Names, settings and answers of synthetic streams."""

import time

import numpy as np
import pytest
from numpy.random import Philox

from archsim.config import InputError
from archsim.streams import UNBOUNDED, StreamEndError, open_stream
from archsim.streams.acceptance import ANY_TASK, acceptance, table
from archsim.streams.draws import Draws
from archsim.streams.generator import (
    ENTROPY_CURVE,
    TAILS,
    Generator,
    Shape,
    curve_acceptance,
    curve_entropy,
    least_entropy,
    level_for,
    mean_acceptance,
)
from archsim.streams.synthetic import BLOCK


def test_name_and_source():
    stream = open_stream("synthetic:llama-3.1-8b:mbpp", 1)
    assert stream.name == "synthetic:llama-3.1-8b+eagle3-llama-3.1-8b:mbpp"
    assert open_stream("synthetic:llama-3.1-8b+eagle3-llama-3.1-8b:mbpp", 1).name == stream.name
    assert (stream.kind, stream.model, stream.requests) == ("synthetic", "llama-3.1-8b", UNBOUNDED)
    cell = acceptance("llama-3.1-8b", "eagle3-llama-3.1-8b", "mbpp")
    assert cell.value == 0.854
    assert (stream.shape.acceptance, stream.source) == (cell.fitted.value, cell.fitted.source)
    pair = open_stream("synthetic:llama-3.1-8b+llama-3.2-1b:gsm8k", 1)
    assert pair.shape.acceptance == 0.72
    assert (stream.prompt_tokens(0), stream.length(0)) == (137, 128)
    asked = open_stream("synthetic:llama-3.1-8b:mbpp", 1, prompt_tokens=9, tokens=1024, target="llama-3.1-8b")
    assert (asked.prompt_tokens(3), asked.length(3), asked.request_name(3)) == (9, 1024, "3")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("synthetic:qwen3-8b:gsm", "unknown task 'gsm'; did you mean 'gsm8k'?"),
        (
            "synthetic:qwen3-4b+qwen3-0.6b:gsm8k",
            "no acceptance data for qwen3-4b with draft 'qwen3-0.6b'; drafts with data: eagle3-qwen3-4b, "
            "or give the value (acceptance=0.7)",
        ),
        (
            "synthetic:qwen3-8b:boolq",
            "no acceptance data for qwen3-8b+eagle3-qwen3-8b on boolq; tasks with data: humaneval, mbpp, gsm8k, "
            "mt_bench, alpaca, or give the value (acceptance=0.7)",
        ),
        (
            "synthetic:llama-3-8b:gsm8k",
            "no acceptance data for 'llama-3-8b+eagle3-llama-3-8b'; did you mean 'llama-3.1-8b+eagle3-llama-3.1-8b'? "
            "or give the value (acceptance=0.7)",
        ),
        ("synthetic:qwen3-8b", "cannot read stream 'synthetic:qwen3-8b'; write synthetic:<target>[+<draft>]:<task>"),
        (
            "synthetic:a+b+c:mbpp",
            "cannot read stream 'synthetic:a+b+c:mbpp'; write synthetic:<target>[+<draft>]:<task>",
        ),
        ("synthetic:a+:mbpp", "cannot read stream 'synthetic:a+:mbpp'; write synthetic:<target>[+<draft>]:<task>"),
    ],
)
def test_bad_texts(text, message):
    with pytest.raises(InputError) as error:
        open_stream(text, 1)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"acceptance": 1.0}, "acceptance must be a number from 0 to 1, not 1.0"),
        ({"acceptance": "0.7"}, "acceptance must be a number from 0 to 1, not '0.7'"),
        ({"acceptance": float("nan")}, "acceptance must be a number from 0 to 1, not nan"),
        ({"depth_factor": 0.0}, "depth_factor must be a number from 0 to 1, not 0.0"),
        ({"sd_hidden": 3.0}, "sd_hidden 3.0 is more than sd_position 2.2"),
        ({"sd_request": 0.5}, "sd_request_hidden 0.75 is more than sd_request 0.5"),
        ({"tail": "medusa"}, "unknown tail 'medusa'; known: recorded, sequoia, measured, or give shares as numbers"),
        ({"tail": (0.6, 0.6), "candidates": 3}, "tail (0.6, 0.6) must be shares from 0 to 1 that add up to 1 at most"),
        ({"tail": (0.1,)}, "candidates must be 1 to 2 with this tail, not 8"),
        ({"candidates": 9}, "candidates must be 1 to 8 with this tail, not 9"),
        ({"accept": 0.7}, "unknown stream setting 'accept'; did you mean 'acceptance'?"),
        ({"tokens": 0}, "tokens must be a whole number from 1 to 16777216, not '0'"),
    ],
)
def test_bad_settings(context, message):
    with pytest.raises(InputError) as error:
        open_stream("synthetic:qwen3-8b:gsm8k", 1, **context)
    assert str(error.value) == message


@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, "1", True, None])
def test_bad_seed(seed):
    with pytest.raises(InputError, match=r"^seed must be a whole number from 0 to 2\*\*64 - 1, not .*; set job.seed$"):
        open_stream("synthetic:qwen3-8b:gsm8k", seed)


def test_an_acceptance_given_serves_any_pair():
    stream = open_stream("synthetic:llama-3-8b+mine:boolq", 1, acceptance=0.6, tail=None)
    assert (stream.shape.acceptance, stream.source) == (0.6, "given as acceptance")


def test_every_cell_has_a_source_and_lies_in_its_range():
    known = table()
    assert set(known.tasks) == {
        "humaneval",
        "mbpp",
        "gsm8k",
        "mt_bench",
        "math",
        "boolq",
        "arc_c",
        "hellaswag",
        "alpaca",
    }
    for (target, draft), cells in known.pairs.items():
        for task, cell in cells.items():
            assert task == ANY_TASK or task in known.tasks
            assert 0 < cell.value < 1
            assert cell.source
            if cell.fitted:
                low, high = cell.fitted.range
                assert low < cell.fitted.value < high
                assert cell.fitted.source.startswith("fitted: ")
            if cell.range:
                assert cell.range[0] <= cell.value <= cell.range[1]
            assert acceptance(target, draft, "alpaca" if task == ANY_TASK else task) == cell
        if "mbpp" in cells:
            assert cells["mbpp"].value == cells["humaneval"].value
            assert cells["mbpp"].source.startswith("assumed: as humaneval")


def chain_length(a, k):
    return sum(a**i for i in range(k + 1))


@pytest.mark.parametrize(
    ("target", "task", "length", "k"),
    [
        ("llama-3.1-8b", "gsm8k", 2.97, 7),
        ("llama-3.1-8b", "math", 5.40, 7),
        ("llama-3.1-8b", "mt_bench", 3.86, 7),
        ("llama-3.1-8b", "humaneval", 4.91, 7),
        ("qwen3-4b", "alpaca", 2.10, 2),
        ("qwen3-8b", "gsm8k", 2.00, 2),
        ("qwen3-14b", "mt_bench", 1.74, 2),
    ],
)
def test_acceptance_gives_the_published_length(target, task, length, k):
    assert chain_length(acceptance(target, f"eagle3-{target}", task).value, k) == pytest.approx(length, abs=0.01)


def test_draws_are_philox():
    draws = Draws(5, "a stream")
    key = draws._state["state"]["key"].copy()
    block = draws.uniforms(3, 128, 0, 1, 4)
    for i in range(4):
        words = Philox(key=key, counter=np.array([128 + i, 0, 1, 3], dtype=np.uint64)).random_raw(4)
        assert np.array_equal(draws.words(3, 128 + i, 0, 1), words)
        assert np.array_equal(block[i], (words >> np.uint64(11)) * 2.0**-53 + 2.0**-54)
    assert int(key[0]) == 5
    assert not np.array_equal(Draws(5, "another").words(0, 0), draws.words(0, 0))


def test_noise():
    stream = open_stream("synthetic:qwen3-8b:gsm8k", 1)
    noise = stream.score_noise(2, 7, (1, 2), 4)
    assert np.array_equal(noise, open_stream("synthetic:qwen3-8b:gsm8k", 1).score_noise(2, 7, (1, 2), 4))
    assert np.array_equal(stream.score_noise(2, 7, (1, 2), 9)[:4], noise)
    assert not np.array_equal(stream.score_noise(2, 8, (1, 2), 4), noise)
    many = np.concatenate([stream.score_noise(0, pos, (), 7) for pos in range(3000)])
    assert abs(many.mean()) < 0.03
    assert abs(many.std() - 1) < 0.03
    with pytest.raises(InputError, match="predictor noise is drawn for 1 to 256 candidates, not 0"):
        stream.score_noise(0, 0, (), 0)


def test_levels():
    for a in (0.02, 0.3, 0.5, 0.85, 0.99):
        for sd in (0.0, 1.0, 2.4):
            assert mean_acceptance(level_for(a, sd), sd) == pytest.approx(a, abs=1e-9)
    grid = np.linspace(-12, 12, 200_001)
    weight = np.exp(-(grid**2) / 2)
    exact = (weight / (1 + np.exp(-(0.7 + 2.4 * grid)))).sum() / weight.sum()
    assert mean_acceptance(0.7, 2.4) == pytest.approx(exact, abs=2e-4)


def test_curve_is_its_own_inverse():
    q = np.linspace(0.0, 1.0, 101)
    assert np.allclose(curve_acceptance(curve_entropy(q)), q, atol=1e-12)
    assert np.all(np.diff(ENTROPY_CURVE[:, 0]) > 0)
    assert np.all(np.diff(ENTROPY_CURVE[:, 1]) < 0)


def test_least_entropy():
    assert least_entropy(np.array([1.0, 0.5, 0.25])) == pytest.approx([0.0, np.log(2), np.log(4)], abs=1e-9)
    assert least_entropy(np.array([0.4])) == pytest.approx([-(2 * 0.4 * np.log(0.4) + 0.2 * np.log(0.2))])


def test_candidates_are_a_distribution():
    for tail in TAILS:
        generator = Generator(Shape(0.6, tail=tail, candidates=len(TAILS[tail]) + 1))
        probs = generator.candidates(np.linspace(0.001, 0.999, 500))
        assert np.all(np.diff(probs, axis=1) <= 0)
        assert np.all(probs > 0)
        assert np.all(probs.sum(axis=1) <= 1 + 1e-12)
    assert Generator(Shape(0.6)).candidates(np.array([0.5]))[0, :3] == pytest.approx([0.5, 0.079, 0.035])


def test_chain_agrees_with_positions_across_blocks():
    stream = open_stream("synthetic:llama-3.1-8b:math", 3, acceptance=0.97)
    for pos in (0, 1, BLOCK - 3, BLOCK - 1, BLOCK, 2 * BLOCK - 20):
        hits = 0
        while hits < 300 and stream.position(1, pos + hits).hit:
            hits += 1
        for n in (-1, 0, 1, 5, 300):
            assert stream.accepted(1, pos, n) == max(min(hits, n), 0)
            assert stream.draftable(1, pos, n) == max(n, 0)


def test_depth_factor():
    flat = open_stream("synthetic:qwen3-8b:gsm8k", 3)
    falling = open_stream("synthetic:qwen3-8b:gsm8k", 3, depth_factor=0.8)
    for pos in range(64):
        assert falling.position(0, pos).rank == flat.position(0, pos).rank
        deep = falling.position(0, pos, 3)
        assert deep.confidence < flat.position(0, pos).confidence
        assert deep.draft_entropy > flat.position(0, pos).draft_entropy * 0.999
        assert deep.hit <= flat.position(0, pos).hit
        count = 0
        while count < 8 and falling.position(0, pos + count, count).hit:
            count += 1
        assert falling.accepted(0, pos, 8) == count
        node = falling.candidates(0, pos, [falling.position(0, pos).rank]) if falling.position(0, pos).rank else None
        assert node is None or node.probs[0] == falling.position(0, pos + 1, 1).probs[0]
    means = [np.mean([s.accepted(r, 0, 8) for r in range(400)]) for s in (falling, flat)]
    assert means[0] < means[1]


def test_tree_nodes():
    stream = open_stream("synthetic:qwen3-8b:gsm8k", 3, candidates=4)
    rank = stream.position(0, 10).rank
    on = stream.candidates(0, 10)
    assert (on.target_rank, on.on_path, on.label, len(on.probs)) == (rank, True, "synthetic", 4)
    miss = 1 if rank != 1 else 2
    off = stream.candidates(0, 10, (miss, 1))
    assert (off.target_rank, off.on_path, off.label) == (0, False, "synthetic_offpath")
    assert stream.synthetic_offpath == 1
    assert np.array_equal(stream.candidates(0, 10, (miss, 1)).probs, off.probs)
    assert stream.synthetic_offpath == 1
    assert stream.off_trace_nodes == 0


def test_bounds():
    stream = open_stream("synthetic:qwen3-8b:gsm8k", 3)
    with pytest.raises(StreamEndError, match="has no output position -1: they run from 0"):
        stream.position(0, -1)
    with pytest.raises(StreamEndError, match="has no request -1"):
        stream.position(-1, 0)
    assert stream.position(10**9, 10**9).rank >= 0


def test_cache_is_bounded_and_does_not_matter(monkeypatch):
    monkeypatch.setattr("archsim.streams.synthetic.MAX_BLOCKS", 2)
    small, large = (open_stream("synthetic:qwen3-8b:gsm8k", 3) for _ in range(2))
    for request in (0, 1, 2, 3, 0):
        assert small.accepted(request, 0, 8) == large.accepted(request, 0, 8)
        assert small.position(request, 200).draft_entropy == large.position(request, 200).draft_entropy
    assert len(small._blocks) == 2


def test_acceptance_moves_outcomes_one_way():
    """Under one seed a better draft hits wherever a worse one hits: the luck is the same."""
    worse, better = (open_stream("synthetic:qwen3-8b:gsm8k", 3, acceptance=a) for a in (0.5, 0.8))
    for pos in range(256):
        assert better.position(0, pos).hit >= worse.position(0, pos).hit


def test_draws_stay_what_they_are():
    """Pinned outcomes: a change here changes every simulated text."""
    stream = open_stream("synthetic:qwen3-8b:gsm8k", 1, acceptance=0.618, tail="recorded")
    assert [stream.position(0, pos).rank for pos in range(16)] == [0, 1, 1, 1, 1, 3, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1]
    assert [stream.accepted(request, 0, 8) for request in range(8)] == [0, 4, 1, 0, 0, 1, 1, 0]
    assert stream.position(0, 0).confidence == pytest.approx(0.41340664059, rel=1e-9)


@pytest.mark.bench
def test_fifty_prompts_of_128_tokens_cost_little():
    stream = open_stream("synthetic:llama-3.1-8b:mbpp", 1)
    begin = time.process_time()
    for request in range(50):
        for pos in range(128):
            stream.position(request, pos)
            stream.accepted(request, pos, 8)
    assert time.process_time() - begin < 0.3
