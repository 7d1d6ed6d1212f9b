"""Runs of one matrix by number of tokens, each continued from the last: passes over the weights are walked once.

A pass ends with a blocking read-out, when nothing is under way in any channel: the state of the kernel then does not
depend on what follows, so the run of one pass more goes on there. A run of ``k`` passes is that state and the barrier.
"""

from __future__ import annotations

import numpy as np

from archsim.devices.pim import commands, state
from archsim.devices.pim.gemv import END, Plan, lower, pass_lines, plan_gemv, slice_counts
from archsim.devices.pim.isa import Program
from archsim.devices.pim.replay import advance, check, counts_of, load_kernel
from archsim.devices.pim.standard import PimStandard

_NO_LOG = np.empty((0, 2), np.int64)


class Passes:
    """Runs of ``[tokens, inner] x [inner, out]`` with the inputs in `slices` parts.

    Parameters
    ----------
    out, inner, dtype, fence, slices
        As of :func:`archsim.devices.pim.gemv.plan_gemv`.
    """

    def __init__(
        self, standard: PimStandard, out: int, inner: int, *, dtype: str, fence: bool = False, slices: int = 1
    ) -> None:
        self.standard, self.fence = standard, fence
        self._shape = {"out": out, "inner": inner, "dtype": dtype, "slices": slices}
        self._found: dict[int, tuple[int, np.ndarray]] = {}
        self._start()

    def _start(self) -> None:
        """Nothing walked."""
        self._done, self._state = 0, np.empty(0, np.int64)

    def plan(self, tokens: int) -> Plan:
        """Layout for `tokens` vectors."""
        return plan_gemv(self.standard, tokens=tokens, **self._shape)

    def program(self, tokens: int) -> Program:
        """The program that :meth:`run` gives the outcome of."""
        return lower(self.standard, self.plan(tokens), fence=self.fence)

    def run(self, tokens: int) -> tuple[int, np.ndarray]:
        """Cycles and counts over all channels [commands] of `tokens` vectors.

        Raises
        ------
        InputError
            As :func:`archsim.devices.pim.gemv.lower`.
        PimError
            The program can never end.
        """
        if tokens not in self._found:
            self._walk(tokens)
        return self._found[tokens]

    def _walk(self, tokens: int) -> None:
        at_once = self.standard.compute.tokens_per_pass
        pieces = pass_lines(self.standard, self.plan(tokens), fence=self.fence)
        whole, rest = divmod(tokens, at_once)
        if self._done > whole or not self._done:
            self._begin(pieces[0][0])
        for _ in range(self._done, whole):
            self._go_on(self._state, pieces[0][0])
            self._done += 1
            self._found[self._done * at_once] = self._end(self._state.copy())
        if rest:
            last = self._state.copy()
            self._go_on(last, pieces[-1][0])
            self._found[tokens] = self._end(last)

    def _begin(self, lines: np.ndarray) -> None:
        """State before the first instruction, and the classes of channels: those that compute, and the rest."""
        check(self.standard, lines)
        load_kernel()
        plan, channels = self.plan(1), self.standard.organisation["channels"]
        on = np.zeros((2, channels), np.int64)
        on[0, : plan.channels * plan.slices] = on[1] = 1
        self._on, self._which = commands.classes(Program(np.concatenate([lines[:1], END]), on))
        self._done, self._state = 0, state.new_state(self.standard, self._on.shape[1])

    def _go_on(self, m: np.ndarray, lines: np.ndarray) -> None:
        """Run one pass; barriers of fences go to all channels."""
        m[state.LINE] = 0
        on = np.where(lines[:, state.F_KIND : state.F_KIND + 1] == state.K_BARRIER, self._on[1], self._on[0])
        advance(m, lines, np.ascontiguousarray(on), _NO_LOG)

    def _end(self, m: np.ndarray) -> tuple[int, np.ndarray]:
        """Run the barrier."""
        m[state.LINE] = 0
        cycles = advance(m, END, self._on[1:], _NO_LOG)
        return cycles, counts_of(m, self._which).sum(axis=0)


def layouts(standard: PimStandard, out: int, inner: int, *, dtype: str, fence: bool) -> list[Passes]:
    """Layouts to choose from: the cuts of the inputs of :func:`archsim.devices.pim.gemv.slice_counts`."""
    return [
        Passes(standard, out, inner, dtype=dtype, fence=fence, slices=slices) for slices in slice_counts(standard, True)
    ]


def fastest(choice: list[Passes], tokens: int) -> Passes:
    """Layout with the fewest cycles for `tokens` vectors, the first on a tie."""
    return min(choice, key=lambda passes: passes.run(tokens)[0])
