"""EdgeLLM (after LLMCad): the most confident branch grows until it is too unlikely; drafting goes on while verifying.

The threshold on the cumulative probability adapts: it halves after a fully accepted draft and doubles otherwise. While
the target verifies, the draft continues from the end of the best branch; if the target takes that branch and the
continuation's first token, the next cycle begins with it, else the work is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from archsim.registry import schedule
from archsim.schedules.baselines import streamed_whole
from archsim.schedules.lever.execution import emit_draft, padded, tree_pass
from archsim.schedules.lever.growth import Confidence
from archsim.schedules.lever.tree import ROOT, TokenTree
from archsim.schedules.schedule import Schedule, Steps, knob, ring_knob
from archsim.workload.plan import Pass, Placement

if TYPE_CHECKING:
    from archsim.engine.sim import Sim
    from archsim.workload.job import Job

#: Bounds of the threshold.
LEAST, MOST = 1e-4, 0.5


@schedule("edgellm")
@dataclass(frozen=True)
class EdgeLlm(Schedule):
    """Speculative decoding that hands over by confidence and drafts on during verification (EdgeLLM)."""

    roles: ClassVar[tuple[str, ...]] = ("target", "draft")
    features: ClassVar[tuple[str, ...]] = ("tree",)

    candidates: int = knob(2, "children that compete for the next place of a branch; assumed", 1, 8)
    alpha: float = knob(
        0.01, "first threshold on the cumulative probability; LLMCad's scheme, assumed value", 1e-4, 0.5
    )
    max_depth: int = knob(16, "longest branch; assumed", 1, 64)
    max_rows: int = knob(16, "largest tree, root included; assumed", 2, 256)
    ahead: int = knob(8, "tokens drafted during a verification at most; assumed", 0, 64)
    shapes: tuple[int, ...] = knob((16, 32), "fixed shapes of the verification's graph, as Lever's; assumed", 1, 512)
    ring: int = ring_knob()

    def placements(self) -> Mapping[str, Placement]:
        """Target streamed with its projection, all rows projected on the NPU; draft in DRAM on the CPU."""
        return {
            "target": streamed_whole(self.ring),
            "draft": Placement(layers_on=("cpu",)),
        }

    def draft_len(self) -> int:
        """Rows of the largest tree and of what is drafted during its verification."""
        return self.max_rows + self.ahead

    def start(self, sim: Sim, job: Job) -> Mapping[str, Steps]:
        """One process: draft, verify while drafting on, commit."""
        return {"decode": self.generate(sim, job)}

    def generate(self, sim: Sim, job: Job) -> Steps:
        """Decode all requests, one after the other."""
        for request in job.requests():
            yield from job.arrived()
            prefilled = job.emit("target", "prefill")
            last = job.emit("draft", "prefill", after=prefilled)
            yield last
            job.commit()
            alpha, fresh, ready = self.alpha, 1, 0
            while not job.finished:
                tree = TokenTree()
                drafts = yield from self.draft(job, tree, alpha, fresh, ready)
                rows = padded(tree.rows, sorted(self.shapes))
                layers = job.models["target"].layers
                step = job.emit_passes([tree_pass(job, rows, 0, layers, projected=rows)])
                branch = tree.best_path()
                ahead = self._draft_on(job, tree.rows)
                yield step
                done = self._finished(sim, ahead)
                path = tree.accepted()
                whole = path == branch
                hit = whole and self._continued(job, tree, branch)
                ready = max(done - 1, 0) if hit else 0
                if ahead:
                    sim.note("draft", job.request, done)
                alpha = min(max(alpha / 2 if whole else 2 * alpha, LEAST), MOST)
                job.commit(accepted=len(path), drafted=tree.rows - 1, step=step, drafts=drafts)
                fresh = 1 if ready else len(path) + 1
            job.end(request)

    def draft(self, job: Job, tree: TokenTree, alpha: float, fresh: int, ready: int) -> Steps:
        """Grow the tree; the first `ready` expansions of the best branch were done before. Returns the last block."""
        growth = Confidence(tree, 1.0, self.candidates, self.max_depth, self.max_rows, 1 << 20, least=alpha)
        last: Any = None
        nodes = [ROOT]
        while nodes:
            node = nodes[0]
            known = tree.depth[node] < ready and all(rank == 1 for rank in tree.path(node))
            if not known:
                first = 0 if last is not None or ready else fresh
                last = emit_draft(job, nodes, fresh=first, done=tree.rows - 1, shapes=None)
                yield last
            found = job.stream.candidates(job.request, job.position, tree.path(node))
            rank = found.target_rank if found.target_rank <= self.candidates else 0
            tree.found[node] = found._replace(probs=np.nan_to_num(found.probs[: self.candidates]), target_rank=rank)
            growth.expanded(node)
            nodes = growth.round()
        return last

    def _draft_on(self, job: Job, rows: int) -> list[Any]:
        """Emit the chain that is drafted while the target works, token by token."""
        handles: list[Any] = []
        for i in range(self.ahead):
            one = Pass("draft", "draft_next", 1, job.cached + rows + i, projected=1)
            handles.append(job.emit_passes([one], after=handles[-1] if handles else None, label="draft.ahead"))
        return handles

    @staticmethod
    def _finished(sim: Sim, ahead: list[Any]) -> int:
        """Cut what has not been drafted yet; returns the number of tokens that were."""
        done = sum(handle.done for handle in ahead)
        if done < len(ahead):
            sim.cut(ahead[done])
        return done

    @staticmethod
    def _continued(job: Job, tree: TokenTree, branch: list[int]) -> bool:
        """Whether the target's own token after the whole branch is the draft's first choice there."""
        end = branch[-1] if branch else ROOT
        found = tree.found[end] or job.stream.candidates(job.request, job.position, tree.path(end))
        return found.target_rank == 1
