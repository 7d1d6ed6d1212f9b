"""State of a denoised request: windows, commits, drafts, stages, and what a pass leaves in the cache."""

from __future__ import annotations

import numpy as np
import pytest

from archsim.streams.denoise import DenoisingStream, Scores
from archsim.workload.denoise import DRAFT, MASKED, REPAIR, STABLE, VISIBLE, WRONG, Denoise, Rules


class Told(DenoisingStream):
    """Confidences by (step, position); everything else is `rest`."""

    def __init__(self, told: dict[tuple[int, int], float], rest: float = 0.1) -> None:
        super().__init__("told", 0, kind="synthetic", source="test", model="test", requests=1)
        self.told, self.rest = told, rest
        self.asked: list[dict] = []

    def prompt_tokens(self, request):
        return 4

    def length(self, request):
        return 64

    def score(self, request, *, step, block, block_step, first, masks, plain, stale):
        self.asked.append({"step": step, "first": first, "masks": masks, "plain": plain, "stale": stale})
        found = np.array([self.told.get((step, first + i), self.rest) for i in range(len(masks))])
        return Scores(found, found)


def test_threshold_commits_all_that_reach_it_and_one_where_none_does():
    state = Denoise(Rules(block=4, visible=0.9, stable=0.9), Told({(0, 1): 0.95, (0, 3): 0.9, (1, 2): 0.2}), 0, 8)
    assert state.advance(state.window(), stale=False).committed == 2
    assert state.state.tolist()[:4] == [MASKED, STABLE, MASKED, STABLE]
    assert state.advance(state.window(), stale=False).committed == 1
    assert state.state[2] == STABLE
    assert state.front == 0
    assert state.block_step == 2


def test_one_commits_the_most_confident_only():
    state = Denoise(Rules(block=4, commit="one"), Told({(0, 1): 0.95, (0, 3): 0.99}), 0, 8)
    assert state.advance(state.window(), stale=False).committed == 1
    assert state.state[3] == STABLE


def test_masks_to_the_left_count_drafts_by_their_weight():
    stream = Told({(0, 5): 0.8, (0, 0): 0.8})
    state = Denoise(
        Rules(block=4, visible=0.7, stable=0.9, staged=True, sliding=True, draft_weight=0.25), stream, 0, 12
    )
    state.advance(state.window(extra=2), stale=True)
    assert state.state[5] == DRAFT
    assert state.front == 1
    state.advance(state.window(extra=3), stale=True)
    asked = stream.asked[-1]
    assert asked["first"] == 1
    assert len(asked["masks"]) == 7
    assert asked["masks"].tolist() == [0, 1, 2, 3, 4, 4.25, 5.25]
    assert asked["plain"].tolist() == [0, 1, 2, 3, 4, 5, 6]


def test_a_draft_commits_only_in_its_own_block_and_on_a_fresh_confidence():
    told = {(0, i): 0.99 for i in range(5)}
    state = Denoise(Rules(block=4, visible=0.9, stable=0.9, sliding=True), Told(told), 0, 8)
    outcome = state.advance(state.window(extra=4), stale=True)
    assert outcome == (4, 1)
    assert state.front == 4
    assert state.block == 1
    assert state.block_step == 0
    assert state.state[4] == DRAFT
    # Judged afresh with a low confidence, and another position is better: the draft is masked again.
    state.stream.told[1, 6] = 0.95
    state.advance(state.window(), stale=True)
    assert state.state[4] == MASKED
    assert state.state[6] == STABLE


def test_window_slides_looks_ahead_and_ends_with_the_request():
    state = Denoise(Rules(block=4, visible=0.9, stable=0.9, sliding=True), Told({(0, 0): 0.95, (0, 1): 0.95}), 0, 10)
    state.advance(state.window(), stale=True)
    assert state.window()[:2] == (2, 6)
    assert state.window(extra=3)[:2] == (2, 9)
    assert state.window(extra=30)[:2] == (2, 10)
    block = Denoise(Rules(block=4), Told({(0, 0): 0.95}), 0, 10)
    block.advance(block.window(), stale=True)
    assert block.window()[:2] == (0, 4)


def test_rows_that_just_committed_are_carried_once():
    told = {(0, 0): 0.95, (0, 1): 0.95, (1, 2): 0.95}
    state = Denoise(Rules(block=4, visible=0.9, stable=0.9, sliding=True, carry=True), Told(told), 0, 12)
    state.advance(state.window(), stale=True)
    assert state.window() == (2, 6, 2)
    assert state.window().rows == 6
    state.advance(state.window(), stale=True)
    assert state.window() == (3, 7, 1)


def test_stages_visible_until_confident_or_evaluated_twice():
    told = {(0, 0): 0.75, (0, 1): 0.75, (0, 2): 0.95, (1, 1): 0.92}
    state = Denoise(Rules(block=4, visible=0.7, stable=0.9, staged=True), Told(told), 0, 4)
    state.advance(state.window(), stale=True)
    assert state.state.tolist() == [VISIBLE, VISIBLE, STABLE, MASKED]
    assert state.scored(state.window()) == 3
    state.advance(state.window(), stale=True)
    assert state.state[1] == STABLE
    assert state.state[0] == VISIBLE
    assert state.finished


def test_revision_takes_the_oldest_and_repairs():
    told = {(0, 0): 0.75, (0, 1): 0.8, (0, 2): 0.95}
    state = Denoise(Rules(block=3, visible=0.7, stable=0.9, staged=True, sliding=True), Told(told), 0, 9)
    state.advance(state.window(), stale=True)
    window = state.window()
    assert state.revisable(window, 1).tolist() == [0]
    assert state.revisable(window, 5).tolist() == [0, 1]
    before = state.wrong.copy()
    assert before[0] == pytest.approx(WRONG * 0.25)
    state.revise(np.array([0]))
    assert state.wrong[0] == pytest.approx(before[0] * (1 - REPAIR))
    assert state.state[0] == VISIBLE
    state.revise(np.array([0]))
    assert state.state[0] == STABLE


def test_refresh_renews_every_row():
    told = {(0, 0): 0.95, (0, 1): 0.95}
    state = Denoise(Rules(block=2, visible=0.9, stable=0.9, carry=True), Told(told), 0, 4)
    state.advance(state.window(), stale=False, whole=True)
    assert state.window().carried == 2
    state.advance(state.window()._replace(carried=0), stale=False, whole=True)
    assert state.window().carried == 0
