"""Synthetic decision streams: the generator's process drawn with counter-based numbers, in cached blocks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from archsim.sharing import shared
from archsim.streams.draws import normals
from archsim.streams.generator import Drafted, Generator, Shape, offpath_score
from archsim.streams.interface import UNBOUNDED, Candidates, DecisionStream, Position, StreamEndError, path_key

BLOCK = 128
MAX_BLOCKS = 1024  # cached; about 13 kB each
MAX_NODES = 4096  # nodes off the accepted path that are kept
MAX_POSITION = 1 << 48

_DRAFT_LANE, _SCATTER_LANE = 0, 1


class _Block(NamedTuple):
    drafted: Drafted
    uniform: np.ndarray  # [BLOCK] decides the rank
    rank: list[int]  # at depth 0
    run: list[int]  # leading first-choice hits from here to the end of the block, at depth 0


class SyntheticStream(DecisionStream):
    """Acceptance drawn by the process of :mod:`archsim.streams.generator`.

    Parameters
    ----------
    name, seed : str, int
        They key the draws; the shape does not, so two acceptances compared on one seed meet the same luck.
    shape : Shape
        Constants of the process.
    prompt_tokens, tokens : int
        Prompt length and output length of every request.
    source, model, draft : str
        See :class:`DecisionStream`.
    """

    features = frozenset({"chain", "tree", "probs", "offpath"})

    def __init__(
        self,
        name: str,
        seed: int,
        shape: Shape,
        *,
        prompt_tokens: int,
        tokens: int,
        source: str,
        model: str,
        draft: str | None = None,
    ) -> None:
        super().__init__(name, seed, kind="synthetic", source=source, model=model, requests=UNBOUNDED, draft=draft)
        self.shape = shape
        self.generator = Generator(shape)
        self._prompt_tokens = prompt_tokens
        self._tokens = tokens
        self._blocks: OrderedDict[tuple[int, int], _Block] = OrderedDict()
        self._request_z: dict[int, tuple[float, float]] = {}
        drawn_by = (type(self), name, seed, shape)
        self._nodes: dict[tuple[int, int, int, int], Candidates] = shared("nodes", drawn_by, dict, lambda _: MAX_NODES)

    def prompt_tokens(self, request: int) -> int:
        """Prompt length as asked."""
        self._check_request(request)
        return self._prompt_tokens

    def length(self, request: int) -> int:
        """Output length as asked; positions past it exist too, as a draft may look past the last token."""
        self._check_request(request)
        return self._tokens

    def position(self, request: int, pos: int, depth: int = 0) -> Position:
        """Candidates at `pos`; acceptance and q_1 carry the depth factor to the power of `depth`."""
        block, i = self._at(request, pos)
        drafted = block.drafted
        rank, probs = block.rank[i], drafted.probs[i]
        entropy = float(drafted.draft_entropy[i])
        if depth and self.shape.depth_factor != 1.0:
            factor = self.shape.depth_factor**depth
            rank = self.generator.rank(float(drafted.acceptance[i]) * factor, float(block.uniform[i]))
            probs, entropy = self._scaled(drafted.belief[i : i + 1], entropy, factor)
        return Position(rank, probs, entropy, float(drafted.target_max[i]), float(drafted.target_entropy[i]))

    def accepted(self, request: int, pos: int, n: int) -> int:
        """Leading first choices accepted out of `n`."""
        if self.shape.depth_factor != 1.0:
            return self._accepted_by_depth(request, pos, n)
        count = 0
        while count < n:
            block, i = self._at(request, pos + count)
            run = block.run[i]
            count += run
            if i + run < BLOCK:
                break
        return max(min(count, n), 0)

    def draftable(self, request: int, pos: int, n: int) -> int:
        """All of `n`: a generator has no end."""
        self._at(request, pos)
        return max(n, 0)

    def candidates(self, request: int, pos: int, path: Sequence[int] = ()) -> Candidates:
        """Children of a tree node; off the accepted path its belief is tied to the last one on it."""
        depth = len(path)
        for d, choice in enumerate(path):
            if choice != self.position(request, pos + d, d).rank:
                return self._off_path(request, pos + d, path[d:])
        here = self.position(request, pos + depth, depth)
        return Candidates(here.probs, here.rank, here.draft_entropy, True, True, "synthetic")

    def _accepted_by_depth(self, request: int, pos: int, n: int) -> int:
        factor = 1.0
        for d in range(n):
            block, i = self._at(request, pos + d)
            if block.uniform[i] >= block.drafted.acceptance[i] * factor:
                return d
            factor *= self.shape.depth_factor
        return max(n, 0)

    def _scaled(self, belief: np.ndarray, entropy: float, factor: float) -> tuple[np.ndarray, float]:
        full = self.generator.confidence(belief)
        probs = self.generator.candidates(full * factor)[0]
        probs.setflags(write=False)
        tops = np.array([probs[0], self.generator.candidates(full)[0, 0]])
        here, flat = self.generator.entropy(tops, np.zeros(2))
        return probs, entropy * float(here / flat)

    def _off_path(self, request: int, missed: int, path: Sequence[int]) -> Candidates:
        key = path_key(path)
        node = (request, missed, len(path), key)
        self._offpath.add(node)
        found = self._nodes.get(node)
        if found is None:
            if len(self._nodes) >= MAX_NODES:
                self._nodes.clear()
            found = self._nodes[node] = self._draw_node(request, missed, path, key)
        return found

    def _draw_node(self, request: int, missed: int, path: Sequence[int], key: int) -> Candidates:
        u = self.draws.uniforms(request, missed, len(path), key)
        z_node, z_entropy = normals(u[:, 0], u[:, 1])
        block, i = self._at(request, missed)
        generator = self.generator
        level = generator.request_level(self._request_z[request][0])
        last = (float(block.drafted.belief[i]) - level) / generator.sd_seen if generator.sd_seen else 0.0
        belief = level + generator.sd_seen * offpath_score(last, float(z_node[0]))
        probs = generator.candidates(generator.confidence(np.array([belief])))
        probs.setflags(write=False)
        entropy = float(generator.entropy(probs[:, 0], z_entropy)[0])
        return Candidates(probs[0], 0, entropy, False, True, "synthetic_offpath")

    def _at(self, request: int, pos: int) -> tuple[_Block, int]:
        number, i = divmod(pos, BLOCK)
        block = self._blocks.get((request, number))
        if block is None:
            self._check_request(request)
            if not 0 <= pos < MAX_POSITION:
                raise StreamEndError(f"stream {self.name} has no output position {pos}: they run from 0 to 2**48 - 1")
            block = self._draw(request, number)
            self._blocks[request, number] = block
            if len(self._blocks) > MAX_BLOCKS:
                self._blocks.popitem(last=False)
        return block, i

    def _draw(self, request: int, number: int) -> _Block:
        z_request = self._request_z.get(request)
        if z_request is None:
            z_request = self._request_z[request] = self.draws.request_normals(request)
        u = self.draws.uniforms(request, number * BLOCK, 0, _DRAFT_LANE, BLOCK)
        scatter = self.draws.uniforms(request, number * BLOCK, 0, _SCATTER_LANE, BLOCK)
        z_scatter = normals(scatter[:, 0], scatter[:, 1])
        drafted = self.generator.draft(z_request, normals(u[:, 0], u[:, 1]), z_scatter)
        for column in drafted:
            column.setflags(write=False)
        a, uniform = drafted.acceptance, u[:, 2]
        place = np.searchsorted(self.generator.cumulative, (uniform - a) / (1.0 - a), side="right") + 2
        rank = np.where(uniform < a, 1, np.where(place <= self.shape.candidates, place, 0)).tolist()
        run = [0] * BLOCK
        for i in range(BLOCK - 1, -1, -1):
            if rank[i] == 1:
                run[i] = 1 + (run[i + 1] if i + 1 < BLOCK else 0)
        return _Block(drafted, uniform, rank, run)
