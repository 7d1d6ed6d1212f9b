"""Operators as columns that are linear in the size of a pass, and their evaluation.

Every column of every operator is ``one + rows m + projected p + kv kv + pairs pairs`` with whole
coefficients, so a graph compiles to one integer array and a pass of any size is one product with five numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import networkx as nx
import numpy as np

from archsim.device import DType, OpKind, Ops, make_ops
from archsim.workload.model import ModelSpec
from archsim.workload.passes import Pass

TREE_PHASES = frozenset({"verify", "draft", "draft_next"})
LAST_ROW_PHASES = frozenset({"prefill", "decode"})
INT64_MAX = (1 << 63) - 1


class Form(NamedTuple):
    """A column value, linear in the quantities of a pass: ``one + rows m + projected p + kv kv + pairs pairs``."""

    one: int = 0
    rows: int = 0
    projected: int = 0
    kv: int = 0
    pairs: int = 0


@dataclass(frozen=True)
class Operator:
    """One operator of a graph.

    `layer` is -1 outside the layers; `tensor_class` is a class of weights, ``norm``, ``bias`` or ``none``;
    `columns` holds the :class:`~archsim.device.Ops` columns that are not zero, as forms.
    """

    name: str
    kind: OpKind
    tensor_class: str
    dtype: DType
    layer: int
    columns: tuple[tuple[str, Form], ...]


class Compiled(NamedTuple):
    """A graph as one array: operator names in order, and coefficients ``[column, operator, quantity]`` (int64)."""

    names: tuple[str, ...]
    coefficients: np.ndarray
    largest: tuple[int, ...]  # largest coefficient of each quantity, to bound results before computing them


def compile_graph(graph: nx.DiGraph) -> Compiled:
    """Collect the columns of a graph's operators; computed once per graph and kept with it."""
    if "compiled" not in graph.graph:
        operators: list[Operator] = [data["operator"] for _, data in graph.nodes(data=True)]
        coefficients = np.zeros((len(Ops._fields), len(operators), len(Form._fields)), dtype=np.int64)
        place = {name: index for index, name in enumerate(Ops._fields)}
        for index, operator in enumerate(operators):
            for column, form in operator.columns:
                coefficients[place[column], index] = form
        largest = tuple(int(value) for value in coefficients.max(axis=(0, 1), initial=0))
        graph.graph["compiled"] = Compiled(tuple(operator.name for operator in operators), coefficients, largest)
    return graph.graph["compiled"]


def attention_pairs(
    phase: str, causal: bool, m: int, kv: int, leaves: int = 1, depths: Sequence[int] | np.ndarray | None = None
) -> int:
    """Count the (query, key) pairs that the mask of a pass lets through.

    Parameters
    ----------
    phase, causal
        Phase of the pass and whether the model's attention is causal.
    m, kv : int
        Rows of the pass; cached rows every row of it sees.
    leaves : int
        Leaves of the token tree (tree phases). More than one needs `depths`.
    depths : sequence of int, optional
        Tree phases: for each row, how many rows of the tree it sees, itself included (root: 1). Without it
        the rows are a chain.

    Raises
    ------
    ValueError
        For sizes that no pass has, naming the rule.
    """
    if m < 1 or kv < 0:
        raise ValueError(f"a pass needs m >= 1 rows and kv >= 0 cached rows, not m={m}, kv={kv}")
    if phase not in TREE_PHASES and (leaves != 1 or depths is not None):
        raise ValueError(f"phase {phase} has no token tree: leaves and depths belong to {_names(TREE_PHASES)}")
    if phase == "decode" and m != 1:
        raise ValueError(f"phase decode runs one row, not {m}; several rows are a verify pass")
    if phase not in TREE_PHASES:
        return m * kv + (m * (m + 1) // 2 if causal else m * m)
    if depths is None:
        if leaves != 1:
            raise ValueError(f"a tree with {leaves} leaves needs the depths of its {m} rows")
        return m * kv + m * (m + 1) // 2
    depth = np.asarray(depths, dtype=np.int64)
    if depth.shape != (m,) or depth.min() < 1:
        raise ValueError(f"depths must hold {m} values >= 1 (root: 1), one per row")
    if not 1 <= leaves <= m:
        raise ValueError(f"a tree of {m} rows cannot have {leaves} leaves")
    return m * kv + int(depth.sum())


def ops_of(
    graph: nx.DiGraph,
    m: int,
    kv: int,
    leaves: int = 1,
    depths: Sequence[int] | np.ndarray | None = None,
    projected: int | None = None,
) -> tuple[tuple[str, ...], Ops]:
    """Columns of a graph's operators for one pass.

    Parameters
    ----------
    graph : networkx.DiGraph
        From :mod:`archsim.workload.graph`.
    m, kv, leaves, depths
        See :func:`attention_pairs`. The caller counts in `kv` every cached row all rows see.
    projected : int, optional
        Rows the output projection runs on. Left out: 1 for prefill and decode, all m otherwise.

    Returns
    -------
    names : tuple of str
        Operator names, in execution order.
    ops : Ops
        int64 columns in the same order. Attention reads its own m rows back from the cache, so its
        ``kv_bytes`` covers kv + m rows; ``macs`` counts the pairs of the mask exactly.

    Raises
    ------
    ValueError
        For sizes no pass has, or so large that a column would not fit 63 bits.
    """
    compiled = compile_graph(graph)
    basis = _quantities(graph, compiled, m, kv, leaves, depths, projected)
    return compiled.names, Ops(*(compiled.coefficients @ np.array(basis, dtype=np.int64)))


def operator_of(graph: nx.DiGraph, name: str, passes: Sequence[Pass]) -> Ops:
    """Columns of one operator of a graph, an entry for each of several passes; see :func:`ops_of`."""
    compiled = compile_graph(graph)
    basis = [_quantities(graph, compiled, one.rows, one.kv, one.leaves, one.depths, one.projected) for one in passes]
    return Ops(*(compiled.coefficients[:, compiled.names.index(name)] @ np.array(basis, dtype=np.int64).T))


def _quantities(
    graph: nx.DiGraph,
    compiled: Compiled,
    m: int,
    kv: int,
    leaves: int,
    depths: Sequence[int] | np.ndarray | None,
    projected: int | None,
) -> tuple[int, ...]:
    """What the forms of a graph are multiplied with for one pass."""
    phase = graph.graph["phase"]
    pairs = attention_pairs(phase, graph.graph["causal"], m, kv, leaves, depths)
    if projected is None:
        projected = 1 if phase in LAST_ROW_PHASES else m
    if not 0 <= projected <= m:
        raise ValueError(f"projected rows must lie between 0 and the pass's {m} rows, not {projected}")
    basis = (1, m, projected, kv, pairs)
    if sum(a * b for a, b in zip(compiled.largest, basis, strict=True)) > INT64_MAX:
        raise ValueError(f"a pass of {m} rows against {kv} cached rows is too large: a column exceeds 63 bits")
    return basis


def kv_copy_ops(spec: ModelSpec, rows: int) -> Ops:
    """One COPY operator that moves `rows` tokens' keys and values of all layers (compaction, merge, branch)."""
    size = rows * spec.kv_token_bytes
    kvdtype = int(spec.kv_dtype)
    return make_ops(
        [{"kind": OpKind.COPY, "m": rows, "k": spec.kv_width, "kvdtype": kvdtype, "in_bytes": size, "out_bytes": size}]
    )


def pick(ops: Ops, index: int) -> Ops:
    """One of several operators."""
    return Ops._make([column[index : index + 1] for column in ops])


def joined(pieces: Iterable[Ops]) -> Ops:
    """Operators one after the other."""
    return Ops(*(np.concatenate(columns) for columns in zip(*pieces, strict=True)))


def columns_of(ops: Ops, first: int, last: int) -> Ops:
    """Columns ``first <= column < last`` of a product: weights, results and arithmetic by share, all of the input."""
    whole = int(ops.n[0])
    part = {
        name: getattr(ops, name) * last // whole - getattr(ops, name) * first // whole
        for name in ("n", "weight_bytes", "out_bytes", "macs")
    }
    return ops._replace(**part)


def _names(phases: frozenset[str]) -> str:
    return ", ".join(sorted(phases))
