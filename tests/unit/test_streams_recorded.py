"""Recorded streams answer the common interface from the file, up to its end and no further."""

import math

import numpy as np
import pytest

from archsim.config import InputError
from archsim.streams import StreamEndError, label, open_stream, recorded_names


@pytest.fixture(scope="module")
def exits():
    return open_stream("recorded:exit_layers:25", 7)


@pytest.fixture
def tree():
    return open_stream("recorded:spec_exit15_tree", 7)


def test_names_and_defaults():
    assert recorded_names() == [
        "exit_layers",
        "exit_layers_long",
        "jacobi_smollm2",
        "mdm_small",
        "ngram_lookup",
        "ngram_lookup_long",
        "spec_eagle_tree",
        "spec_exit15_deep",
        "spec_exit15_tree",
    ]
    assert open_stream("recorded:exit_layers", 1).name == "recorded:exit_layers:25"
    assert open_stream("recorded:mdm_small", 1).name == "recorded:mdm_small:thr0.9"


@pytest.mark.parametrize(
    ("name", "requests", "tokens"),
    [("exit_layers_long", 9, 1601), ("ngram_lookup_long", 9, 1601), ("spec_exit15_deep", 9, 1695)],
)
def test_long_recordings_are_served_with_their_own_prompts(name, requests, tokens):
    stream = open_stream(f"recorded:{name}", 1)
    assert (stream.model, stream.requests) == ("smollm2-135m", requests)
    assert sum(stream.length(request) for request in range(requests)) == tokens
    assert stream.prompt_tokens(0) == 205
    assert max(stream.length(request) for request in range(requests)) >= 256


@pytest.mark.parametrize("layer", [10, 15, 20, 25])
def test_exit_positions_are_the_file(layer, exits):
    stream = open_stream(f"recorded:exit_layers:{layer}", 1)
    records = stream.records
    e = records.layers.index(layer)
    for request in (0, 16, 23):
        for pos in (0, 1, stream.length(request) - 1):
            row = records.start[request] + pos
            position = stream.position(request, pos)
            assert np.array_equal(position.probs, records.prob[row, e])
            assert position.draft_entropy == records.draft_entropy[row, e]
            assert position.target_max == records.target_max[row]
            assert position.target_entropy == records.target_entropy[row]
            found = np.flatnonzero(records.candidate[row, e] == records.token[row])
            assert position.rank == (found[0] + 1 if len(found) else 0)
            assert position.hit == (position.rank == 1)
            assert position.confidence == position.probs[0]


def test_exit_lengths_and_prompts(exits):
    assert exits.requests == 24
    assert [exits.length(r) for r in (0, 16, 21)] == [96, 67, 75]
    assert exits.request_name(0) == "chatterbot/emotion/0"
    assert exits.prompt_tokens(0) == 12
    assert open_stream("recorded:exit_layers", 1, prompt_tokens=40).prompt_tokens(0) == 40


def test_exit_chain_agrees_with_positions(exits):
    for request in range(exits.requests):
        end = exits.length(request)
        for pos in range(0, end, 5):
            hits = 0
            while pos + hits < end and exits.position(request, pos + hits).hit:
                hits += 1
            for n in (0, 1, 4, 200):
                assert exits.accepted(request, pos, n) == min(hits, n)
                assert exits.draftable(request, pos, n) == min(n, end - pos)


def test_exit_end(exits):
    assert exits.draftable(0, 96, 8) == 0
    message = (
        "stream recorded:exit_layers:25 request 0 (chatterbot/emotion/0) has no output position 96: it has 0 to 95; "
        "draft no further than draftable()"
    )
    for ask in (exits.position, exits.candidates, lambda r, p: exits.accepted(r, p, 1)):
        with pytest.raises(StreamEndError) as error:
            ask(0, 96)
        assert str(error.value) == message
    with pytest.raises(StreamEndError, match="has no output position 97"):
        exits.draftable(0, 97, 1)
    with pytest.raises(StreamEndError) as error:
        exits.length(24)
    assert str(error.value) == (
        "stream recorded:exit_layers:25 has no request 24: it has 0 to 23; ask for fewer prompts"
    )


def test_exit_candidates_on_and_off_the_path():
    stream = open_stream("recorded:exit_layers:25", 7)
    opening = {r: [stream.position(r, pos).rank for pos in range(4)] for r in range(stream.requests)}
    request, ranks = next((r, ranks) for r, ranks in opening.items() if 0 not in ranks)
    on = stream.candidates(request, 0, ranks[:3])
    assert on.on_path
    assert (on.target_rank, on.label) == (ranks[3], "recorded")
    assert stream.synthetic_offpath == 0
    off = stream.candidates(request, 0, (ranks[0], ranks[1] + 1, 1))
    assert (off.on_path, off.target_rank, off.label, off.expandable) == (False, 0, "synthetic_offpath", True)
    assert np.all(np.diff(off.probs) <= 0)
    assert 0 < off.probs.sum() <= 1
    assert stream.synthetic_offpath == 1
    # The same node, seen from a later root and asked twice, is one node.
    again = stream.candidates(request, 1, (ranks[1] + 1, 1))
    assert np.array_equal(again.probs, off.probs)
    assert again.draft_entropy == off.draft_entropy
    assert stream.synthetic_offpath == 1
    past = stream.candidates(request, stream.length(request) - 1, (1, 1))
    assert (past.expandable, len(past.probs)) == (False, 0)
    assert stream.synthetic_offpath == 1


def test_off_path_nodes_differ_by_path_and_seed():
    stream = open_stream("recorded:exit_layers:25", 7)
    miss = 2 if stream.position(0, 0).rank != 2 else 3
    values = {stream.candidates(0, 0, (miss, *rest)).draft_entropy for rest in ((), (1,), (2,), (1, 1), (1, 2), (2, 1))}
    assert len(values) == 6
    other = open_stream("recorded:exit_layers:25", 8)
    assert other.candidates(0, 0, (miss,)).draft_entropy not in values


def test_paths_are_made_of_ranks(exits):
    rank = exits.position(0, 0).rank
    with pytest.raises(InputError) as error:
        exits.candidates(0, 0, (rank + 1, 0))
    assert str(error.value) == f"a path is made of ranks from 1 on, not 0: ({rank + 1}, 0)"


def test_tree_steps_are_the_file(tree):
    assert tree.requests == 22
    assert sum(tree.steps(r) for r in range(22)) == 526
    step = tree.tree_step(0, 0)
    assert step.position == 1
    assert step.accepted.tolist() == [0, 1, 6]
    assert step.parent.tolist()[:4] == [-1, 0, 0, 0]
    assert step.depth.max() == 4
    assert step.cumulative[1] == 0.9997
    with pytest.raises(StreamEndError) as error:
        tree.tree_step(0, tree.steps(0))
    assert (
        str(error.value)
        == f"stream recorded:spec_exit15_tree request 0 has no step {tree.steps(0)}: it has {tree.steps(0)}"
    )


def test_tree_walk_reaches_the_recorded_path(tree):
    """Expanding every on-path node along the target's ranks accepts what the recording accepted, in all 526 steps."""
    steps = 0
    for request in range(tree.requests):
        for number in range(tree.steps(request)):
            step = tree.tree_step(request, number)
            path = []
            while True:
                node = tree.candidates(request, step.position, path)
                assert node.on_path
                if not node.target_rank:
                    break
                path.append(node.target_rank)
            assert len(path) == len(step.accepted)
            steps += 1
        assert tree.length(request) == step.position + len(step.accepted) + 1
    assert steps == 526


def test_tree_leaves_are_counted_once(tree):
    step = tree.tree_step(0, 0)
    last = tree.candidates(0, 1, (1, 1, 1))
    assert (last.expandable, last.on_path, last.target_rank, last.label) == (True, True, 0, "recorded")
    end = tree.candidates(0, 1, (1, 1, 1, 1))
    assert (end.expandable, len(end.probs), math.isnan(end.draft_entropy)) == (False, 0, True)
    assert tree.off_trace_nodes == 1
    tree.candidates(0, 1, (1, 1, 1, 1))
    assert tree.off_trace_nodes == 1
    assert tree.synthetic_offpath == 0
    with pytest.raises(StreamEndError) as error:
        tree.candidates(0, 1, (1, 9))
    kids = int((step.parent == 0).sum())
    assert str(error.value) == (
        "stream recorded:spec_exit15_tree request 0 has no child 9 after (1,) at output position 1: the recorded node "
        f"has {kids}"
    )


def test_tree_chain(tree):
    for request in range(tree.requests):
        for pos in range(tree.length(request)):
            drafted, accepted = tree.draftable(request, pos, 8), tree.accepted(request, pos, 8)
            assert accepted <= drafted <= 5
            position = tree.position(request, pos)
            assert (accepted > 0) == (position.rank == 1)
            assert tree.accepted(request, pos, 1) == min(accepted, 1)
            assert (drafted > 0) == (len(position.probs) > 0)
    assert tree.draftable(0, 0, 8) == 0  # the first token comes from the prefill
    assert tree.draftable(0, tree.length(0), 8) == 0


def test_ngram_chain():
    stream = open_stream("recorded:ngram_lookup", 1)
    assert [stream.accepted(0, p, 8) for p in (0, 7, 8, 11, 12)] == [0, 4, 3, 0, 4]
    assert [stream.draftable(0, p, 8) for p in (0, 7, 8, 11, 12)] == [0, 4, 3, 0, 4]
    assert (stream.accepted(0, 7, 2), stream.draftable(0, 7, 2)) == (2, 2)
    assert np.isnan(stream.position(0, 7).probs).all()
    assert stream.position(0, 7).rank == 1
    with pytest.raises(InputError) as error:
        stream.candidates(0, 7)
    assert str(error.value) == (
        "stream recorded:ngram_lookup cannot answer candidates: it has no 'tree' data (it has: chain, records)"
    )


def test_jacobi_columns():
    stream = open_stream("recorded:jacobi_smollm2", 1)
    records = stream.records
    assert records.token.shape == records.confidence.shape == records.changed.shape == (179, 16)
    same = (np.diff(records.request) == 0) & (np.diff(records.block) == 0)
    differs = records.token[1:] != records.token[:-1]
    assert np.array_equal(records.changed[1:][same], differs[same])
    assert (stream.requests, stream.length(0), stream.prompt_tokens(0)) == (6, 32, 12)
    with pytest.raises(InputError, match="cannot answer position: it has no 'chain' data"):
        stream.position(0, 0)


@pytest.mark.parametrize(("mode", "steps", "requests"), [("thr0.9", 765, 8), ("thr0.7", 181, 2), ("one", 192, 2)])
def test_denoise_columns(mode, steps, requests):
    stream = open_stream(f"recorded:mdm_small:{mode}", 1)
    records = stream.records
    assert records.masked.shape == records.commit.shape == records.entropy.shape == (steps, 32)
    assert (stream.requests, stream.length(0), stream.prompt_tokens(0)) == (requests, 96, 32)
    assert not (records.commit & ~records.masked).any()
    assert records.commit.sum() == requests * 96
    assert stream.features == {"denoise", "records"}


def test_labels():
    stream = open_stream("recorded:exit_layers", 1, target="llama-3.1-8b")
    assert stream.kind == "recorded-proxy"
    assert label(stream, "llama-3.1-8b") == "recorded-proxy:smollm2-135m"
    assert open_stream("recorded:exit_layers", 1).kind == "recorded"
    assert open_stream("recorded:exit_layers", 1, target="smollm2-135m").kind == "recorded"
    assert label(stream, "smollm2-135m") == "recorded"
    assert label(open_stream("recorded:mdm_small", 1), "llada-8b") == "recorded-proxy:mdm-small"
    assert label(open_stream("synthetic:qwen3-8b:gsm8k", 1), "qwen3-8b") == "synthetic"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recorded:exit_layer", "no recording 'exit_layer'; did you mean 'exit_layers'?"),
        ("recorded:exit_layers:12", "stream recorded:exit_layers has no exit '12'; it has 10, 15, 20, 25"),
        ("recorded:ngram_lookup:a", "stream recorded:ngram_lookup has no variants, so 'a' is none of it"),
        ("recorded:", "cannot read stream 'recorded:'; write recorded:<name>[:<variant>]"),
        ("recorded:../x", "cannot read stream 'recorded:../x'; write recorded:<name>[:<variant>]"),
        ("recorded:ref_greedy", None),
        (
            "exit_layers",
            "cannot read stream 'exit_layers'; write recorded:<name>[:<variant>], "
            "synthetic:<target>[+<draft>]:<task>, or the path of a .npz or .jsonl recording",
        ),
        ("a\nb.npz", "cannot read stream 'a?b.npz'; a path has printable characters only"),
        ("gone.npz", "gone.npz: no such file; give the path of a recording or recorded:<name>"),
    ],
)
def test_bad_texts(text, message):
    with pytest.raises(InputError) as error:
        open_stream(text, 1)
    assert message is None or str(error.value) == message
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (
            {"acceptance": 0.7},
            "acceptance is for synthetic streams and cannot change the recorded 'recorded:exit_layers'",
        ),
        ({"promt_tokens": 3}, "unknown stream setting 'promt_tokens'; did you mean 'prompt_tokens'?"),
        ({"prompt_tokens": 0}, "prompt_tokens must be a whole number from 1 to 16777216, not '0'"),
        ({"prompt_tokens": 1.5}, "prompt_tokens must be a whole number from 1 to 16777216, not '1.5'"),
    ],
)
def test_bad_context(context, message):
    with pytest.raises(InputError) as error:
        open_stream("recorded:exit_layers", 1, **context)
    assert str(error.value) == message


def test_recordings_in_a_users_folder(tmp_path, monkeypatch):
    folder = tmp_path / "traces"
    folder.mkdir()
    line = '{"id": "a", "kind": "code", "pos": 0, "ngram": 0, "draft": [], "acc": 0}\n'
    (folder / "mine.jsonl").write_text(line)
    monkeypatch.setenv("ARCHSIM_PATH", str(tmp_path))
    stream = open_stream("recorded:mine", 1)
    assert (stream.name, stream.model, stream.length(0)) == ("recorded:mine", "mine", 1)


def test_columns_are_read_only(exits):
    with pytest.raises(ValueError, match="read-only"):
        exits.records.prob[0, 0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        exits.position(0, 0).probs[0] = 1.0
