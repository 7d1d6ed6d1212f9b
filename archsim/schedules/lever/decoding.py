"""Lever's cycle: draft a tree by gain per cost, verify it behind the reads, prune at the exit, project the path."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from archsim.device import OpKind
from archsim.schedules.lever.execution import (
    Execution,
    branch_ops,
    emit_cold_start,
    emit_draft,
    emit_prefill,
    merge_ops,
    padded,
    predictor_ops,
    project_passes,
    tree_pass,
)
from archsim.schedules.lever.growth import FixedExpansion, GainPerCost, Growth, OptTree
from archsim.schedules.lever.pruning import PruneRules, count_leaves, edge_scores, survivors
from archsim.schedules.lever.tables import DraftCost, LatencyTable, Reliability
from archsim.schedules.lever.tree import ROOT, TokenTree
from archsim.schedules.schedule import Steps
from archsim.workload.plan import Pass

if TYPE_CHECKING:
    from archsim.engine.sim import Sim
    from archsim.schedules.lever.schedule import Lever
    from archsim.workload.job import Job

#: Leaves for which the latency table is seeded, with each fixed shape.
SEEDED_LEAVES = (4, 8, 12, 16, 20, 24, 28, 32)

#: Limits of trees that no other policy's knob sets; OPT-Tree's depth is its authors' default.
UNBOUNDED, OPT_DEPTH = 1 << 20, 10


class Decoding:
    """One run of the schedule: what it has learned, and the cycle under way."""

    def __init__(self, knobs: Lever, sim: Sim, job: Job) -> None:
        self.knobs, self.sim, self.job = knobs, sim, job
        layers = job.models["target"].layers
        exit_layer = min(max(round(knobs.exit_depth * layers), 1), layers - 1) if layers > 1 else layers
        self.run = Execution(
            tuple(sorted(knobs.lower_shapes)),
            tuple(sorted(knobs.upper_shapes)),
            tuple(sorted(knobs.draft_shapes)),
            exit_layer if knobs.pruning else layers,
            knobs.projection,
            knobs.head_rows,
            knobs.leaf_instructions,
            knobs.node_instructions,
            knobs.merge_instructions,
        )
        self.rules = PruneRules(
            knobs.theta_small, knobs.theta_large, knobs.theta_most, 16, knobs.tau, knobs.shadows, knobs.safeguards,
            knobs.near_root_depth, knobs.near_root_children, knobs.least_nodes, knobs.least_leaves,
        )  # fmt: skip
        self.reliability = Reliability(knobs.calibrate)
        self.table = LatencyTable(partial(padded, shapes=self.run.lower_shapes), knobs.penalty)
        #: Layers above the exit by padded rows: what running fewer rows there saves.
        self.above: dict[int, float] = {}
        self.cost = DraftCost(0.0, 0.0)
        self.fresh = 1

    def _shape(self, rows: int) -> int:
        return padded(rows, self.run.lower_shapes)

    def _shape_above(self, rows: int) -> int:
        return padded(rows, self.run.upper_shapes)

    # -- what the tables hold before the run ------------------------------------------------------------------

    def seed_tables(self) -> None:
        """Estimate draft passes and about 20 verification shapes, uncontended."""
        job, run, layers = self.job, self.run, self.job.models["target"].layers

        def estimate(*passes: Pass) -> float:
            return float(sum(self.sim.estimate(job.planner.block(one)) for one in passes))

        single = Pass("draft", "draft_next", 1, job.cached + 1, projected=1, batched=self.knobs.drafting == "npu")
        rows = run.draft_shapes[-1]
        batch = Pass("draft", "draft_next", rows, job.cached + 1, projected=rows, depths=(rows,) * rows, batched=True)
        self.cost = DraftCost(estimate(single), estimate(batch))
        leaf_ps = self._leaf_ps()
        eager = self.knobs.projection == "npu_eager"
        for shape in run.lower_shapes:
            whole = estimate(tree_pass(job, shape, 0, layers, projected=shape * eager))
            for leaves in [leaves for leaves in SEEDED_LEAVES if leaves <= shape] or [shape]:
                self.table.seed(shape, leaves, whole + leaves * leaf_ps)
        if run.exit_layer < layers and self.knobs.ask_table:
            self.above = {s: estimate(tree_pass(job, s, run.exit_layer, layers)) for s in run.upper_shapes}

    def _leaf_ps(self) -> float:
        """Estimated time of one leaf's bookkeeping on an idle control core."""
        job = self.job
        tree = TokenTree()
        device = job.planner.system.having
        total = 0.0
        for name, op in branch_ops(job, self.run, tree).items():
            cpu = device(OpKind(int(op.kind[0])), "cpu")
            lowered = job.planner.ops.lower(cpu, "target", "bookkeeping", name, op)
            total += float((lowered.lead + lowered.work // np.maximum(lowered.cap, 1)).sum())
        return total

    # -- the cycle ------------------------------------------------------------------------------------------------

    def generate(self) -> Steps:
        """Decode all requests, one after the other."""
        job = self.job
        seeded = False
        for request in job.requests():
            yield from job.arrived()
            loaded = emit_cold_start(job) if self.knobs.cold_start and request == 0 else None
            prefilled = emit_prefill(job, self.knobs.prefill_rows, after=loaded)
            last = job.emit("draft", "prefill", after=prefilled)
            yield last
            job.commit()
            self.fresh = 1
            if not seeded:
                self.seed_tables()
                seeded = True
            while not job.finished:
                yield from self.cycle()
            job.end(request)

    def cycle(self) -> Steps:
        """One speculative cycle."""
        job, sim = self.job, self.sim
        began = sim.now
        reads = self._emit_reads() if self.knobs.read_ahead else None
        tree = TokenTree()
        growth = self.growth(tree)
        drafts = yield from self.draft(tree, growth)
        drafted_at = sim.now
        expected_ps = self.table.latency(tree.rows, tree.leaves)
        expected = tree.gain
        if reads is None:
            self._emit_reads()
        step, upper, kept = yield from self.verify(tree)
        path = tree.accepted(kept)
        yield from self.finish(path)
        met = sim.now - drafted_at
        self.table.learn(tree.rows, tree.leaves, met)
        self._learn_acceptance(tree, tree.accepted())
        sim.note("lost", job.request, len(tree.accepted()) - len(path))
        sim.note("latency", job.request, round(expected_ps / 1e6), round(met / 1e6))
        sim.note("gain", job.request, round(1000 * expected), 1000 * (len(path) + 1))
        sim.note("cycle", job.request, sim.now - began, drafted_at - began)
        counted = job.commit(accepted=len(path), drafted=tree.rows - 1, step=step, drafts=drafts)
        if upper is not None:
            sim.mark(upper, counted, len(kept) if kept is not None else tree.rows)
        self.fresh = self._fresh(tree, path)

    def _fresh(self, tree: TokenTree, path: list[int]) -> int:
        """Committed rows that the draft lacks: all for a head on the target's features, else those not expanded."""
        if self.job.models["draft"].fc_inputs:
            return len(path) + 1
        return 1 + sum(tree.found[node] is None for node in path)

    def growth(self, tree: TokenTree) -> Growth:
        """Drafting policy of this cycle."""
        knobs = self.knobs
        common = (tree, self.reliability.factor, knobs.candidates)
        if knobs.policy == "specinfer":
            return FixedExpansion(*common, len(knobs.expansion), UNBOUNDED, UNBOUNDED, expansion=knobs.expansion)
        if knobs.policy == "opt_tree":
            size = (knobs.budget or knobs.max_rows) - 1
            return OptTree(*common, OPT_DEPTH, knobs.max_rows, UNBOUNDED, size=size)
        most = knobs.budget or knobs.max_expansions
        return GainPerCost(
            *common, knobs.max_depth, knobs.max_rows, most, drafting=self.cost, table=self.table,
            budget=knobs.budget, next_batch=self.next_batch,
        )  # fmt: skip

    def next_batch(self, expansions: int) -> tuple[int, float]:
        """Nodes that may be expanded together now, and the expected time of each."""
        if self.knobs.drafting != "batched" or expansions < self.knobs.cpu_expansions:
            return 1, self.cost.single
        return self.knobs.draft_batch, self.cost.batch / self.knobs.draft_batch

    def draft(self, tree: TokenTree, growth: Growth) -> Steps:
        """Expand the root and whatever the policy asks for; returns the last draft block."""
        job, sim, knobs = self.job, self.sim, self.knobs
        last = emit_draft(job, [ROOT], fresh=self.fresh, done=0, shapes=None)
        yield last
        self._expand(tree, growth, [ROOT])
        if isinstance(growth, GainPerCost):
            growth.spent_ps = self.cost.single
        done = 0
        while nodes := growth.round():
            for batch in self._batches(nodes, done):
                began = sim.now
                batched = knobs.drafting == "npu" or (knobs.drafting == "batched" and len(batch) > 1)
                last = emit_draft(
                    job, batch, fresh=0, done=done, shapes=self.run.draft_shapes if batched else None
                )  # fmt: skip
                yield last
                self.cost.learn(len(batch) > 1, sim.now - began)
                done += len(batch)
            self._expand(tree, growth, nodes)
        return last

    def _batches(self, nodes: list[int], done: int) -> list[list[int]]:
        """Passes that expand `nodes`: one each, or together on the NPU once the CPU's are done."""
        if self.knobs.drafting != "batched" or done + 1 < self.knobs.cpu_expansions:
            return [[node] for node in nodes]
        size = self.knobs.draft_batch
        return [nodes[i : i + size] for i in range(0, len(nodes), size)]

    def _expand(self, tree: TokenTree, growth: Growth, nodes: list[int]) -> None:
        for node in nodes:
            found = self.job.stream.candidates(self.job.request, self.job.position, tree.path(node))
            k = self.knobs.candidates
            rank = found.target_rank if found.target_rank <= k else 0
            tree.found[node] = found._replace(probs=np.nan_to_num(found.probs[:k]), target_rank=rank)
            growth.expanded(node)

    def _emit_reads(self) -> Any:
        """Emit the reads of all flash-resident layers; they run ahead as far as the ring allows."""
        job = self.job
        if job.placements["target"].layers_in != "flash":
            return True
        return job.emit_passes([Pass("target", "verify", last=job.models["target"].layers, reads="ahead")])

    def verify(self, tree: TokenTree) -> Steps:
        """Run the layers, pruning at the exit; returns the blocks below and above it and the nodes kept (None: all)."""
        job, run, sim = self.job, self.run, self.sim
        layers, rows = job.models["target"].layers, self._shape(tree.rows)
        branched = job.emit_ops("target.branch", "bookkeeping", branch_ops(job, run, tree))
        whole = run.exit_layer >= layers
        eager = self.knobs.projection == "npu_eager"
        below = tree_pass(job, rows, 0, run.exit_layer, projected=rows * (eager and whole), reads="landed")
        # What a layer reads for itself (KV rows in flash) must not queue behind the reads of later layers.
        urgent = -1 if job.spilled else 0
        step = job.emit_passes([below], after=branched, priority=urgent)
        yield step
        if whole:
            return step, None, None
        kept = yield from self.prune(tree)
        above = self._shape_above(tree.rows if kept is None else len(kept))
        began = sim.now
        rest = tree_pass(job, above, run.exit_layer, layers, projected=above * eager, reads="landed")
        upper = job.emit_passes([rest], priority=urgent)
        yield upper
        if above in self.above:
            self.above[above] += 0.2 * (sim.now - began - self.above[above])
        sim.note("kept", job.request, tree.rows if kept is None else len(kept), tree.rows)
        return step, upper, kept

    def prune(self, tree: TokenTree) -> Steps:
        """Score the tree at the exit and decide; returns the nodes that stay, None for all."""
        job, knobs, run = self.job, self.knobs, self.run

        def scores(path: Any, found: Any) -> np.ndarray:
            return job.stream.exit_scores(
                job.request, job.position, path, knobs.candidates,
                gain=knobs.predictor_gain, noise=knobs.predictor_noise, found=found,
            )  # fmt: skip

        score, scored = edge_scores(tree, scores, self.rules)
        kept = survivors(tree, score, self.rules, self._shape_above) if scored else None
        if kept is not None and self.knobs.ask_table and not self.pays(tree, kept):
            kept = None
        if scored:
            ops = predictor_ops(job, run, scored, tree.rows, 0 if kept is None else len(kept))
            yield job.emit_ops("target.exit", "predictor", ops)
        return kept

    def pays(self, tree: TokenTree, kept: frozenset[int]) -> bool:
        """Whether the latency that fewer rows save, by the tables, is worth the reach lost."""
        now, then = self._shape_above(tree.rows), self._shape_above(len(kept))
        cycle = self.cost.single * self.knobs.cpu_expansions + self.cost.batch
        whole = self.table.latency(tree.rows, count_leaves(tree, frozenset(range(tree.rows)))) + cycle
        saved = self.above[now] - self.above[then]
        left = sum(tree.reach[node] for node in kept)
        return left / (whole - saved) > tree.gain / whole

    def finish(self, path: list[int]) -> Steps:
        """Project the rows of the path where that was not done with all, and merge it."""
        job, run = self.job, self.run
        last = None
        if self.knobs.projection != "npu_eager":
            last = job.emit_passes(project_passes(job, run, len(path) + 1), label="target.project")
        merged = job.emit_ops("target.merge", "bookkeeping", merge_ops(job, run, len(path)), after=last)
        yield merged

    def _learn_acceptance(self, tree: TokenTree, path: list[int]) -> None:
        """What the verified path says of the candidate sets along it."""
        for node in (ROOT, *path):
            found = tree.found[node]
            if found is not None and len(found.probs):
                self.reliability.learn(found.target_rank > 0, float(found.probs.sum()))
