"""Counter-based random numbers: a draw is a function of what it is for, never of when it is asked.

The generator is Philox4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) as numpy
implements it. The key is the seed and a hash of the stream's name; the counter is (output position, depth, rank or
lane, request). Each counter gives four 64-bit words.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.random import Philox

from archsim.config import InputError

WORDS = 4
MAX_NOISE = 256

_MASK64 = (1 << 64) - 1
_REQUEST_LANE = _MASK64  # in the depth word: draws that belong to a whole request
_NOISE_LANE = 1 << 32  # in the depth word: predictor noise, apart from the draws of the nodes themselves
_HALF_STEP = 2.0**-54
_STEP = 2.0**-53


class Draws:
    """Draws of one stream under one seed.

    Parameters
    ----------
    seed : int
        0 <= seed < 2**64.
    name : str
        Stream name; streams of different names are independent.
    """

    def __init__(self, seed: int, name: str) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= int(seed) <= _MASK64:
            raise InputError(f"seed must be a whole number from 0 to 2**64 - 1, not {seed!r}; set job.seed")
        stream = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
        self._bits = Philox(key=np.array([int(seed), stream], dtype=np.uint64))
        self._state = self._bits.state

    def words(self, request: int, pos: int, depth: int = 0, lane: int = 0, count: int = WORDS) -> np.ndarray:
        """`count` raw uint64 words from the counter (pos, depth, lane, request) on; pos advances every four words."""
        self._state["state"]["counter"][:] = (pos, depth & _MASK64, lane & _MASK64, request)
        self._state["buffer_pos"] = WORDS  # nothing buffered: the next word starts a fresh counter
        self._bits.state = self._state
        return self._bits.random_raw(count)

    def uniforms(self, request: int, pos: int, depth: int = 0, lane: int = 0, positions: int = 1) -> np.ndarray:
        """Uniform numbers in (0, 1), float64 [positions, 4]: row i belongs to output position pos + i."""
        raw = self.words(request, pos, depth, lane, WORDS * positions)
        return ((raw >> np.uint64(11)).astype(np.float64) * _STEP + _HALF_STEP).reshape(positions, WORDS)

    def request_normals(self, request: int) -> tuple[float, float]:
        """Two standard normal numbers that belong to a request as a whole."""
        u = self.uniforms(request, 0, _REQUEST_LANE)
        first, second = normals(u[:, 0], u[:, 1])
        return float(first[0]), float(second[0])

    def noise(self, request: int, pos: int, depth: int, lane: int, n: int) -> np.ndarray:
        """Standard normal numbers [n], n <= 256, of one tree node."""
        if not 0 < n <= MAX_NOISE:
            raise InputError(f"predictor noise is drawn for 1 to {MAX_NOISE} candidates, not {n}")
        rows = -(-n // WORDS)
        u = self.uniforms(request, pos * (MAX_NOISE // WORDS), _NOISE_LANE + depth, lane, rows)
        first, second = normals(u[:, 0::2], u[:, 1::2])
        return np.stack((first, second), axis=-1).reshape(-1)[:n]


def normals(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two independent standard normal arrays from two uniform ones in (0, 1) (Box and Muller)."""
    radius = np.sqrt(-2.0 * np.log(u))
    angle = (2.0 * np.pi) * v
    return radius * np.cos(angle), radius * np.sin(angle)
