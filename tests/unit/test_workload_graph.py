"""Operator graphs: order, edges, options, and the refusal of impossible passes."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from archsim.device import DType, OpKind, Ops
from archsim.workload.graph import PHASES, head_graph, layer_graph, pass_graph, tail_graph
from archsim.workload.model import ModelSpec, derive_eagle3
from archsim.workload.ops import kv_copy_ops, ops_of

SPEC = ModelSpec(
    name="tiny",
    layers=3,
    hidden=64,
    heads=4,
    kv_heads=2,
    head_dim=32,
    ffn=96,
    vocab=100,
    max_position=128,
    activation="silu",
    gated=True,
    tied_embeddings=False,
    quant={"default": "Q4_0", "head": "Q8_0"},
)
BARE = {"gated": False, "activation": "relu", "norm": "layer", "position": "learned"}


def row(graph: nx.DiGraph, name: str, *size, **more) -> dict[str, int]:
    names, ops = ops_of(graph, *size, **more)
    return {column: int(getattr(ops, column)[names.index(name)]) for column in Ops._fields}


@pytest.mark.parametrize("phase", [phase for phase in PHASES if phase != "denoise"])
@pytest.mark.parametrize("fused", [False, True])
def test_node_order_is_an_execution_order(phase, fused):
    graph = pass_graph(derive_eagle3(SPEC), phase, fused=fused)
    place = {name: index for index, name in enumerate(graph)}
    assert all(place[a] < place[b] for a, b in graph.edges)
    assert nx.is_directed_acyclic_graph(graph)


def test_names_of_a_plain_layer():
    assert list(layer_graph(SPEC, "decode")) == [
        "attn.norm",
        "attn.q",
        "attn.k",
        "attn.v",
        "attn.rope",
        "attn.kv_write",
        "attn.attention",
        "attn.o",
        "attn.add",
        "ffn.norm",
        "ffn.gate",
        "ffn.up",
        "ffn.act",
        "ffn.down",
        "ffn.add",
    ]


def test_names_of_a_layer_with_everything():
    spec = SPEC.replace(qkv_bias=True, out_bias=True, ffn_bias=True, qk_norm=True, sub_norms=True)
    names = list(layer_graph(spec, "decode"))
    for name in ("attn.qkv_bias", "attn.qk_norm", "attn.sub_norm", "attn.o_bias", "ffn.up_bias", "ffn.sub_norm"):
        assert name in names
    assert names.index("attn.qkv_bias") < names.index("attn.qk_norm") < names.index("attn.rope")
    assert names.index("ffn.act") < names.index("ffn.sub_norm") < names.index("ffn.down") < names.index("ffn.down_bias")


def test_edges_carry_the_residual_and_the_cache():
    graph = pass_graph(SPEC, "decode")
    assert set(graph.predecessors("layer1.attn.add")) == {"layer1.attn.o", "layer0.ffn.add"}
    assert set(graph.predecessors("layer1.ffn.add")) == {"layer1.ffn.down", "layer1.attn.add"}
    assert set(graph.predecessors("layer0.attn.kv_write")) == {"layer0.attn.rope", "layer0.attn.v"}
    assert set(graph.predecessors("layer0.attn.attention")) == {"layer0.attn.rope", "layer0.attn.kv_write"}
    assert set(graph.predecessors("layer0.attn.norm")) == {"embed.token"}
    assert set(graph.predecessors("head.norm")) == {"layer2.ffn.add"}
    assert [node for node in graph if not list(graph.successors(node))] == ["head.sample"]


def test_parallel_block_reads_one_norm_and_adds_once():
    graph = pass_graph(SPEC.replace(parallel_block=True), "decode")
    assert "layer0.ffn.norm" not in graph
    assert set(graph.predecessors("layer1.ffn.add")) == {"layer1.attn.o", "layer1.ffn.down", "layer0.ffn.add"}
    assert set(graph.predecessors("layer1.ffn.up")) == {"layer1.attn.norm"}


def test_learned_positions_are_looked_up_and_added():
    graph = head_graph(SPEC.replace(**BARE), "decode")
    assert list(graph) == ["embed.token", "embed.position", "embed.add"]
    assert set(graph.predecessors("embed.add")) == {"embed.token", "embed.position"}
    assert "attn.rope" not in layer_graph(SPEC.replace(**BARE), "decode")


def test_attributes():
    graph = pass_graph(SPEC, "verify")
    data = graph.nodes["layer2.ffn.gate"]
    assert (data["kind"], data["tensor_class"], data["dtype"], data["layer"]) == (
        OpKind.MATMUL,
        "ffn_up",
        DType.Q4_0,
        2,
    )
    assert data["operator"].name == "layer2.ffn.gate"
    assert graph.nodes["head.projection"]["dtype"] is DType.Q8_0
    assert graph.nodes["head.projection"]["kind"] is OpKind.PROJECTION


def test_columns_of_a_matmul():
    got = row(layer_graph(SPEC, "prefill"), "ffn.down", 5, 7)
    assert got == {
        **dict.fromkeys(Ops._fields, 0),
        "kind": OpKind.MATMUL,
        "m": 5,
        "k": 96,
        "n": 64,
        "wdtype": DType.Q4_0,
        "adtype": DType.FP16,
        "kvdtype": DType.FP16,
        "weight_bytes": 96 * 64 * 18 // 32,
        "in_bytes": 5 * 96 * 2,
        "out_bytes": 5 * 64 * 2,
        "macs": 5 * 96 * 64,
        "parts": 1,
    }


def test_columns_of_attention_and_its_cache():
    graph = layer_graph(SPEC, "prefill")
    got = row(graph, "attn.attention", 5, 7)
    assert (got["m"], got["kv"], got["heads"], got["kv_heads"], got["head_dim"]) == (5, 7, 4, 2, 32)
    assert got["kv_bytes"] == (7 + 5) * 2 * 2 * 32 * 2
    assert got["macs"] == 2 * 4 * 32 * (8 + 9 + 10 + 11 + 12)
    written = row(graph, "attn.kv_write", 5, 7)
    assert written["kv_bytes"] == 5 * 2 * 2 * 32 * 2


def test_quantised_cache_bytes():
    got = row(layer_graph(SPEC.replace(kv_dtype="Q4_0"), "decode"), "attn.attention", 1, 9)
    assert got["kv_bytes"] == 10 * 2 * (2 * 32 // 32) * 18


def test_columns_of_vector_operators():
    graph = layer_graph(SPEC.replace(qk_norm=True), "verify")
    assert row(graph, "attn.norm", 3, 0)["weight_bytes"] == 4 * 64
    assert row(graph, "attn.qk_norm", 3, 0)["k"] == 128 + 64
    assert row(graph, "ffn.act", 3, 0)["in_bytes"] == 3 * 2 * 96 * 2
    assert row(graph, "attn.add", 3, 0)["in_bytes"] == 3 * 2 * 64 * 2
    assert row(graph, "ffn.act", 3, 0)["macs"] == 0


def test_embedding_touches_one_row_per_token():
    got = row(head_graph(SPEC, "prefill"), "embed.token", 5, 0)
    assert (got["kind"], got["m"], got["k"], got["weight_bytes"]) == (OpKind.EMBED, 5, 64, 5 * 64 // 32 * 18)


def test_projected_rows():
    for phase, expected in (("prefill", 1), ("verify", 4), ("draft", 4)):
        assert row(tail_graph(SPEC, phase), "head.projection", 4, 0)["m"] == expected
    got = row(tail_graph(SPEC, "verify"), "head.projection", 4, 0, projected=2)
    assert (got["m"], got["macs"], got["weight_bytes"]) == (2, 2 * 6400, 6400 // 32 * 34)
    assert got["out_bytes"] == 2 * 100 * 4
    assert row(tail_graph(SPEC, "verify"), "head.sample", 4, 0, projected=2)["in_bytes"] == 800


def test_drafting_head_has_fc_in_its_first_step_only():
    spec = derive_eagle3(SPEC)
    first, later = pass_graph(spec, "draft"), pass_graph(spec, "draft_next")
    assert set(first) - set(later) == {"fc"}
    assert row(first, "fc", 1, 0)["macs"] == 3 * 64 * 64
    assert row(first, "layer0.attn.q", 1, 0)["k"] == 128
    assert set(first.predecessors("layer0.attn.norm")) == {"fc"}
    assert set(first.predecessors("layer0.attn.norm_embed")) == {"embed.token"}
    assert set(first.predecessors("layer0.attn.q")) == {"layer0.attn.norm", "layer0.attn.norm_embed"}
    assert list(later.predecessors("layer0.attn.norm")) == []
    assert set(later.predecessors("layer0.attn.add")) == {"layer0.attn.o"}


def test_part_of_a_pass():
    graph = pass_graph(SPEC, "verify", first=1, last=2, embed=False, tail=False)
    assert {data["layer"] for _, data in graph.nodes(data=True)} == {1}
    assert graph.graph["output"] == "layer1.ffn.add"
    assert len(pass_graph(SPEC, "verify", first=0, last=0, embed=False)) == 3
    with pytest.raises(ValueError, match=r"layers 2\.\.5 are not within the model's 3 layers"):
        pass_graph(SPEC, "verify", first=2, last=5)


def test_graphs_are_shared_and_frozen():
    graph = layer_graph(SPEC, "decode")
    assert layer_graph(SPEC, "decode") is graph
    with pytest.raises(nx.NetworkXError):
        graph.add_node("mine")


@pytest.mark.parametrize(
    ("phase", "size", "more", "message"),
    [
        ("decode", (2, 5), {}, "phase decode runs one row, not 2"),
        ("verify", (0, 5), {}, "m >= 1"),
        ("verify", (2, -1), {}, "kv >= 0"),
        ("verify", (4, 5), {"leaves": 2}, "a tree with 2 leaves needs the depths of its 4 rows"),
        ("verify", (4, 5), {"depths": [1, 2, 3]}, "depths must hold 4 values"),
        ("verify", (2, 5), {"depths": [0, 1]}, "depths must hold 2 values >= 1"),
        ("verify", (2, 5), {"depths": [1, 2], "leaves": 3}, "a tree of 2 rows cannot have 3 leaves"),
        ("prefill", (2, 5), {"depths": [1, 2]}, "phase prefill has no token tree"),
        ("verify", (2, 5), {"projected": 3}, "projected rows must lie between 0 and the pass's 2 rows, not 3"),
        ("prefill", (10**12, 0), {}, "a column exceeds 63 bits"),
    ],
)
def test_impossible_passes(phase, size, more, message):
    with pytest.raises(ValueError, match=message):
        ops_of(layer_graph(SPEC, phase), *size, **more)


def test_phases_a_model_cannot_run():
    with pytest.raises(ValueError, match="unknown phase 'train'; known: prefill, decode"):
        layer_graph(SPEC, "train")
    with pytest.raises(ValueError, match="model 'tiny' is causal: it cannot run the phase denoise"):
        layer_graph(SPEC, "denoise")
    with pytest.raises(ValueError, match="model 'tiny' is bidirectional: it runs prefill and denoise, not verify"):
        pass_graph(SPEC.replace(causal=False), "verify")


def test_columns_are_contiguous_int64():
    _, ops = ops_of(pass_graph(SPEC, "verify"), 4, 100)
    for column in ops:
        assert column.dtype == np.int64
        assert column.flags["C_CONTIGUOUS"]


def test_kv_copy():
    ops = kv_copy_ops(SPEC, 5)
    assert ops.kind.tolist() == [OpKind.COPY]
    assert ops.in_bytes.tolist() == ops.out_bytes.tolist() == [5 * SPEC.kv_token_bytes]
