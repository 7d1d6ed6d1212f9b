"""How a tree is drafted, verified, pruned, projected and merged: the blocks of one cycle.

Every step is a sub-generator of the schedule's process: it emits blocks and waits for what the next decision needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from archsim.device import DType, OpKind, Ops, dtype_bytes, make_ops
from archsim.workload.ops import kv_copy_ops
from archsim.workload.plan import Pass

if TYPE_CHECKING:
    from archsim.engine.sim import Handle
    from archsim.schedules.lever.tree import TokenTree
    from archsim.workload.job import Job


def padded(rows: int, shapes: Sequence[int]) -> int:
    """Rows of the smallest fixed shape that holds `rows`; beyond the largest, whole multiples of it."""
    for shape in shapes:
        if rows <= shape:
            return shape
    return -(-rows // shapes[-1]) * shapes[-1]


class Execution(NamedTuple):
    """Knobs of how a cycle runs; see the fields of the same names of :class:`~archsim.schedules.lever.Lever`."""

    lower_shapes: tuple[int, ...]
    upper_shapes: tuple[int, ...]
    draft_shapes: tuple[int, ...]
    exit_layer: int
    projection: str
    head_rows: int
    leaf_instructions: int
    node_instructions: int
    merge_instructions: int


def tree_pass(
    job: Job, rows: int, first: int, last: int, *, projected: int = 0, reads: str = "own", kv: int | None = None
) -> Pass:
    """Pass of the target over `rows` rows under a dense tree mask: a fixed-shape graph computes all pairs of them."""
    return Pass(
        "target",
        "verify",
        rows,
        job.cached if kv is None else kv,
        projected=projected,
        depths=(rows,) * rows,
        spilled=job.spilled,
        first=first,
        last=last,
        reads=reads,
    )


def emit_prefill(job: Job, rows: int, after: Handle | None = None) -> Handle:
    """Emit the target's prefill in passes of at most `rows` prompt rows, each of which streams the weights (0: one)."""
    return job.emit_passes(job.prefill("target", rows), after=after)


def emit_cold_start(job: Job) -> Handle:
    """Emit the reads of what DRAM holds of the models from the start: nothing is in memory before."""
    ops = {}
    for what, size in job.footprint["dram"].items():
        if what.endswith(" weights") and size:
            ops[f"cold.{what}"] = make_ops([{"kind": OpKind.LOAD, "weight_bytes": size}])
    return job.emit_ops("target.load", "io", ops)


def emit_draft(job: Job, batch: Sequence[int], *, fresh: int, done: int, shapes: Sequence[int] | None) -> Handle:
    """Emit one draft pass that expands the nodes of `batch`.

    Parameters
    ----------
    fresh : int
        Committed rows that the draft takes in first; 0 when it has them (every pass but a cycle's first).
    done : int
        Drafted rows before this pass.
    shapes : sequence of int, optional
        Fixed shapes of the batched graph; None runs the exact rows where the draft's layers run.
    """
    if fresh:
        return job.emit_passes([Pass("draft", "draft", fresh, max(job.cached - fresh + 1, 0), projected=1)])
    kv = job.cached + 1 + done
    if shapes is None:
        ones = [Pass("draft", "draft_next", 1, kv + i, projected=1) for i in range(len(batch))]
        return job.emit_passes(ones, label="draft.draft")
    rows = padded(len(batch), shapes)
    one = Pass("draft", "draft_next", rows, kv, projected=rows, depths=(rows,) * rows, batched=True)
    return job.emit_passes([one], label="draft.draft")


def branch_ops(job: Job, run: Execution, tree: TokenTree) -> dict[str, Ops]:
    """A temporary sequence for every leaf: its bookkeeping, and a copy of its path's keys and values."""
    depth = max(tree.depth)
    instructions = run.leaf_instructions * tree.leaves + run.node_instructions * tree.rows
    ops = {"tree.branch": make_ops([{"kind": OpKind.CONTROL, "n": max(instructions, 1)}])}
    if tree.leaves > 1:
        ops["tree.copy"] = kv_copy_ops(job.models["target"], (tree.leaves - 1) * depth)
    return ops


def predictor_ops(job: Job, run: Execution, scored: int, nodes: int, kept: int) -> dict[str, Ops]:
    """Scores of the candidates at the exit layer, the decision, and the compaction of the rows that stay (0: none)."""
    target = job.models["target"]
    row = dtype_bytes(DType.FP16, target.hidden)
    ops = {
        "exit.predictor": make_ops(
            [
                {
                    "kind": OpKind.MATMUL,
                    "m": 1,
                    "k": target.hidden,
                    "n": scored,
                    "wdtype": DType.FP16,
                    "adtype": DType.FP16,
                    "weight_bytes": scored * row,
                    "in_bytes": nodes * row,
                    "out_bytes": dtype_bytes(DType.FP32, scored),
                    "macs": scored * target.hidden,
                }
            ]
        ),
        "exit.decide": make_ops([{"kind": OpKind.CONTROL, "n": run.node_instructions * max(scored, 1)}]),
    }
    if kept:
        size = kept * (row + run.exit_layer * target.kv_row_bytes)
        ops["exit.compact"] = make_ops([{"kind": OpKind.COPY, "m": kept, "in_bytes": size, "out_bytes": size}])
    return ops


def project_passes(job: Job, run: Execution, visited: int) -> list[Pass]:
    """Projection of the visited rows, one after the other: each is sampled before the next is known.

    On the NPU a row runs in a graph of fixed shape, whose rows are all computed.
    """
    layers = job.models["target"].layers
    rows = 1 if run.projection == "cpu_on_demand" else run.head_rows
    one = Pass("target", "verify", rows, job.cached, projected=rows, first=layers, last=layers, depths=(rows,) * rows)
    return [one] * visited


def merge_ops(job: Job, run: Execution, accepted: int) -> dict[str, Ops]:
    """Keys and values of the accepted path move to the main sequence; the temporary ones go."""
    ops = {"tree.merge": make_ops([{"kind": OpKind.CONTROL, "n": max(run.merge_instructions, 1)}])}
    if accepted:
        ops["tree.keep"] = kv_copy_ops(job.models["target"], accepted)
    return ops
