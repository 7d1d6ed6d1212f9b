"""Recorded token trees as a stream: every node known, on the accepted path or not, and no node beyond the leaves."""

from __future__ import annotations

from collections.abc import Sequence

from archsim.streams.formats import TreeRecords
from archsim.streams.interface import NO_PROBS, Candidates, Position, StreamEndError, TreeStep
from archsim.streams.recorded import RecordedStream

_NAN = float("nan")
_NOTHING = Candidates(NO_PROBS, 0, _NAN, True, False, "none")


class TreeStream(RecordedStream):
    """Recorded token trees. A node's children are its recorded ones; a leaf is not expandable.

    A position inside a step's accepted path is served by the subtree that hangs there. The first output token of a
    request comes from the prefill, so position 0 has no candidates.
    """

    features = frozenset({"chain", "tree", "probs", "steps", "records"})

    def __init__(self, name: str, seed: int, recording: TreeRecords, **common: object) -> None:
        super().__init__(name, seed, ids=recording.ids, **common)
        self._records = recording
        self._first = recording.first.tolist()
        self._pos = recording.pos.tolist()
        self._start = recording.start.tolist()
        self._acc = recording.acc_start.tolist()
        self._accepted = recording.accepted.tolist()
        self._children: list[list[int]] = [[] for _ in range(len(recording.token))]
        self._roots: list[list[int]] = [[] for _ in self._pos]
        for step, begin in enumerate(self._start[:-1]):
            for node, parent in enumerate(recording.parent[begin : self._start[step + 1]].tolist()):
                (self._roots[step] if parent < 0 else self._children[begin + parent]).append(begin + node)
        self._where = [self._positions(request) for request in range(self.requests)]

    @property
    def records(self) -> TreeRecords:
        """All columns of the recording."""
        return self._records

    def length(self, request: int) -> int:
        """Output tokens up to the bonus token of the last recorded step."""
        self._check_request(request)
        return len(self._where[request])

    def steps(self, request: int) -> int:
        """Recorded verifications of the request."""
        self._check_request(request)
        return self._first[request + 1] - self._first[request]

    def tree_step(self, request: int, step: int) -> TreeStep:
        """Columns of one recorded verification."""
        if not 0 <= step < self.steps(request):
            raise StreamEndError(
                f"stream {self.name} request {request} has no step {step}: it has {self.steps(request)}"
            )
        s = self._first[request] + step
        part = slice(self._start[s], self._start[s + 1])
        r = self._records
        columns = (r.token, r.parent, r.depth, r.prob, r.cumulative, r.draft_entropy, r.target_prob, r.target_entropy)
        accepted = r.accepted[self._acc[s] : self._acc[s + 1]]
        return TreeStep(self._pos[s], *(column[part] for column in columns), accepted, int(r.bonus[s]))

    def position(self, request: int, pos: int, depth: int = 0) -> Position:
        """Recorded children of the accepted node before `pos`; without candidates (rank 0) behind a recorded leaf.

        ``target_max`` is recorded only where the target's token is one of the children.
        """
        found = self.candidates(request, pos)
        if not found.expandable:
            return Position(0, NO_PROBS, _NAN, _NAN, _NAN)
        target = self._target(request, pos)
        likely = _NAN if target is None else float(self._records.target_prob[target])
        entropy = float(self._records.target_entropy[self._kids(request, self._node(request, pos))[0]])
        return Position(found.target_rank, found.probs, found.draft_entropy, likely, entropy)

    def draftable(self, request: int, pos: int, n: int) -> int:
        """Length of the recorded chain of first choices from `pos` on, `n` at most."""
        if pos == self.length(request):
            return 0
        return min(len(self._chain(request, pos, n)), max(n, 0))

    def accepted(self, request: int, pos: int, n: int) -> int:
        """Leading first choices accepted, as far as the recorded tree goes."""
        count = 0
        for node in self._chain(request, pos, n):
            if pos + count >= self.length(request) or self._target(request, pos + count) != node:
                break
            count += 1
        return count

    def candidates(self, request: int, pos: int, path: Sequence[int] = ()) -> Candidates:
        """Recorded children of a node; a recorded leaf is counted in ``off_trace_nodes``."""
        self._check_position(request, pos)
        node = self._node(request, pos)
        on_path = True
        for d, choice in enumerate(path):
            kids = self._kids(request, node)
            if not 1 <= choice <= len(kids):
                raise StreamEndError(
                    f"stream {self.name} request {request} has no child {choice} after {tuple(path[:d])} at output "
                    f"position {pos}: the recorded node has {len(kids)}"
                )
            node = kids[choice - 1]
            on_path = on_path and pos + d < self.length(request) and self._target(request, pos + d) == node
        kids = self._kids(request, node)
        if not kids:
            self._offtrace.add((request, pos + len(path), -1 if node is None else node))
            return _NOTHING._replace(on_path=on_path)
        target = self._target(request, pos + len(path)) if on_path else None
        rank = kids.index(target) + 1 if target in kids else 0
        return Candidates(
            self._records.prob[kids], rank, float(self._records.draft_entropy[kids[0]]), on_path, True, "recorded"
        )

    def _positions(self, request: int) -> list[tuple[int | None, int | None]]:
        """By output position: (node whose children stand for it, recorded node of the target's token).

        The first is a global node index, ``-1 - step`` for a step's root, None behind a leaf or the prefill.
        """
        where: list[tuple[int | None, int | None]] = [(None, None)] * self._pos[self._first[request]]
        for s in range(self._first[request], self._first[request + 1]):
            above = -1 - s
            for node in self._accepted[self._acc[s] : self._acc[s + 1]]:
                where.append((above, self._start[s] + node))
                above = self._start[s] + node
            where.append((above if self._kids(request, above) else None, None))
        return where

    def _node(self, request: int, pos: int) -> int | None:
        self._check_position(request, pos)
        return self._where[request][pos][0]

    def _target(self, request: int, pos: int) -> int | None:
        return self._where[request][pos][1]

    def _kids(self, request: int, node: int | None) -> list[int]:
        if node is None:
            return []
        return self._roots[-1 - node] if node < 0 else self._children[node]

    def _chain(self, request: int, pos: int, n: int) -> list[int]:
        node, chain = self._node(request, pos), []
        while len(chain) < n:
            kids = self._kids(request, node)
            if not kids:
                break
            node = kids[0]
            chain.append(node)
        return chain
