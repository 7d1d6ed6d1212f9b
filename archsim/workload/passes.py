"""What a plan is asked for: the placement of a model, and one pass of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from archsim.workload.model import ModelSpec


@dataclass(frozen=True)
class Placement:
    """Where the parts of one model live and run.

    `layers_on` and `head_on` are device names of the system in order of preference; the first that is there and runs
    an operator gets it; `batch_on` takes the place of `layers_on` in batched passes. `ring` is the number of layer
    buffers that a reader of flash may fill ahead, `pinned` the number of layers, from the first, that DRAM holds (set
    from the job's DRAM budget). `beside` are devices that take a share of the columns of every product
    (:attr:`Pass.beside`) and run it at the same time. `shares` names the role whose weights this one computes with (the
    same model on other devices); they are not stored twice. With `uncached_logits` the CPU reads logits that another
    device wrote past its caches.
    """

    layers_in: Literal["dram", "flash"] = "dram"
    head_in: Literal["dram", "flash"] = "dram"
    layers_on: tuple[str, ...] = ("npu", "gpu", "cpu")
    head_on: tuple[str, ...] = ("cpu",)
    batch_on: tuple[str, ...] = ()
    ring: int = 6
    pinned: int = 0
    beside: tuple[str, ...] = ()
    shares: str = ""
    uncached_logits: bool = False

    def within(self, model: ModelSpec, dram_fraction: float) -> Placement:
        """Placement under a DRAM budget: the first layers are pinned.

        With all layers pinned, or when the projection is the embedding table itself, the projection is in DRAM too.
        """
        pinned = round(dram_fraction * model.layers) if self.layers_in == "flash" else model.layers
        whole = pinned == model.layers
        head_in = "dram" if model.tied_embeddings or (whole and self.layers_in == "flash") else self.head_in
        return replace(self, layers_in="dram" if whole else "flash", head_in=head_in, pinned=pinned)

    @property
    def streams(self) -> bool:
        """Whether anything is read from flash in a pass."""
        return "flash" in (self.layers_in, self.head_in)


@dataclass(frozen=True)
class Pass:
    """One pass of a model: all that its plan depends on.

    Parameters
    ----------
    role, phase : str
        Whose model, and the phase of :mod:`archsim.workload.graph`.
    rows, kv : int
        Rows of the pass and cached rows before it.
    projected, leaves, depths
        See :func:`archsim.workload.ops.ops_of`; with ``projected=0`` the pass has no tail.
    spilled : int
        Cached rows that live in flash: every layer reads them back before its attention.
    first, last : int
        Layers ``first <= layer < last``; the look-up belongs to the first layer, the tail to the last.
    reads : str
        ``own``: the block reads the flash-resident layers that it runs. ``ahead``: it is these reads alone, which may
        run while a policy decides. ``landed``: it waits, layer by layer, for the reads of an ``ahead`` block.
    batched : bool
        Whether it runs where the placement's ``batch_on`` says.
    beside : int
        Columns of every product, in 1024ths, that the placement's `beside` devices compute.
    """

    role: str
    phase: str
    rows: int = 1
    kv: int = 0
    projected: int | None = None
    leaves: int = 1
    depths: tuple[int, ...] | None = None
    spilled: int = 0
    first: int = 0
    last: int | None = None
    reads: Literal["own", "ahead", "landed"] = "own"
    batched: bool = False
    beside: int = 0

    @cached_property
    def shape(self) -> Pass:
        """The pass without its cached length."""
        return replace(self, kv=0)

    def at(self, kv: int) -> Pass:
        """The same pass behind another cached length."""
        made = object.__new__(Pass)
        vars(made).update(vars(self), kv=kv, shape=self.shape)
        return made
