"""The generator gives back what it is told and what was measured on the recordings."""

import numpy as np
import pytest

from archsim.streams import open_stream
from archsim.streams.generator import TAILS, curve_acceptance

REQUESTS, POSITIONS = 400, 128


def sample(**context):
    stream = open_stream("synthetic:llama-3.1-8b:mbpp", 11, **{"tail": "recorded", **context})
    rows = [[stream.position(r, p) for p in range(POSITIONS)] for r in range(REQUESTS)]
    rank = np.array([[p.rank for p in row] for row in rows])
    probs = np.array([[p.probs for p in row] for row in rows])
    entropy = np.array([[p.draft_entropy for p in row] for row in rows])
    return rank, probs, entropy


@pytest.fixture(scope="module")
def half():
    return sample(acceptance=0.5)


def logit(p):
    return np.log(p) - np.log1p(-p)


@pytest.mark.parametrize("acceptance", [0.3, 0.7, 0.9])
def test_mean_acceptance_is_the_one_asked_for(acceptance):
    rank, _, _ = sample(acceptance=acceptance)
    assert (rank == 1).mean() == pytest.approx(acceptance, abs=0.02)


def test_ranks_follow_the_tail(half):
    rank, _, _ = half
    missed = rank[rank != 1]
    for r, share in enumerate(TAILS["recorded"], 2):
        assert (missed == r).mean() == pytest.approx(share, abs=0.008)
    assert (missed == 0).mean() == pytest.approx(1 - sum(TAILS["recorded"]), abs=0.015)


def test_sequoia_tail():
    rank, probs, _ = sample(acceptance=0.634, tail="sequoia", candidates=10)
    missed = rank[rank != 1]
    assert (missed == 2).mean() == pytest.approx(0.108 / 0.366, abs=0.015)
    assert probs.shape[-1] == 10


def reliability(rank, confidence):
    bins = np.digitize(confidence, np.linspace(0, 1, 11)[1:-1])
    return [(confidence[bins == b].mean(), (rank[bins == b] == 1).mean(), (bins == b).sum()) for b in range(10)]


def test_confidence_is_calibrated(half):
    rank, probs, _ = half
    for mean, hits, count in reliability(rank.ravel(), probs[..., 0].ravel()):
        # A request's hidden part shifts all its positions, so the effective sample is smaller than the count.
        assert hits == pytest.approx(mean, abs=0.01 + 3 * (mean * (1 - mean) / count) ** 0.5)


@pytest.mark.parametrize("shift", [0.4, -0.5])
def test_overconfidence_shifts_the_reliability_curve(half, shift):
    rank, probs, _ = sample(acceptance=0.5, overconfidence=shift)
    assert np.array_equal(rank, half[0])
    assert logit(probs[..., 0]) == pytest.approx(logit(half[1][..., 0]) + shift, abs=1e-6)
    middle = [(mean, hits) for mean, hits, _ in reliability(rank.ravel(), probs[..., 0].ravel()) if 0.25 < mean < 0.75]
    assert all((hits < mean) == (shift > 0) for mean, hits in middle)


def test_entropy_predicts_acceptance_as_recorded(half):
    rank, _, entropy = half
    edges = [0, 0.1, 0.3, 0.7, 1.2, 2, 3, 99]
    recorded = open_stream("recorded:exit_layers", 1).records
    true = np.digitize(recorded.draft_entropy.ravel(), edges)
    drawn = np.digitize(entropy.ravel(), edges)
    for b in range(1, 8):
        hits = (rank.ravel()[drawn == b] == 1).mean()
        assert hits == pytest.approx((recorded.rank == 1).ravel()[true == b].mean(), abs=0.06)
        assert hits == pytest.approx(curve_acceptance(entropy.ravel()[drawn == b]).mean(), abs=0.03)


def test_spread_between_and_within_requests_is_the_recorded_one(half):
    rank, probs, _ = half
    hits = (rank == 1).mean(axis=1)
    spread = logit(hits)
    noise = 1 / (POSITIONS * hits * (1 - hits))
    assert np.sqrt(spread.var() - noise.mean()) == pytest.approx(0.58, abs=0.08)
    confidence = logit(probs[..., 0])
    within = np.sqrt(confidence.var(axis=1, ddof=1).mean())
    assert within == pytest.approx(1.9, abs=0.05)
    between = np.sqrt(confidence.mean(axis=1).var() - within**2 / POSITIONS)
    assert between == pytest.approx(0.5, abs=0.05)


def test_recorded_spreads():
    """The figures above, from the recording of exits 10 and 15."""
    records = open_stream("recorded:exit_layers", 1).records
    parts = list(zip(records.start[:-1], records.start[1:]))
    for e, (outcome, seen, within) in enumerate([(0.59, 0.49, 1.87), (0.57, 0.52, 1.92)]):
        hit = records.rank[:, e] == 1
        rate = np.array([hit[a:b].mean() for a, b in parts])
        size = np.array([b - a for a, b in parts])
        spread = np.log((rate * size + 0.5) / ((1 - rate) * size + 0.5))
        assert np.sqrt(spread.var(ddof=1) - (1 / (size * rate * (1 - rate))).mean()) == pytest.approx(
            outcome, abs=0.006
        )
        belief = logit(np.clip(records.prob[:, e, 0], 0.002, 0.998))
        inside = np.sqrt(np.mean([belief[a:b].var(ddof=1) for a, b in parts]))
        assert inside == pytest.approx(within, abs=0.006)
        means = np.array([belief[a:b].mean() for a, b in parts])
        assert np.sqrt(means.var(ddof=1) - (inside**2 / size).mean()) == pytest.approx(seen, abs=0.01)


def test_positions_are_independent_given_their_request(half):
    _, probs, _ = half
    belief = logit(probs[..., 0])
    centred = belief - belief.mean(axis=1, keepdims=True)
    assert abs((centred[:, 1:] * centred[:, :-1]).mean() / centred.var()) < 0.02


@pytest.mark.parametrize(("layer", "acceptance"), [(10, 0.369), (15, 0.429), (20, 0.556), (25, 0.760)])
def test_chains_of_four_against_the_recordings(layer, acceptance):
    """With a recording's mean acceptance, the generator's chains come within 6 % of the recording's tokens per step."""
    recorded = {10: 1.557, 15: 1.696, 20: 2.055, 25: 2.947}[layer]
    stream = open_stream("synthetic:llama-3.1-8b:mbpp", 5, acceptance=acceptance)
    tokens = steps = 0
    for request in range(300):
        pos = 0
        while pos < 96:
            gained = stream.accepted(request, pos, 4) + 1
            tokens, steps, pos = tokens + gained, steps + 1, pos + gained
    assert tokens / steps == pytest.approx(recorded, rel=0.06)


def test_target_confidence_rises_with_the_drafts():
    stream = open_stream("synthetic:llama-3.1-8b:mbpp", 5, acceptance=0.5)
    positions = [stream.position(r, p) for r in range(50) for p in range(POSITIONS)]
    correlation = np.corrcoef([p.confidence for p in positions], [p.target_max for p in positions])[0, 1]
    assert 0.3 < correlation < 0.7
    assert all((p.target_entropy == 0) == (p.target_max == 1) for p in positions)
