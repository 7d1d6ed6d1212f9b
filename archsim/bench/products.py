"""A loop as fast as the machine's clock; in a file of its own, so that an edit of a benchmark leaves kernels in use."""

import numpy as np
from numba import njit


@njit(cache=True)
def products(steps):
    """A chain of `steps` dependent products."""
    x = np.int64(steps)
    for i in range(steps):
        x = x * 6364136223846793005 ^ i
    return x
