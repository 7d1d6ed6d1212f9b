"""Work and bytes of a pass against closed forms, for random models, sizes and trees."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from archsim.device import OpKind
from archsim.workload.graph import pass_graph
from archsim.workload.model import ModelSpec, derive_eagle3
from archsim.workload.ops import ops_of

SETTINGS = settings(max_examples=40, deadline=None)


@st.composite
def models(draw, causal=True):
    kv_heads = draw(st.integers(1, 4))
    tied = draw(st.booleans())
    flags = {
        name: draw(st.booleans()) for name in ("gated", "qkv_bias", "out_bias", "ffn_bias", "qk_norm", "sub_norms")
    }
    types = st.sampled_from(["Q4_0", "Q8_0", "FP16", "INT8", "Q4_1"])
    head = draw(types)
    return ModelSpec(
        name="any",
        layers=draw(st.integers(1, 4)),
        hidden=32 * draw(st.integers(1, 8)),
        heads=kv_heads * draw(st.integers(1, 4)),
        kv_heads=kv_heads,
        head_dim=32 * draw(st.integers(1, 4)),
        ffn=32 * draw(st.integers(1, 12)),
        vocab=draw(st.integers(2, 5000)),
        max_position=256,
        activation="silu",
        tied_embeddings=tied,
        norm=draw(st.sampled_from(["rms", "layer", "layer_no_bias"])),
        position=draw(st.sampled_from(["rope", "learned"])),
        parallel_block=draw(st.booleans()),
        causal=causal,
        quant={
            "default": draw(types),
            "ffn_down": draw(types),
            "head": head,
            **({} if tied else {"embed": draw(types)}),
        },
        kv_dtype=draw(st.sampled_from(["FP16", "INT8", "Q4_0"])),
        **flags,
    )


def tree(data, m):
    """Depths of a random token tree with the root first."""
    depths = [1]
    for row in range(1, m):
        depths.append(depths[data.draw(st.integers(0, row - 1))] + 1)
    return depths


def total(graph, column, *size, kinds=None, **more):
    _, ops = ops_of(graph, *size, **more)
    values = getattr(ops, column)
    return int(values.sum() if kinds is None else values[np.isin(ops.kind, kinds)].sum())


@SETTINGS
@given(models(), st.integers(1, 200), st.integers(0, 5000), st.booleans())
def test_prefill_is_the_causal_triangle(spec, m, kv, fused):
    graph = pass_graph(spec, "prefill", fused=fused)
    pairs = sum(kv + i for i in range(1, m + 1))
    attention = total(graph, "macs", m, kv, kinds=[OpKind.ATTENTION])
    assert attention == spec.layers * 2 * spec.heads * spec.head_dim * pairs
    assert total(graph, "macs", m, kv, kinds=[OpKind.MATMUL]) == m * spec.layers_parameters
    assert total(graph, "macs", m, kv, kinds=[OpKind.PROJECTION]) == spec.head_parameters
    assert total(graph, "macs", m, kv) == attention + m * spec.layers_parameters + spec.head_parameters


@SETTINGS
@given(models(), st.integers(1, 40), st.integers(0, 2000))
def test_a_verified_chain_is_decoding_summed(spec, n, kv):
    verify, decode = pass_graph(spec, "verify"), pass_graph(spec, "decode")
    steps = [total(decode, "macs", 1, kv + i) for i in range(n)]
    assert total(verify, "macs", n, kv) == sum(steps)
    assert total(verify, "macs", n, kv, depths=list(range(1, n + 1))) == sum(steps)
    chain = total(verify, "kv_bytes", n, kv, kinds=[OpKind.ATTENTION])
    assert chain == total(decode, "kv_bytes", 1, kv + n - 1, kinds=[OpKind.ATTENTION])  # the cache is read once


@SETTINGS
@given(models(), st.integers(1, 24), st.integers(0, 2000), st.data())
def test_tree_attention_counts_the_mask(spec, m, kv, data):
    depths = tree(data, m)
    graph = pass_graph(spec, "verify")
    width = spec.layers * 2 * spec.heads * spec.head_dim
    pairs = sum(kv + depth for depth in depths)
    got = total(graph, "macs", m, kv, kinds=[OpKind.ATTENTION], depths=depths)
    assert got == width * pairs
    assert got <= total(graph, "macs", m, kv, kinds=[OpKind.ATTENTION])  # a chain is the deepest tree


@SETTINGS
@given(models(causal=False), st.integers(1, 64), st.integers(0, 2000))
def test_denoising_is_a_full_window(spec, m, kv):
    width = spec.layers * 2 * spec.heads * spec.head_dim
    graph = pass_graph(spec, "denoise")
    assert total(graph, "macs", m, kv, kinds=[OpKind.ATTENTION]) == width * m * (kv + m)
    full = pass_graph(spec, "prefill")
    assert total(full, "macs", m + kv, 0, kinds=[OpKind.ATTENTION]) == width * (m + kv) ** 2


@SETTINGS
@given(models(), st.sampled_from(["prefill", "verify", "draft"]), st.integers(1, 64), st.booleans())
def test_weights_are_touched_once(spec, phase, m, fused):
    graph = pass_graph(spec, phase, fused=fused)
    assert total(graph, "weight_bytes", m, 9, kinds=[OpKind.MATMUL]) == spec.layers_bytes
    assert total(graph, "weight_bytes", m, 9, kinds=[OpKind.PROJECTION]) == spec.head_bytes
    rest = total(graph, "weight_bytes", m, 9, kinds=[OpKind.NORM, OpKind.ELEMENTWISE])
    assert rest == spec.weight_bytes["norm"] + spec.weight_bytes["bias"]


@SETTINGS
@given(models(), st.integers(1, 64), st.integers(0, 999))
def test_cache_bytes(spec, m, kv):
    graph = pass_graph(spec, "verify")
    assert total(graph, "kv_bytes", m, kv, kinds=[OpKind.KV_WRITE]) == m * spec.kv_token_bytes
    assert total(graph, "kv_bytes", m, kv, kinds=[OpKind.ATTENTION]) == (kv + m) * spec.kv_token_bytes


@SETTINGS
@given(models(), st.integers(1, 32), st.integers(0, 999))
def test_drafting_head_work(target, m, kv):
    head = derive_eagle3(target)
    h, f, q, kvw = head.hidden, head.ffn, head.q_width, head.kv_width
    layer = 2 * h * (q + 2 * kvw) + q * h + 3 * h * f
    matmul = [OpKind.MATMUL]
    assert total(pass_graph(head, "draft"), "macs", m, kv, kinds=matmul) == m * (3 * h * h + layer)
    assert total(pass_graph(head, "draft_next"), "macs", m, kv, kinds=matmul) == m * layer


@SETTINGS
@given(models(), st.integers(1, 64), st.integers(0, 4000), st.integers(1, 4000))
def test_only_attention_depends_on_the_cached_length(spec, m, kv, more):
    graph = pass_graph(spec, "verify")
    names, a = ops_of(graph, m, kv)
    _, b = ops_of(graph, m, kv + more)
    for column, other in zip(a, b, strict=True):
        changed = {names[i] for i in np.flatnonzero(column != other)}
        assert all(name.endswith("attn.attention") for name in changed)


@SETTINGS
@given(models(), st.integers(1, 64))
def test_fusing_changes_no_total(spec, m):
    plain, other = pass_graph(spec, "prefill"), pass_graph(spec, "prefill", fused=True)
    for column in ("macs", "weight_bytes", "out_bytes", "kv_bytes"):
        assert total(plain, column, m, 5) == total(other, column, m, 5)
    separate, fused = (sum(d["kind"] == OpKind.MATMUL for _, d in g.nodes(data=True)) for g in (plain, other))
    assert separate == spec.layers * (7 if spec.gated else 6)
    assert fused == spec.layers * 4
