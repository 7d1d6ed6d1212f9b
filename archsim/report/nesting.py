"""Rows of a trace nested by pass, layer and operator, for viewers that show them one below the other.

The trace names the operator of a row but not its layer. A layer is a template that is tiled, so in the order of row
ids an operator's n-th appearance in a block belongs to its n-th layer; where the block's once-a-pass operators (the
embedding, the head) appear several times it holds that many passes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archsim.trace import Trace

#: Operators that a pass runs once, by the beginning of their names.
_ONCE = ("embed.", "head.")
#: Operators that every layer runs once.
_TILED = ("attn.", "ffn.", "layer.")


@dataclass(frozen=True)
class Nesting:
    """Rows that ran on a unit for some time, by unit and start.

    Attributes
    ----------
    row : int64 [n]
        Positions in the trace's ``rows``.
    unit, block, op : int64 [n]
        Unit; positions in ``blocks`` and ``ops`` (-1: none).
    turn, layer : int64 [n]
        Pass within the block and layer within the pass; -1 where the row belongs to no layer.
    start_ps, end_ps : int64 [n]
        When it ran.
    names : list of str
        Operators by name; `name` indexes it.
    name : int64 [n]
        Name of the row's operator.
    """

    row: np.ndarray
    unit: np.ndarray
    block: np.ndarray
    op: np.ndarray
    turn: np.ndarray
    layer: np.ndarray
    start_ps: np.ndarray
    end_ps: np.ndarray
    names: list[str]
    name: np.ndarray

    def heads(self, *levels: np.ndarray) -> np.ndarray:
        """Positions at which a stretch of equal `levels` on one unit begins; stretches never cross."""
        if not len(self.row):
            return np.empty(0, dtype=np.int64)
        apart = self.unit[1:] != self.unit[:-1]
        for level in levels:
            apart |= level[1:] != level[:-1]
        return np.flatnonzero(np.append(True, apart))

    def blocks(self) -> np.ndarray:
        """Where stretches of one block begin."""
        return self.heads(self.block)

    def layers(self) -> np.ndarray:
        """Where stretches of one layer begin."""
        return self.heads(self.block, self.turn, self.layer)

    def operators(self) -> np.ndarray:
        """Where stretches of one operator begin."""
        return self.heads(self.block, self.turn, self.layer, self.name)


def nest(trace: Trace) -> Nesting:
    """Rows of a trace that took time on a unit, with the pass, layer and operator each belongs to."""
    turn, layer, name, names = _places(trace)
    rows = trace.rows
    ran = np.flatnonzero(trace.ran & (rows["unit"] >= 0))
    ran = ran[np.lexsort((rows["row"][ran], trace.row_end_ps[ran], rows["start_ps"][ran], rows["unit"][ran]))]
    return Nesting(
        row=ran,
        unit=rows["unit"][ran],
        block=trace.row_block[ran],
        op=trace.row_op[ran],
        turn=turn[ran],
        layer=layer[ran],
        start_ps=rows["start_ps"][ran],
        end_ps=trace.row_end_ps[ran],
        names=names,
        name=name[ran],
    )


def _places(trace: Trace) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Pass, layer and name of every row of the trace, and the names."""
    rows, op = trace.rows, trace.row_op
    names, of_op = np.unique(np.append(trace.ops["name"].astype(str), ""), return_inverse=True)
    name = of_op.astype(np.int64)[op]  # -1 is the last entry, the empty name
    turn, layer = np.full(len(op), -1, dtype=np.int64), np.full(len(op), -1, dtype=np.int64)
    order = np.lexsort((rows["row"], trace.row_block))
    order = order[op[order] >= 0]
    if not len(order):
        return turn, layer, name, names.tolist()
    block, what, part = trace.row_block[order], name[order], op[order]
    # An appearance: successive rows of one operator; a part that comes again begins another one.
    first = np.append(True, (block[1:] != block[:-1]) | (what[1:] != what[:-1]) | (part[1:] <= part[:-1]))
    appearance = np.cumsum(first) - 1
    heads = np.flatnonzero(first)
    key = block[heads] * len(names) + what[heads]
    kinds, which, count = np.unique(key, return_inverse=True, return_counts=True)
    sort = np.argsort(which, kind="stable")
    rank = np.empty(len(key), dtype=np.int64)
    rank[sort] = np.arange(len(key)) - np.repeat(np.cumsum(count) - count, count)
    of_block, called = kinds // len(names), kinds % len(names)
    once, tiled = (np.array([text.startswith(begin) for text in names.tolist()], dtype=bool)[called]
                   for begin in (_ONCE, _TILED))  # fmt: skip
    passes, depth = (np.ones(int(block.max()) + 2, dtype=np.int64) for _ in range(2))
    np.maximum.at(passes, of_block[once], count[once])
    each = passes[of_block]
    whole = count % each == 0  # not where a pass was cut short: its appearances count as passes
    deep = np.where(whole & ~once, count // each, 1)
    np.maximum.at(depth, of_block[tiled], deep[tiled])
    layered = (deep > 1) & (deep == depth[of_block])
    turn[order] = (rank // deep[which])[appearance]
    layer[order] = np.where(layered[which], rank % deep[which], -1)[appearance]
    return turn, layer, name, names.tolist()
