"""The denoising process against the published tokens per step, and recordings through the same interface."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from archsim.config import InputError
from archsim.streams import label, open_stream
from archsim.streams.denoise import denoise_table, denoising
from archsim.workload.denoise import Denoise, Rules


@functools.cache
def tokens_per_step(stream: str, threshold: float, *, cached: bool, prompts: int, tokens: int = 256) -> float:
    opened = open_stream(stream, 7, tokens=tokens)
    steps = 0
    for request in range(prompts):
        state = Denoise(Rules(visible=threshold, stable=threshold), opened, request, tokens)
        while not state.finished:
            state.advance(state.window(), stale=cached and state.block_step > 0)
        steps += state.step
    return prompts * tokens / steps


CURVE = denoise_table().curve


@pytest.mark.parametrize(
    ("preset", "threshold", "published"),
    [("even", *point) for point in sorted(CURVE["tokens_per_step"].items())]
    + [("steep", threshold, CURVE["tokens_per_step"][threshold]) for threshold in (0.5, 0.9)],
)
def test_curve_of_tokens_per_step(preset, threshold, published):
    found = tokens_per_step(f"synthetic:llada-8b:gsm8k:{preset}", threshold, cached=False, prompts=100)
    # The spread of prompts (0.8 in the logit) alone moves the mean of 100 by 4 % (one sigma).
    assert found == pytest.approx(published, rel=0.10)


def test_a_prefix_cache_costs_tokens_per_step():
    found = tokens_per_step("synthetic:llada-8b:gsm8k", 0.9, cached=True, prompts=100)
    assert found == pytest.approx(CURVE["cached_at_0.9"], rel=0.10)
    assert found < tokens_per_step("synthetic:llada-8b:gsm8k", 0.9, cached=False, prompts=100)


@pytest.mark.parametrize(
    ("stream", "published"),
    [
        ("synthetic:llada-8b:gsm8k:level=5.68", 2.77),
        ("synthetic:llada-8b:humaneval", 2.56),
        ("synthetic:llada-8b:mbpp", 2.13),
        ("synthetic:llada-8b:math", 1.97),
        ("synthetic:dream-7b:gsm8k", 1.44),
        ("synthetic:dream-7b:math", 1.78),
        ("synthetic:dream-7b:mbpp", 1.20),
        ("synthetic:dream-7b:humaneval", 1.33),
    ],
)
def test_levels_by_model_and_data_set(stream, published):
    assert tokens_per_step(stream, 0.9, cached=False, prompts=40) == pytest.approx(published, rel=0.12)


def test_the_rejected_process_commits_half_a_block_first():
    first = {}
    for preset in ("even", "steep"):
        stream = open_stream(f"synthetic:llada-8b:gsm8k:{preset}", 3, tokens=32)
        rules = Rules(visible=0.7, stable=0.7)
        first[preset] = np.mean(
            [
                state.advance(state.window(), stale=False).committed
                for state in (Denoise(rules, stream, request, 32) for request in range(200))
            ]
        )
    assert first["steep"] > 2 * first["even"]


def test_draws_belong_to_positions_and_steps_not_to_the_order_of_asking():
    one, other = (open_stream("synthetic:llada-8b:gsm8k", 5, tokens=64) for _ in range(2))
    zeros = np.zeros(64)

    def ask(stream, request, step, first, count):
        return stream.score(
            request, step=step, block=0, block_step=0, first=first, masks=zeros[:count], plain=zeros[:count], stale=True
        ).confidence

    whole = ask(one, 2, 3, 0, 64)
    ask(other, 9, 0, 0, 32)
    assert np.array_equal(ask(other, 2, 3, 20, 30), whole[20:50])
    assert not np.array_equal(ask(other, 2, 4, 0, 64), whole)


@pytest.mark.parametrize(("name", "width"), [("mdm_small", 32), ("mdm_small:thr0.7", 32), ("jacobi_smollm2", 16)])
def test_recordings_replay_their_own_commits(name, width):
    stream = denoising(open_stream(f"recorded:{name}", 0))
    assert stream.width == width
    for request in range(2):
        state = Denoise(Rules(block=width), stream, request, stream.length(request))
        committed = 0
        while not state.finished:
            committed += state.advance(state.window(), stale=True).committed
        assert committed == stream.length(request)


def test_recordings_have_nothing_ahead_of_their_block():
    stream = denoising(open_stream("recorded:mdm_small", 0))
    masks = np.zeros(40)
    scores = stream.score(0, step=0, block=0, block_step=0, first=8, masks=masks, plain=masks, stale=True)
    assert not np.isnan(scores.confidence[:24]).any()
    assert np.isnan(scores.confidence[24:]).all()


def test_another_models_confidences_are_a_proxy():
    stream = open_stream("synthetic:llada-8b:gsm8k", 0)
    assert label(stream, "llada-8b") == "synthetic"
    assert label(stream, "dream-7b") == "synthetic-proxy:llada-8b"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("synthetic:llada-8b:gsm8k:stepe", "unknown denoising setting 'stepe'"),
        ("synthetic:llada-8b:gsm8k:level=high", "denoising level 'high' must be a number"),
        ("synthetic:dream-7b:boolq", "no denoising level for dream-7b on boolq"),
        ("synthetic:llada-8b:gsm9k", "unknown task 'gsm9k'; did you mean 'gsm8k'?"),
    ],
)
def test_what_cannot_be_opened(text, words):
    with pytest.raises(InputError, match="^" + words.replace("?", r"\?")):
        open_stream(text, 0)
