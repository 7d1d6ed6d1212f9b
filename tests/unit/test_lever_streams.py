"""Exit scores and measured tails: what pruning and trees are fed with."""

from __future__ import annotations

import numpy as np
import pytest

from archsim.config import InputError
from archsim.streams import open_stream
from archsim.streams.generator import TAIL_SHARES, Shape, measured_tail


def test_generated_scores_know_the_target_by_the_gain_asked_for():
    stream = open_stream("synthetic:llama-3.1-8b:mbpp", 1, acceptance=0.5)
    lifted = []
    for pos in range(400):
        found = stream.candidates(0, pos)
        plain = stream.exit_scores(0, pos, (), 4, gain=0.0, noise=0.0)
        assert plain == pytest.approx(np.log(found.probs[:4]))
        told = stream.exit_scores(0, pos, (), 4, gain=2.0, noise=0.0) - plain
        if 0 < found.target_rank <= 4:
            assert told[found.target_rank - 1] == pytest.approx(2.0)
            lifted.append(pos)
        assert told.sum() == pytest.approx(2.0 if 0 < found.target_rank <= 4 else 0.0)
    assert len(lifted) > 100


def test_scores_off_the_path_have_no_gain():
    stream = open_stream("synthetic:llama-3.1-8b:mbpp", 1, acceptance=0.5)
    wrong = next(r for r in (1, 2) if r != stream.position(0, 3).rank)
    assert np.array_equal(
        stream.exit_scores(0, 3, (wrong,), 4, gain=5.0, noise=1.0),
        stream.exit_scores(0, 3, (wrong,), 4, gain=0.0, noise=1.0),
    )


def test_a_recorded_exit_scores_the_candidates_of_a_shallower_one():
    """The deeper exit ranks the target's token first more often than the draft does."""
    stream = open_stream("recorded:exit_layers:10", 0, target="llama-3.1-8b")
    draft = deeper = 0
    for pos in range(90):
        found = stream.candidates(0, pos)
        scores = stream.exit_scores(0, pos, (), 4, gain=9.0, noise=9.0)
        if found.target_rank and found.target_rank <= 4:
            draft += found.target_rank == 1
            deeper += int(np.argmax(scores)) + 1 == found.target_rank
    assert deeper > draft > 10


def test_the_deepest_recorded_exit_falls_back_to_generated_scores():
    stream = open_stream("recorded:exit_layers:25", 0, target="llama-3.1-8b")
    found = stream.candidates(0, 0)
    assert stream.exit_scores(0, 0, (), 4, gain=0.0, noise=0.0) == pytest.approx(np.log(found.probs[:4]))


def test_measured_tail_is_the_recorded_one_at_the_exits_and_between_them_between():
    assert measured_tail(0.369) == pytest.approx(TAIL_SHARES[0])
    assert measured_tail(0.9) == pytest.approx(TAIL_SHARES[-1])
    assert TAIL_SHARES[1][0] < measured_tail(0.5)[0] < TAIL_SHARES[2][0]
    assert Shape(0.556, tail="measured").shares == pytest.approx(TAIL_SHARES[2])
    with pytest.raises(InputError, match="measured"):
        Shape(0.5, tail="other")


def test_measured_tails_are_those_of_the_recording():
    """The constants, from the shipped file again."""
    stream = open_stream("recorded:exit_layers:20", 0, target="llama-3.1-8b")
    records = stream.records
    rank = records.rank[:, records.layers.index(20)]
    missed = (rank != 1).sum()
    shares = [float((rank == r).sum() / missed) for r in (2, 3, 4)]
    assert shares == pytest.approx(TAIL_SHARES[2][:3], abs=2e-3)


def test_eagle3_pairs_of_the_published_targets_take_the_measured_tail():
    stream = open_stream("synthetic:llama-3.1-8b:mbpp", 0)
    assert stream.shape.shares[0] == pytest.approx(measured_tail(stream.shape.acceptance)[0])
    other = open_stream("synthetic:opt-6.7b+opt-1.3b:mbpp", 0)
    assert other.shape.shares[0] == 0.158
