"""Answers do not depend on the order, the schedule or the object that asks."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from archsim.streams import open_stream

STREAMS = ("synthetic:llama-3.1-8b:mbpp", "recorded:exit_layers:20")
QUESTION = st.tuples(
    st.sampled_from(("position", "accepted", "candidates", "noise")),
    st.integers(0, 5),
    st.integers(0, 80),
    st.lists(st.integers(1, 4), max_size=5),
)


def answer(stream, question):
    what, request, pos, path = question
    if what == "position":
        p = stream.position(request, pos)
        return (p.rank, p.probs.tobytes(), p.draft_entropy, p.target_max, p.target_entropy)
    if what == "accepted":
        return stream.accepted(request, pos, 1 + len(path))
    if what == "candidates":
        c = stream.candidates(request, pos, path)
        return (c.probs.tobytes(), c.target_rank, np.float64(c.draft_entropy).tobytes(), c.on_path, c.label)
    return stream.score_noise(request, pos, path, 4).tobytes()


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(STREAMS),
    st.integers(0, 2**64 - 1),
    st.lists(QUESTION, min_size=1, max_size=12),
    st.randoms(use_true_random=False),
)
def test_call_order_does_not_matter(name, seed, questions, random):
    first = open_stream(name, seed)
    forward = {repr(q): answer(first, q) for q in questions}
    shuffled = list(questions)
    random.shuffle(shuffled)
    second = open_stream(name, seed)
    assert {repr(q): answer(second, q) for q in shuffled} == forward
    assert {repr(q): answer(first, q) for q in shuffled} == forward
    assert second.synthetic_offpath == first.synthetic_offpath


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(STREAMS), st.integers(0, 1000), st.integers(0, 5), st.integers(0, 60), st.integers(1, 12))
def test_two_chain_lengths_meet_the_same_text(name, seed, request_, pos, n):
    """However a chain is cut into drafts, the same positions are hits."""
    stream = open_stream(name, seed)
    whole = stream.accepted(request_, pos, n)
    parts, at = 0, pos
    while parts < n:
        step = stream.accepted(request_, at, min(2, n - parts))
        parts += step
        at += step
        if step < min(2, n - parts + step):
            break
    assert whole == min(parts, n)
    assert whole <= stream.draftable(request_, pos, n) <= n


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(STREAMS),
    st.integers(0, 1000),
    st.integers(0, 5),
    st.integers(0, 60),
    st.lists(st.integers(1, 4), max_size=6),
)
def test_a_node_is_on_the_path_when_its_ranks_are_the_targets(name, seed, request_, pos, path):
    stream = open_stream(name, seed)
    node = stream.candidates(request_, pos, path)
    ranks = [stream.position(request_, pos + d).rank for d in range(len(path))]
    assert node.on_path == (ranks == path)
    if node.on_path:
        assert node.target_rank == stream.position(request_, pos + len(path)).rank
    else:
        assert node.target_rank == 0
    assert np.all(np.diff(node.probs) <= 0)
    assert 0 < node.probs.sum() <= 1 + 2e-3
    assert node.draft_entropy >= 0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 21), st.integers(0, 54), st.lists(st.integers(1, 3), max_size=5))
def test_trees_only_shrink(request_, pos, path):
    """A path that exists in a recorded tree keeps existing when it is cut, and its leaves are never invented."""
    stream = open_stream("recorded:spec_exit15_tree", 1)
    walked = []
    for rank in path:
        node = stream.candidates(request_, pos, walked)
        if rank > len(node.probs):
            break
        walked.append(rank)
    for cut in range(len(walked)):
        assert stream.candidates(request_, pos, walked[:cut]).expandable
    assert stream.synthetic_offpath == 0
