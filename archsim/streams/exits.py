"""Early-exit recordings (``.npz``): the candidates of drafts that leave the target at a lower layer.

The recording is teacher-forced on the target's own text, so that chains and top-k drafts of any depth along the
accepted path can be replayed from it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from archsim.config import InputError
from archsim.streams.formats import MAX_ENTROPY

MAX_TOKENS = 10_000_000
SUM_TOLERANCE = 5e-3  # half-precision probabilities of one distribution may add up to a little over one
KIND_NAMES = {0: "code", 1: "math", 2: "dialogue"}

_TOKEN_ARRAYS = ("seq", "kind", "pos", "tok", "target_max", "target_ent")
_EXIT_ARRAYS = ("exit_layers", "exit_top8", "exit_q", "exit_ent")
_REQUIRED = ("ids", *_TOKEN_ARRAYS, *_EXIT_ARRAYS)
_LENS = ("lens_max", "lens_ent", "lens_hit", "cos_prev")


class ExitRecords(NamedTuple):
    """Columns by output token (T), recorded exit (E), candidate (K) and layer (L).

    Request r has tokens ``start[r]:start[r+1]``. ``rank`` [T, E] is the rank of the target's token among the
    candidates, 0 when it is not among them; ``prob`` [T, E, K] are draft probabilities, ``draft_entropy`` [T, E]
    and ``target_entropy`` [T] are in nats. ``lens`` holds the raw per-layer logit lens where it was recorded:
    ``lens_max``, ``lens_ent``, ``lens_hit`` and ``cos_prev``, each [T, L].
    """

    ids: tuple[str, ...]
    kinds: tuple[str, ...]
    start: np.ndarray
    token: np.ndarray
    layers: tuple[int, ...]
    candidate: np.ndarray
    rank: np.ndarray
    prob: np.ndarray
    draft_entropy: np.ndarray
    target_max: np.ndarray
    target_entropy: np.ndarray
    lens: dict[str, np.ndarray]


def load_exits(path: Path, arrays: dict[str, np.ndarray]) -> ExitRecords:
    """Validate the arrays of an early-exit recording and gather them."""
    for name in _REQUIRED:
        if name not in arrays:
            raise InputError(f"{path}: array {name!r} is missing; an exit recording has {', '.join(_REQUIRED)}")
    for name in arrays:
        if name not in _REQUIRED + _LENS:
            raise InputError(f"{path}: unknown array {name!r}; an exit recording has {', '.join(_REQUIRED + _LENS)}")
    ids = _ids(path, arrays["ids"])
    tokens = arrays["tok"].shape[0] if arrays["tok"].ndim == 1 else 0
    if not 0 < tokens <= MAX_TOKENS:
        raise InputError(f"{path}: array 'tok' has shape {arrays['tok'].shape}; it needs 1 to {MAX_TOKENS} tokens")
    layers = _integers(path, arrays, "exit_layers", (arrays["exit_layers"].size,), low=1)
    exits = len(layers)
    width = arrays["exit_top8"].shape[2] if arrays["exit_top8"].ndim == 3 else 0
    if not exits or not width or len(set(layers.tolist())) != exits:
        raise InputError(
            f"{path}: exit_layers {layers.tolist()} and exit_top8 {arrays['exit_top8'].shape} do not name exits"
        )
    token = _integers(path, arrays, "tok", (tokens,))
    candidate = _integers(path, arrays, "exit_top8", (tokens, exits, width))
    prob = _floats(path, arrays, "exit_q", (tokens, exits, width), 1.0)
    _check_candidates(path, candidate, prob)
    start, kinds = _requests(path, arrays, tokens, len(ids))
    hit = candidate == token[:, None, None]
    lens = {name: _lens(path, arrays, name, tokens) for name in _LENS if name in arrays}
    return ExitRecords(
        ids,
        kinds,
        start,
        token,
        tuple(layers.tolist()),
        candidate,
        np.where(hit.any(axis=2), hit.argmax(axis=2) + 1, 0),
        prob,
        _floats(path, arrays, "exit_ent", (tokens, exits), MAX_ENTROPY),
        _floats(path, arrays, "target_max", (tokens,), 1.0),
        _floats(path, arrays, "target_ent", (tokens,), MAX_ENTROPY),
        lens,
    )


def _ids(path: Path, array: np.ndarray) -> tuple[str, ...]:
    if array.ndim != 1 or array.dtype.kind != "U" or not len(array):
        raise InputError(f"{path}: array 'ids' must be a non-empty list of texts, not {array.dtype} {array.shape}")
    ids = tuple(str(name) for name in array)
    twice = [name for index, name in enumerate(ids) if name in ids[:index]]
    if twice:
        raise InputError(f"{path}: ids[{ids.index(twice[0], ids.index(twice[0]) + 1)}]: {twice[0]!r} appears twice")
    return ids


def _requests(path: Path, arrays: dict[str, np.ndarray], tokens: int, count: int) -> tuple[np.ndarray, tuple[str, ...]]:
    seq = _integers(path, arrays, "seq", (tokens,), high=count - 1)
    pos = _integers(path, arrays, "pos", (tokens,))
    kind = _integers(path, arrays, "kind", (tokens,), high=max(KIND_NAMES))
    step = np.diff(seq, prepend=-1)
    bad = np.flatnonzero((step != 0) & (step != 1))
    if len(bad) or seq[-1] != count - 1:
        row = int(bad[0]) if len(bad) else tokens - 1
        raise InputError(
            f"{path}: seq[{row}] is {seq[row]}; requests follow each other as 0 to {count - 1} without a gap"
        )
    start = np.append(np.flatnonzero(step), tokens)
    expected = np.arange(tokens) - start[seq]
    bad = np.flatnonzero(pos != expected)
    if len(bad):
        row = int(bad[0])
        raise InputError(f"{path}: pos[{row}] is {pos[row]} where {expected[row]} follows; positions count up by one")
    bad = np.flatnonzero(kind != kind[start[seq]])
    if len(bad):
        raise InputError(f"{path}: kind[{int(bad[0])}] differs from the kind of its request; a request has one kind")
    return start, tuple(KIND_NAMES[int(kind[row])] for row in start[:-1])


def _check_candidates(path: Path, candidate: np.ndarray, prob: np.ndarray) -> None:
    rising = np.argwhere(np.diff(prob, axis=2) > 0)
    if len(rising):
        t, e, k = (int(i) for i in rising[0])
        raise InputError(f"{path}: exit_q[{t},{e},{k + 1}] is more than the candidate before it; sort candidates by q")
    total = prob.sum(axis=2)
    over = np.argwhere(total > 1 + SUM_TOLERANCE)
    if len(over):
        t, e = (int(i) for i in over[0])
        raise InputError(
            f"{path}: exit_q[{t},{e}] adds up to {total[t, e]:.4f}; one token's candidates add up to 1 at most"
        )
    ordered = np.sort(candidate, axis=2)
    twice = np.argwhere(np.diff(ordered, axis=2) == 0)
    if len(twice):
        t, e, _ = (int(i) for i in twice[0])
        raise InputError(f"{path}: exit_top8[{t},{e}] names a token twice")


def _shape(path: Path, arrays: dict[str, np.ndarray], name: str, shape: tuple[int, ...]) -> np.ndarray:
    array = arrays[name]
    if array.shape != shape:
        raise InputError(f"{path}: array {name!r} has shape {array.shape} where {shape} is needed")
    return array


def _integers(
    path: Path, arrays: dict[str, np.ndarray], name: str, shape: tuple[int, ...], low: int = 0, high: int = 2**31
) -> np.ndarray:
    array = _shape(path, arrays, name, shape)
    if array.dtype.kind not in "iu":
        raise InputError(f"{path}: array {name!r} must hold whole numbers, not {array.dtype}")
    bad = np.argwhere((array < low) | (array > high))
    if len(bad):
        place = ",".join(str(int(i)) for i in bad[0])
        raise InputError(f"{path}: {name}[{place}] is {array[tuple(bad[0])]}, not within {low} to {high}")
    return array.astype(np.int64)


def _floats(
    path: Path, arrays: dict[str, np.ndarray], name: str, shape: tuple[int, ...], high: float, low: float = 0.0
) -> np.ndarray:
    array = _shape(path, arrays, name, shape)
    if array.dtype.kind != "f":
        raise InputError(f"{path}: array {name!r} must hold floating-point numbers, not {array.dtype}")
    values = array.astype(np.float64)
    bad = np.argwhere(~((values >= low) & (values <= high)))
    if len(bad):
        place = ",".join(str(int(i)) for i in bad[0])
        raise InputError(f"{path}: {name}[{place}] is {values[tuple(bad[0])]:g}, not within {low:g} to {high:g}")
    return values


def _lens(path: Path, arrays: dict[str, np.ndarray], name: str, tokens: int) -> np.ndarray:
    array = arrays[name]
    if array.ndim != 2:
        raise InputError(f"{path}: array {name!r} has shape {array.shape} where ({tokens}, layers) is needed")
    first = next(arrays[other] for other in _LENS if other in arrays)  # the others have as many layers as this one
    shape = (tokens, first.shape[1] if first.ndim == 2 else array.shape[1])
    if name == "lens_hit":
        if _shape(path, arrays, name, shape).dtype.kind != "b":
            raise InputError(f"{path}: array {name!r} must hold truth values, not {array.dtype}")
        return array
    limits = {"lens_max": (0.0, 1.0), "lens_ent": (0.0, MAX_ENTROPY), "cos_prev": (-1.001, 1.001)}
    low, high = limits[name]
    return _floats(path, arrays, name, shape, high, low)
