"""The recorder: trees, look-ups, prompts, resumption and manifests on small networks; the real model where torch is."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from archsim.config import InputError
from archsim.recorder.lookups import look_up, record_lookups
from archsim.recorder.network import Pass, Tree
from archsim.recorder.session import PARTS, Plan, _Parts, check, lines, npz_bytes
from archsim.recorder.session import record as record_streams
from archsim.recorder.trees import ModelDraft, Shape, grow, record_trees
from archsim.streams import open_stream

STOP = 0


class Small:
    """A network whose next token depends on the whole visible path, by a table; it checks what it is shown."""

    name, layers, vocabulary, stops, provenance, licence = "small", 1, 12, frozenset({STOP}), "made up", "none"

    def __init__(self, seed: int, noise: float = 0.0) -> None:
        self.seed, self.noise = seed, noise
        self.reset()

    def reset(self) -> None:
        self.cache: list[int] = []
        self.tree = Tree()

    def crop(self, length: int) -> None:
        self.cache = self.cache[:length]
        self.tree.crop(length)

    def settle(self) -> None:
        self.tree.settle(len(self.cache))

    def extend(self, tokens, parents=None, tap=(), until=None) -> Pass:
        self.cache += tokens
        position = self.tree.grow(len(tokens), parents)
        seen = self.tree.visible(len(tokens))
        rows = []
        for at, row in zip(position, seen):
            text = [self.cache[i] for i in np.flatnonzero(row)]
            assert len(text) == at + 1
            rows.append(self.logits(text))
        return Pass(np.array(rows, dtype=np.float32), {})

    def logits(self, text: list[int]) -> np.ndarray:
        draw = np.random.default_rng([7, *text[-4:], len(text)])
        base = draw.normal(size=self.vocabulary) * 3
        base[STOP] -= 6
        if self.noise:
            base = (
                base
                + np.random.default_rng([self.seed, *text[-4:], len(text)]).normal(size=self.vocabulary) * self.noise
            )
        return base

    def greedy(self, prompt: list[int], tokens: int) -> list[int]:
        text = list(prompt)
        while len(text) < len(prompt) + tokens:
            text.append(int(np.argmax(self.logits(text).astype(np.float32))))
            if text[-1] in self.stops:
                break
        return text[len(prompt) :]


@pytest.mark.parametrize(("noise", "seed"), [(0.0, 1), (1.5, 2), (6.0, 3)])
@pytest.mark.parametrize("shape", [Shape(1, 1, 1, 1), Shape(6, 2, 3, 4), Shape(40, 4, 5, 9)])
def test_trees_are_lossless_and_pass_the_reader(tmp_path, noise, seed, shape):
    prompt, tokens = [3, 1, 4, 1, 5], 40
    target = Small(0)
    records = list(record_trees(target, ModelDraft(Small(seed, noise)), prompt, tokens, shape, "p/1", "code"))
    text = [records[0]["root"]]
    for record in records:
        assert record["root"] == text[-1]
        assert len(record["tok"]) <= shape.nodes
        assert max(record["dep"]) <= shape.depth
        text += [record["tok"][i] for i in record["acc"]] + [record["bonus"]]
    expected = Small(0).greedy(prompt, tokens + 1)
    assert text[: len(expected)] == expected[: len(text)]
    assert len(text) >= min(tokens, len(expected))
    (tmp_path / "t.jsonl").write_bytes(lines(records))
    stream = open_stream(str(tmp_path / "t.jsonl"), 0, prompt_tokens=5)
    assert stream.steps(0) == len(records)
    if noise == 0.0:  # the draft is the target: every step takes a path down to a leaf, or up to the text's end
        for record in records[:-1]:
            assert (record["acc"][-1] if record["acc"] else -1) not in record["par"]


def test_the_better_draft_gains_more_tokens_a_step():
    gained = []
    for noise in (0.5, 2.0, 8.0):
        made = list(record_trees(Small(0), ModelDraft(Small(5, noise)), [2, 2], 60, Shape(16, 4, 4, 6), "p", "code"))
        gained.append(sum(len(r["acc"]) + 1 for r in made) / len(made))
    assert gained[0] > gained[1] > gained[2] >= 1


def test_a_kept_tree_is_the_best_by_path_probability():
    draft = ModelDraft(Small(4, 1.0))
    draft.begin([1, 2, 3])
    everything = grow(draft, 5, Shape(10**6, 4, 4, 5))
    kept = grow(draft, 5, Shape(12, 4, 4, 5))
    assert len(kept.token) == 13
    assert sorted(kept.path[1:], reverse=True) == pytest.approx(sorted(everything.path[1:], reverse=True)[:12])


def test_a_tree_token_sees_its_ancestors_only():
    tree = Tree()
    tree.settle(3)
    assert tree.grow(1, [-1]) == [3]
    assert tree.grow(2, [0, 0]) == [4, 4]
    assert tree.grow(1, [2]) == [5]
    assert tree.visible(1).tolist() == [[True, True, True, True, False, True, True]]
    with pytest.raises(ValueError, match="parent 9"):
        tree.grow(1, [9])


def test_look_ups_take_the_longest_latest_match():
    assert look_up([1, 2, 3, 9, 1, 2, 3]) == (3, [9, 1, 2, 3])
    assert look_up([5, 1, 2, 7, 1, 2, 8, 1, 2]) == (2, [8, 1, 2])
    assert look_up([1, 2, 3]) == (0, [])


def test_look_ups_rebuild_the_text_and_pass_the_reader(tmp_path):
    output = [7, 8, 9, 7, 8, 9, 7, 8, 9, 4, 7, 8]
    records = list(record_lookups([7, 8], output, "p/1", "math"))
    assert sum(r["acc"] + 1 for r in records) == len(output)
    assert any(r["acc"] for r in records)
    (tmp_path / "n.jsonl").write_bytes(lines(records))
    assert open_stream(str(tmp_path / "n.jsonl"), 0, prompt_tokens=2).length(0) == len(output)


def test_finished_prompts_are_kept_and_another_plan_is_refused(tmp_path):
    calls = []
    parts = _Parts(tmp_path, Plan("smollm2"))
    for _ in range(2):
        assert parts.keep("greedy-0", lambda: calls.append(1) or [1, 2]) == [1, 2]
    assert _Parts(tmp_path, Plan("smollm2")).keep("greedy-0", list) == [1, 2]
    assert calls == [1]
    with pytest.raises(InputError, match="unfinished recording of another plan"):
        _Parts(tmp_path, Plan("smollm2", tokens=9))
    (tmp_path / PARTS / "greedy-0.json").write_text("[1, ")
    assert parts.keep("greedy-0", lambda: [3]) == [3]
    parts.remove()
    assert not (tmp_path / PARTS).exists()


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan("smollm2", what=("trees", "dreams")), "--what 'dreams' is none of exits, trees, lookups"),
        (Plan("smollm2", what=()), "--what is empty"),
        (Plan("smollm2", tokens=1), "--tokens 1 is not within 2 to 4096"),
        (Plan("smollm2", depth=65), "--depth 65 is not within 1 to 64"),
        (Plan("smollm2", precision="fp8"), "--precision 'fp8' is not bf16 or fp32"),
        (Plan("smollm2", draft="exit:x"), "--draft 'exit:x': write exit:<layer>, or a model"),
        (Plan("smollm2", prompts="none.jsonl"), "none.jsonl: "),
        (Plan("smollm2", train="a", adapters="b"), "--train makes new adapters and --adapters gives them"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(plan, message):
    with pytest.raises(InputError, match=message.replace("'", ".").replace("(", "."[:1])):
        check(plan)


def test_a_recording_that_is_refused_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # as where it is not installed
    with pytest.raises(InputError, match="needs torch"):
        record_streams(Plan("smollm2"), tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())


def _folder(tmp_path, **changed):
    records = list(record_lookups([7, 8], [7, 8, 9, 7, 8, 9, 4], "p/1", "math"))
    content = lines(records)
    (tmp_path / "lookups.jsonl").write_bytes(content)
    prompt = {"split": "test", "kind": "math", "id": "p/1", "temp": 0, "prompt": [7, 8, 1], "out": [1]}
    (tmp_path / "mine.jsonl").write_bytes(lines([prompt]))
    import hashlib

    facts = {
        "sha256": hashlib.sha256(content).hexdigest(),
        "model": "toy",
        "source": "measured: here",
        "prompts": "mine.jsonl",
    }
    document = {"files": {"lookups.jsonl": facts | changed}}
    (tmp_path / "manifest.json").write_text(json.dumps(document))
    return str(tmp_path / "lookups.jsonl")


def test_a_manifest_beside_a_recording_says_whose_it_is(tmp_path):
    stream = open_stream(_folder(tmp_path), 0)
    assert (stream.model, stream.source, stream.prompt_tokens(0)) == ("toy", "measured: here", 3)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sha256": "0" * 64}, "checksum is not the one in manifest.json"),
        ({"prompts": "../x.jsonl"}, "a file beside it"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(tmp_path, changed, message):
    with pytest.raises(InputError, match=message):
        open_stream(_folder(tmp_path, **changed), 0)


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"files": 3}', '{"files": {"lookups.jsonl": {}}}', '{"files": {"lookups.jsonl": 1}}']
)
def test_a_manifest_of_another_tool_is_let_be(tmp_path, text):
    file = _folder(tmp_path)
    (tmp_path / "manifest.json").write_text(text)
    assert open_stream(file, 0, prompt_tokens=2).model == "lookups"


def test_archives_of_equal_arrays_are_equal_bytes():
    arrays = {"a": np.arange(5), "ids": np.array(["x", "yy"])}
    assert npz_bytes(arrays) == npz_bytes(arrays)
