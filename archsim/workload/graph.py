"""Operator graphs of a forward pass, and the columns a device lowers.

A graph is built once per (model, phase) and frozen; its nodes are operators whose columns are linear in the
size of the pass (see :mod:`archsim.workload.ops`). Only attention columns depend on the cached length.

Phases
------
prefill      m rows, causal mask (full for a bidirectional model)
decode       one row
verify       m rows of a token tree: every node sees the cached rows and its ancestors
draft        as verify; a drafting head first maps the target's hidden states through ``fc``
draft_next   as draft, but a drafting head reads its own hidden state, without ``fc``
denoise      m rows of a window that see the cached rows and each other (bidirectional models)

Not modelled here: what a kernel pads, how an operator is split, where it runs (devices and plans do that).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import networkx as nx

from archsim.device import DType, OpKind, dtype_bytes
from archsim.workload.model import FP32_BYTES, ModelSpec
from archsim.workload.ops import Form, Operator, ops_of
from archsim.workload.tensors import Matrix, Vector

PHASES: tuple[str, ...] = ("prefill", "decode", "verify", "draft", "draft_next", "denoise")

__all__ = [
    "PHASES",
    "Form",
    "Operator",
    "head_graph",
    "layer_graph",
    "ops_of",
    "pass_graph",
    "tail_graph",
]


class _Builder:
    """Adds operators of one model to a graph; node order is a valid execution order."""

    def __init__(self, spec: ModelSpec, phase: str, fused: bool = False) -> None:
        self.spec = spec
        self.fused = fused
        self.graph = nx.DiGraph(phase=phase, digest=spec.digest, causal=spec.causal, inputs=(), output="")

    def act(self, elements: int, dtype: DType | None = None) -> int:
        """Bytes of a row of activations."""
        return dtype_bytes(self.spec.activation_dtype if dtype is None else dtype, elements)

    def add(
        self,
        name: str,
        kind: OpKind,
        after: Sequence[str],
        *,
        tensor_class: str = "none",
        dtype: DType = DType.FP32,
        **columns: Form,
    ) -> str:
        """Add one operator that runs after the operators named (those not in the graph are its inputs)."""
        spec = self.spec
        common = {
            "kind": Form(int(kind)),
            "wdtype": Form(int(dtype)),
            "adtype": Form(int(spec.activation_dtype)),
            "kvdtype": Form(int(spec.kv_dtype)),
            "parts": Form(1),
        }
        operator = Operator(name, kind, tensor_class, dtype, -1, tuple({**common, **columns}.items()))
        self.graph.add_node(name, operator=operator, kind=kind, tensor_class=tensor_class, dtype=dtype, layer=-1)
        self.graph.add_edges_from((node, name) for node in after if node in self.graph)
        return name

    def matmul(self, matrix: Matrix, after: Sequence[str]) -> str:
        """Weights times rows."""
        k, n = matrix.k, matrix.n
        return self.add(
            matrix.name,
            OpKind.MATMUL,
            after,
            tensor_class=matrix.tensor_class,
            dtype=self.spec.dtype_of(matrix.tensor_class),
            m=Form(rows=1),
            k=Form(k),
            n=Form(n),
            weight_bytes=Form(self.spec.matrix_bytes(matrix)),
            in_bytes=Form(rows=self.act(k)),
            out_bytes=Form(rows=self.act(n)),
            macs=Form(rows=k * n),
        )

    def vector(self, vector: Vector, kind: OpKind, after: Sequence[str]) -> str:
        """Norm or bias over rows."""
        row = Form(rows=self.act(vector.width))
        return self.add(
            vector.name,
            kind,
            after,
            tensor_class="norm" if kind == OpKind.NORM else "bias",
            m=Form(rows=1),
            k=Form(vector.width),
            weight_bytes=Form(FP32_BYTES * vector.parameters),
            in_bytes=row,
            out_bytes=row,
        )

    def elementwise(self, name: str, after: Sequence[str], width: int, inputs: int) -> str:
        """Activation or residual add: `inputs` rows of `width` elements give one."""
        return self.add(
            name,
            OpKind.ELEMENTWISE,
            after,
            m=Form(rows=1),
            k=Form(width),
            in_bytes=Form(rows=inputs * self.act(width)),
            out_bytes=Form(rows=self.act(width)),
        )

    def gather(self, matrix: Matrix) -> str:
        """Look up one table row per token."""
        dtype = self.spec.dtype_of("embed")
        return self.add(
            matrix.name,
            OpKind.EMBED,
            (),
            tensor_class="embed",
            dtype=dtype,
            m=Form(rows=1),
            k=Form(matrix.k),
            n=Form(matrix.n),
            weight_bytes=Form(rows=dtype_bytes(dtype, matrix.k)),
            out_bytes=Form(rows=self.act(matrix.k)),
        )

    def norms(self) -> dict[str, Vector]:
        """Norms of one layer by name."""
        return {vector.name: vector for vector in self.spec.layer_norms}

    def bias(self, name: str, after: str) -> str:
        """Add the bias of that name if the model has it; returns what the next operator reads."""
        for vector in self.spec.layer_biases:
            if vector.name == name:
                return self.vector(vector, OpKind.ELEMENTWISE, (after,))
        return after


def _qkv(build: _Builder, after: Sequence[str]) -> tuple[str, ...]:
    """Query, key and value matrices, with their bias and per-head norms; returns the nodes that hold q, k, v."""
    spec, matrices = build.spec, build.spec.layer_matrices[:3]
    if build.fused:
        k, n = matrices[0].k, sum(matrix.n for matrix in matrices)
        made = [build.matmul(Matrix("attn.qkv", "attn_qkv", k, n), after)]
    else:
        made = [build.matmul(matrix, after) for matrix in matrices]
    if spec.qkv_bias:
        bias = next(vector for vector in spec.layer_biases if vector.name == "attn.qkv_bias")
        made = [build.vector(bias, OpKind.ELEMENTWISE, made)]
    return tuple(made)


def _attention(build: _Builder, normed: Sequence[str]) -> str:
    """From normed rows to the output matrix of the attention (and its bias)."""
    spec = build.spec
    heads = {
        "heads": Form(spec.heads),
        "kv_heads": Form(spec.kv_heads),
        "head_dim": Form(spec.head_dim),
    }
    rows, width = Form(rows=1), spec.q_width + spec.kv_width
    made = _qkv(build, normed)
    value = made[-1]
    turned: tuple[str, ...] = made if len(made) == 1 else made[:2]
    if spec.qk_norm:
        turned = (build.vector(build.norms()["attn.qk_norm"], OpKind.NORM, turned),)
    if spec.position == "rope":
        row = Form(rows=build.act(width))
        turned = (
            build.add("attn.rope", OpKind.ROPE, turned, m=rows, k=Form(width), in_bytes=row, out_bytes=row, **heads),
        )
    written = build.add(
        "attn.kv_write",
        OpKind.KV_WRITE,
        (*turned, value),
        m=rows,
        k=Form(2 * spec.kv_width),
        in_bytes=Form(rows=build.act(2 * spec.kv_width)),
        kv_bytes=Form(rows=spec.kv_row_bytes),
        **heads,
    )
    row = Form(rows=build.act(spec.q_width))
    last = build.add(
        "attn.attention",
        OpKind.ATTENTION,
        (*turned, written),
        m=rows,
        k=Form(spec.q_width),
        n=Form(spec.q_width),
        kv=Form(kv=1),
        in_bytes=row,
        out_bytes=row,
        kv_bytes=Form(rows=spec.kv_row_bytes, kv=spec.kv_row_bytes),
        macs=Form(pairs=2 * spec.q_width),
        **heads,
    )
    if spec.sub_norms:
        last = build.vector(build.norms()["attn.sub_norm"], OpKind.NORM, (last,))
    return build.bias("attn.o_bias", build.matmul(spec.layer_matrices[3], (last,)))


def _ffn(build: _Builder, normed: Sequence[str]) -> str:
    """From normed rows to the down matrix of the feed-forward part (and its bias)."""
    spec = build.spec
    *wide, down = spec.layer_matrices[4:]
    if build.fused and spec.gated:
        made = [build.matmul(Matrix("ffn.gate_up", "ffn_up", spec.hidden, 2 * spec.ffn), normed)]
    else:
        made = [build.matmul(matrix, normed) for matrix in wide]
    if spec.ffn_bias:
        bias = next(vector for vector in spec.layer_biases if vector.name == "ffn.up_bias")
        made = [build.vector(bias, OpKind.ELEMENTWISE, made)]
    last = build.elementwise("ffn.act", made, spec.ffn, 2 if spec.gated else 1)
    if spec.sub_norms:
        last = build.vector(build.norms()["ffn.sub_norm"], OpKind.NORM, (last,))
    return build.bias("ffn.down_bias", build.matmul(down, (last,)))


@lru_cache(maxsize=256)
def layer_graph(spec: ModelSpec, phase: str, fused: bool = False) -> nx.DiGraph:
    """Operators of one layer.

    Parameters
    ----------
    spec : ModelSpec
        The model.
    phase : str
        One of :data:`PHASES`.
    fused : bool
        One matrix for query, key and value, and one for gate and up, instead of one each.

    Returns
    -------
    networkx.DiGraph
        Frozen. Nodes are named (``attn.q``) and carry ``operator``, ``kind``, ``tensor_class``, ``dtype``,
        ``layer``; node order is an execution order. ``graph.graph["inputs"]`` names the nodes that read the
        layer's input, ``["output"]`` the node that gives its output.
    """
    _check_phase(spec, phase)
    build = _Builder(spec, phase, fused)
    norms = build.norms()
    embed = (build.vector(norms["attn.norm_embed"], OpKind.NORM, ()),) if spec.attn_input_mult == 2 else ()
    normed = build.vector(norms["attn.norm"], OpKind.NORM, ())
    attended = _attention(build, (*embed, normed))
    if spec.parallel_block:
        fed = _ffn(build, (normed,))
        output = build.elementwise("ffn.add", (attended, fed), spec.hidden, 3)
        inputs = (normed, output)
    else:
        added = build.elementwise("attn.add", (attended,), spec.hidden, 2)
        fed = _ffn(build, (build.vector(norms["ffn.norm"], OpKind.NORM, (added,)),))
        output = build.elementwise("ffn.add", (added, fed), spec.hidden, 2)
        inputs = (normed, added)
    build.graph.graph.update(inputs=inputs, output=output)
    return nx.freeze(build.graph)


@lru_cache(maxsize=256)
def head_graph(spec: ModelSpec, phase: str) -> nx.DiGraph:
    """Operators before the layers: token (and position) look-up, and ``fc`` of a drafting head."""
    _check_phase(spec, phase)
    build = _Builder(spec, phase)
    output = build.gather(spec.embed_matrix)
    if spec.position_matrix is not None:
        output = build.elementwise("embed.add", (output, build.gather(spec.position_matrix)), spec.hidden, 2)
    if spec.fc_inputs:  # the layer's input is a hidden state, not the embedding
        output = "" if phase == "draft_next" else build.matmul(spec.matrices[0], ())
    build.graph.graph.update(output=output)
    return nx.freeze(build.graph)


@lru_cache(maxsize=256)
def tail_graph(spec: ModelSpec, phase: str) -> nx.DiGraph:
    """Operators after the layers, over the projected rows: final norm, output projection, sampling.

    Logits are FP32, as ggml writes the result of a matrix product.
    """
    _check_phase(spec, phase)
    build = _Builder(spec, phase)
    hidden, logits = build.act(spec.hidden), build.act(spec.logits, DType.FP32)
    final = spec.norm_vector("head.norm", spec.hidden)
    row = Form(projected=hidden)
    norm = build.add(
        final.name,
        OpKind.NORM,
        (),
        tensor_class="norm",
        m=Form(projected=1),
        k=Form(final.width),
        weight_bytes=Form(FP32_BYTES * final.parameters),
        in_bytes=row,
        out_bytes=row,
    )
    matrix = spec.head_matrix
    projection = build.add(
        matrix.name,
        OpKind.PROJECTION,
        (norm,),
        tensor_class="head",
        dtype=spec.dtype_of("head"),
        m=Form(projected=1),
        k=Form(matrix.k),
        n=Form(matrix.n),
        weight_bytes=Form(spec.matrix_bytes(matrix)),
        in_bytes=row,
        out_bytes=Form(projected=logits),
        macs=Form(projected=matrix.elements),
    )
    sample = build.add(
        "head.sample",
        OpKind.SAMPLE,
        (projection,),
        m=Form(projected=1),
        k=Form(spec.logits),
        in_bytes=Form(projected=logits),
        out_bytes=Form(projected=FP32_BYTES),
    )
    build.graph.graph.update(inputs=(norm,), output=sample)
    return nx.freeze(build.graph)


@lru_cache(maxsize=64)
def pass_graph(
    spec: ModelSpec,
    phase: str,
    *,
    first: int = 0,
    last: int | None = None,
    embed: bool = True,
    tail: bool = True,
    fused: bool = False,
) -> nx.DiGraph:
    """Operators of a whole pass, or of the layers ``first <= layer < last``.

    Nodes of layer i are named ``layer<i>.<name>``. `embed` and `tail` say whether the pass begins with the
    look-up and ends with norm, projection and sampling (a schedule may run these elsewhere).

    Raises
    ------
    ValueError
        For an unknown phase, a phase the model cannot run, or a layer range outside the model.
    """
    stop = spec.layers if last is None else last
    if not 0 <= first <= stop <= spec.layers:
        raise ValueError(f"layers {first}..{stop} are not within the model's {spec.layers} layers")
    head, layer, end = head_graph(spec, phase), layer_graph(spec, phase, fused), tail_graph(spec, phase)
    graph = nx.DiGraph(phase=phase, digest=spec.digest, causal=spec.causal, inputs=(), output="")
    previous = ""
    if embed:
        graph.update(head.edges(data=True), head.nodes(data=True))
        previous = head.graph["output"]
    for index in range(first, stop):
        _append(graph, layer, f"layer{index}.", index)
        if previous:
            graph.add_edges_from((previous, f"layer{index}.{node}") for node in layer.graph["inputs"])
        if embed and index == 0 and spec.attn_input_mult == 2:
            graph.add_edge("embed.token", "layer0.attn.norm_embed")
        previous = f"layer{index}.{layer.graph['output']}"
    if tail:
        _append(graph, end, "", -1)
        if previous:
            graph.add_edge(previous, end.graph["inputs"][0])
        previous = end.graph["output"]
    graph.graph["output"] = previous
    return nx.freeze(graph)


def _append(graph: nx.DiGraph, part: nx.DiGraph, prefix: str, layer: int) -> None:
    """Copy the nodes and edges of `part` under a prefix."""
    for name, data in part.nodes(data=True):
        operator = replace(data["operator"], name=prefix + name, layer=layer)
        graph.add_node(prefix + name, **{**data, "operator": operator, "layer": layer})
    graph.add_edges_from((prefix + a, prefix + b) for a, b in part.edges)


def _check_phase(spec: ModelSpec, phase: str) -> None:
    if phase not in PHASES:
        raise ValueError(f"unknown phase {phase!r}; known: {', '.join(PHASES)}")
    if phase == "denoise" and spec.causal:
        raise ValueError(f"model {spec.name!r} is causal: it cannot run the phase denoise")
    if phase not in ("denoise", "prefill") and not spec.causal:
        raise ValueError(f"model {spec.name!r} is bidirectional: it runs prefill and denoise, not {phase}")
