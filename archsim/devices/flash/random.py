"""Random streams of the reference flash simulator, reproducible by seed.

The generator is L'Ecuyer's combined multiple recursive generator MRG32k3a. Seed `n` starts both components at
(1, 1, 1) and jumps ahead by ``(n // 200 + 1) * 2**(n % 200)`` steps, but the reference computes the jump with products
that overflow 64 bits, so its start states are not those of the true jump; the overflow is reproduced here.

Source: MQSim (CMU-SAFARI, commit 7ec40e3), random numbers of synthetic flows: request types take the flow's seed,
addresses the seed after it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

MODULI = (4294967087, 4294944443)
#: Companion matrices of the two recurrences; negative coefficients count from the modulus.
MATRICES = (
    ((0, 1, 0), (0, 0, 1), (MODULI[0] - 810728, 1403580, 0)),
    ((0, 1, 0), (0, 0, 1), (MODULI[1] - 1370589, 0, 527612)),
)
MASK = (1 << 64) - 1


def _wrapped(value: int) -> int:
    """Value of a 64-bit signed product that overflowed."""
    value &= MASK
    return value - (1 << 64) if value >> 63 else value


def _remainder(value: int, modulus: int) -> int:
    """Remainder with the sign of the dividend, as machine division gives it."""
    rest = abs(value) % modulus
    return -rest if value < 0 else rest


def _times(matrix, columns, modulus: int):
    """Matrix times matrix (rows of tuples) with overflowing sums."""
    product = []
    for row in matrix:
        line = []
        for column in zip(*columns, strict=True):
            total = 0
            for left, right in zip(row, column, strict=True):
                total = _remainder(_wrapped(left * right + total), modulus)
            line.append(total)
        product.append(tuple(line))
    return tuple(product)


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
    state = []
    for modulus, companion in zip(MODULI, MATRICES, strict=True):
        power, column, steps = companion, ((1,), (1,), (1,)), seed // 200 + 1
        for _ in range(seed % 200):
            power = _times(power, power, modulus)
        while steps:
            if steps & 1:
                column = _times(power, column, modulus)
            steps >>= 1
            if steps:
                power = _times(power, power, modulus)
        state += [entry[0] % modulus for entry in column]
    return np.array(state, np.int64)


@njit(cache=True)
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
