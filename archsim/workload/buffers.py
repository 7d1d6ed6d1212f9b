"""What a model keeps in an address window: its buffers by layer, packed buffers, and which matrices are swapped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from archsim.config import InputError
from archsim.units import show
from archsim.workload.model import FP32_BYTES, ModelSpec
from archsim.workload.plan import Placement


def pages(nbytes: int, page_bytes: int) -> int:
    """Bytes of the whole pages that hold `nbytes`."""
    return -(-nbytes // page_bytes) * page_bytes


def kv_buffers(kv_bytes: int, layers: int, window_bytes: int, largest_bytes: int, page_bytes: int) -> dict[str, int]:
    """Buffers of a KV cache: one, or those of whole layers of at most `largest_bytes` where one window cannot hold it.

    Raises
    ------
    InputError
        When the keys and values of one layer are larger than a buffer may be.
    """
    each = pages(-(-kv_bytes // layers), page_bytes)
    if kv_bytes <= window_bytes or each > window_bytes:  # one layer beyond the window is refused when it is mapped
        return {"kv": kv_bytes}
    longer = "lower job.prompt_tokens or job.tokens, or raise max_buffer_bytes"
    largest_bytes = min(largest_bytes, window_bytes)
    _, made = pack({f"kv{layer}": each for layer in range(layers)}, largest_bytes, "KV cache", longer)
    return {f"kv{i}": size for i, size in enumerate(made)}


def layer_buffers(model: ModelSpec, place: Placement, kv: dict[str, int], own_head: bool) -> dict[str, int]:
    """Buffers that the passes of a model touch, one per layer, then `kv`, in order: name -> bytes."""
    found = {f"layer{index}": model.layer_bytes for index in range(place.pinned)}
    if place.streams:
        found |= {f"ring{index}": model.layer_bytes for index in range(place.ring)}
    if own_head and place.head_in == "dram":
        found["head"] = model.head_bytes
    return found | kv


def tensors(model: ModelSpec, place: Placement, own_head: bool, page_bytes: int) -> dict[str, int]:
    """Weights of a model by the operator that reads them, in order of execution: name -> bytes in whole pages.

    Layers that are streamed from flash share the ring's buffers (``ring<i>``).
    """
    found = {}
    if model.fc_inputs:
        found["fc"] = model.matrix_bytes(model.matrices[0])
    for layer in range(place.pinned):
        found |= {f"layer{layer}.{matrix.name}": model.matrix_bytes(matrix) for matrix in model.layer_matrices}
        found |= {f"layer{layer}.{norm.name}": FP32_BYTES * norm.parameters for norm in model.layer_norms}
        found |= {f"layer{layer}.{bias.name}": FP32_BYTES * bias.parameters for bias in model.layer_biases}
    if place.streams:
        found |= {f"ring{index}": model.layer_bytes for index in range(place.ring)}
    if own_head and place.head_in == "dram":
        found["head.projection"] = model.head_bytes
    return {name: pages(size, page_bytes) for name, size in found.items()}


def pack(
    sizes: dict[str, int],
    largest_bytes: int,
    what: str,
    remedy: str = "raise max_buffer_bytes or choose another job.mapping",
) -> tuple[dict[str, int], list[int]]:
    """Pack tensors, in order, into buffers of at most `largest_bytes`: buffer of each tensor, and buffer sizes.

    `what` is packed, and what helps is `remedy`, in the words of the error.

    Raises
    ------
    InputError
        When a tensor is larger than a buffer may be.
    """
    where: dict[str, int] = {}
    made: list[int] = []
    for name, size in sizes.items():
        if size > largest_bytes:
            raise InputError(
                f"{what}: {name} of {show(size, 'B')} is larger than a buffer may be, {show(largest_bytes, 'B')}; "
                f"{remedy}"
            )
        if not made or made[-1] + size > largest_bytes:
            made.append(0)
        where[name] = len(made) - 1
        made[-1] += size
    return where, made


def swapped(sizes: Sequence[tuple[str, int]], excess_bytes: int, spread: str) -> list[str]:
    """Names of the matrices to swap so that at least `excess_bytes` need not be resident.

    The candidates are the largest matrices: as few sizes, from the largest down, as hold the excess. They are taken
    evenly over the list (``even``) or from its end (``tail``).

    Parameters
    ----------
    sizes : sequence of (name, bytes)
        Matrices in order of execution.
    excess_bytes : int
        Bytes that do not fit; nothing is swapped when this is not positive.
    spread : str
        ``even`` or ``tail``.
    """
    if excess_bytes <= 0:
        return []
    chosen: list[tuple[str, int]] = []
    for size in sorted({size for _, size in sizes}, reverse=True):
        chosen = [entry for entry in sizes if entry[1] >= size]
        if _total(chosen) >= excess_bytes:
            break
    for n in range(1, len(chosen) + 1):
        spots = range(len(chosen) - n, len(chosen))
        if spread == "even":
            spots = [(2 * i + 1) * len(chosen) // (2 * n) for i in range(n)]
        if _total(chosen[i] for i in spots) >= excess_bytes:
            return [chosen[i][0] for i in spots]
    return [name for name, _ in chosen]


def _total(entries: Iterable[tuple[str, int]]) -> int:
    return sum(size for _, size in entries)
