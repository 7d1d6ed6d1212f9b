"""Random streams of the reference flash simulator, reproducible by seed.

The generator is L'Ecuyer's combined multiple recursive generator MRG32k3a. Seed `n` starts both components at
(1, 1, 1) and jumps ahead by ``(n // 200 + 1) * 2**(n % 200)`` steps, but the reference computes the jump with products
that overflow 64 bits, so its start states are not those of the true jump; the overflow is reproduced here.

Source: MQSim (CMU-SAFARI, commit 7ec40e3), random numbers of synthetic flows: request types take the flow's seed,
addresses the seed after it.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from archsim.jit import borrower

MODULI = (4294967087, 4294944443)
#: Companion matrices of the two recurrences; negative coefficients count from the modulus.
MATRICES = (
    ((0, 1, 0), (0, 0, 1), (MODULI[0] - 810728, 1403580, 0)),
    ((0, 1, 0), (0, 0, 1), (MODULI[1] - 1370589, 0, 527612)),
)
MODULUS = np.array(MODULI, np.int64).reshape(2, 1, 1)


def _times(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Products of matrices int64[2, 3, n], one for each component; sums overflow and remainders keep their sign."""
    total = np.zeros(right.shape, np.int64)
    for inner in range(3):
        total = np.fmod(left[:, :, inner, None] * right[:, None, inner] + total, MODULUS)
    return total


@cache
def _power(doubled: int) -> np.ndarray:
    """Companion matrices, squared `doubled` times."""
    if doubled == 0:
        return np.array(MATRICES, np.int64)
    half = _power(doubled - 1)
    return _times(half, half)


def start_state(seed: int) -> np.ndarray:
    """Start state of a stream.

    Parameters
    ----------
    seed : int
        0 to 2**31 - 1.

    Returns
    -------
    int64[6]
        Three values of each component, oldest first, reduced by the component's modulus.
    """
    for doubled in range(seed % 200):  # one after the other, so that the depth of recursion stays small
        _power(doubled)
    power, column, steps = _power(seed % 200), np.ones((2, 3, 1), np.int64), seed // 200 + 1
    while steps:
        if steps & 1:
            column = _times(power, column)
        steps >>= 1
        if steps:
            power = _times(power, power)
    return (column % MODULUS).ravel()


@borrower
def draw(state):
    """Draw the next number of a stream, in (0, 1); advances `state` (int64[6]) in place."""
    # 2.328306549295728e-10 is 1 / (first modulus + 1) as the reference rounds it.
    first = (1403580 * state[1] - 810728 * state[0]) % 4294967087
    second = (527612 * state[5] - 1370589 * state[3]) % 4294944443
    state[0], state[1], state[2] = state[1], state[2], first
    state[3], state[4], state[5] = state[4], state[5], second
    gap = first - second
    if gap < 0:
        gap += 4294967087
    return (gap + 1.0) * 2.328306549295728e-10
