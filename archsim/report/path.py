"""The kernel that follows a path back through the rows of a trace.

It has a file of its own so that an edit of a report leaves compiled kernels in use.
"""

import numpy as np
from numba import njit


@njit(cache=True)
def follow(start, end, unit, block, now):
    """Rows of the path from `now` back, as positions in the rows of ascending `end`."""
    path = np.empty(len(end), dtype=np.int64)
    n, reach, current = 0, len(end), -1
    while now > 0:
        while reach > 0 and end[reach - 1] > now:
            reach -= 1
        if reach == 0:
            break
        now = end[reach - 1]
        best = reach - 1
        if current >= 0:
            most = -1
            i = reach - 1
            while i >= 0 and end[i] == now:
                alike = 2 * int(block[i] == block[current]) + int(unit[i] == unit[current])
                if alike > most:
                    best, most = i, alike
                i -= 1
        path[n] = best
        n += 1
        current = best
        now = start[current]
    return path[:n].copy()
