"""How a job keeps buffers in the NPU's address window: the choices of a schedule, or of ``job.mapping``.

Each choice is a frozen set of knobs; :mod:`archsim.workload.runtime` carries them out. What a map costs is the part's
(``map_*`` for plain maps, ``swap_*`` and ``prepare_ps`` for runtimes that swap weights).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from archsim.units import InputError, suggest

#: Bytes of activations and descriptors that stay mapped. Assumed; range 16 to 256 MB.
SCRATCH_BYTES = 64_000_000


@dataclass(frozen=True)
class FirstTouch:
    """A buffer is mapped when a pass first touches it and stays while there is room (layers, ring, head, KV).

    `evict` says what makes room for the rest: ``mru`` keeps what fitted first and swaps the remainder through what is
    left; ``lru`` evicts the least recently used, which in a loop over all layers is always the one needed next.
    `sessions` is the number of windows used (0: all of the device's), `fit` the hole that a buffer takes (``first`` or
    ``best``), `compact` whether buffers are slid together before one is evicted.
    """

    evict: Literal["mru", "lru"] = "mru"
    sessions: int = 0
    fit: Literal["first", "best"] = "first"
    compact: bool = False


@dataclass(frozen=True)
class PerOperator:
    """Every operator maps what it touches (weights, KV rows, activations), is called synchronously, and unmaps."""


@dataclass(frozen=True)
class DropAll:
    """Batches of operators over few large buffers, as ggml does.

    Tensors are packed into buffers of at most the part's ``max_buffer_bytes``; a batch references at most its
    ``map_slots`` buffers and at most `max_ops` operators. When what is mapped and what a batch needs exceed the
    window, every buffer that the batch does not use is unmapped. `sessions`, `fit` and `compact` are as in
    :class:`FirstTouch`. Source of the rule and of the limit of 1024: ggml-hexagon (llama.cpp #21705).
    """

    sessions: int = 1
    fit: Literal["first", "best"] = "first"
    compact: bool = False
    max_ops: int = 1024
    scratch_bytes: int = SCRATCH_BYTES


@dataclass(frozen=True)
class Resident:
    """A resident set, and a remainder of large matrices swapped through `slots` staging slots in every pass.

    A host thread walks the operators ahead of the NPU and prepares each; for a swapped matrix it waits for a free
    slot and maps it. The slot is free again when the operator that reads it has ended. `spread` says which matrices
    are swapped: ``even`` over the pass, or the ``tail``, the last ones. Swapping does not run under what follows the
    layers (the CPU's projection): the thread starts with the pass. Without `overlap` there is no thread ahead: an
    operator is prepared when the one before it has ended.
    """

    spread: Literal["even", "tail"] = "even"
    slots: int = 2
    sessions: int = 1
    scratch_bytes: int = SCRATCH_BYTES
    overlap: bool = True


@dataclass(frozen=True)
class Unmapped:
    """Nothing is ever mapped: an address space wide enough for all; the operators' own calls remain."""


Residency = FirstTouch | PerOperator | DropAll | Resident | Unmapped

#: Choices by their name in ``job.mapping``.
MAPPINGS: Mapping[str, Residency] = {
    "first_touch": FirstTouch(),
    "first_touch_lru": FirstTouch(evict="lru"),
    "per_operator": PerOperator(),
    "drop_all": DropAll(),
    "resident": Resident(),
    "resident_tail": Resident(spread="tail"),
    "resident_sync": Resident(overlap=False),
    "none": Unmapped(),
}


def mapping(name: str) -> Residency:
    """Choice by its name in :data:`MAPPINGS`; an unknown name raises InputError with the known ones."""
    if name not in MAPPINGS:
        raise InputError(f"job.mapping: no mapping {name!r}; {suggest(name, MAPPINGS)}")
    return MAPPINGS[name]
