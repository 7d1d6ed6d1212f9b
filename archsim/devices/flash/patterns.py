"""Synthetic request patterns of the reference: random or sequential addresses, reads, writes or a mix."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit

from archsim.devices.flash.geometry import SECTOR_BYTES
from archsim.devices.flash.random import draw, start_state
from archsim.units import InputError, quote, suggest

PATTERNS = ("rand_read", "seq_read", "rand_write", "seq_write", "mixed:READSHARE")
#: Requests handed to the kernel at a time.
STRETCH = 1 << 11
_MIXED = re.compile(r"mixed:(\d+(?:\.\d*)?|\.\d+)(%?)")
SEED_MAX = (1 << 31) - 2
REQUEST_MAX_BYTES = 1 << 25
#: Most requests of a run (their responses are kept: 8 bytes each) and most bytes they ask for (16 TB: some minutes).
REQUESTS_MAX = 5 * 10**7
BYTES_MAX = 16 * 10**12


@dataclass(frozen=True)
class Pattern:
    """What a synthetic flow asks for.

    Attributes
    ----------
    read_share : float
        Probability that a request reads.
    sequential : bool
        Consecutive addresses from a random start, instead of a random address each.
    """

    read_share: float
    sequential: bool


def parse_pattern(text: str) -> Pattern:
    """Pattern by name; the share of ``mixed`` is a fraction or a percentage (0.7, 70 or 70%), addresses are random.

    Raises
    ------
    InputError
        For an unknown name or a share outside 0 to 100 %.
    """
    mixed = _MIXED.fullmatch(text)
    if mixed:
        value = float(mixed[1])
        share = value / 100 if mixed[2] or value > 1 else value
        if share > 1:
            raise InputError(f"pattern {quote(text)}: the share of reads must be 0 to 1, or 0 to 100 %")
        return Pattern(share, False)
    if text in PATTERNS[:4]:
        order, kind = text.split("_")
        return Pattern(1.0 if kind == "read" else 0.0, order == "seq")
    raise InputError(f"unknown pattern {quote(text)}; {suggest(text, PATTERNS)}")


@njit(cache=True)
def fill_requests(out, sectors, last, read_share, sequential, types, addresses, following):
    """Fill ``out[n, 4]`` (time, write, first sector, sectors) with the next requests.

    Parameters
    ----------
    out : int64[n, 4]
    sectors : int
        Size of a request; addresses are multiples of it.
    last : int
        Last sector that may be addressed.
    read_share : float
    sequential : bool
    types, addresses : int64[6]
        Streams, advanced in place.
    following : int64[1]
        Where a sequential flow goes on; -1 before the first request.
    """
    if sequential and following[0] < 0:
        start = int((last + 1) * draw(addresses))
        following[0] = start - start % sectors
    for i in range(len(out)):
        out[i, 0] = 0
        # A stream of types that cannot change the outcome is not drawn.
        out[i, 1] = 0 if read_share >= 1.0 else 1 if read_share <= 0.0 else draw(types) > read_share
        if sequential:
            first = following[0]
            following[0] += sectors
            if following[0] > last:
                following[0] = 0
            following[0] += -following[0] % sectors
        else:
            first = int((last + 1) * draw(addresses))
        if first + sectors > last:
            first = 0
        out[i, 2], out[i, 3] = first - first % sectors, sectors


def pattern_requests(
    pattern: Pattern, size_bytes: int, count: int, last_sector: int, seed: int
) -> Iterator[np.ndarray]:
    """Requests of a synthetic flow in stretches of int64[n, 4] (time 0, write, first sector, sectors).

    Parameters
    ----------
    pattern : Pattern
    size_bytes : int
        Bytes of each request, a multiple of 512.
    count : int
    last_sector : int
        Last sector that may be addressed.
    seed : int
        Types are drawn from the stream of this seed, addresses from the next one.

    Raises
    ------
    InputError
        When size, count or seed are out of range.
    """
    if size_bytes <= 0 or size_bytes % SECTOR_BYTES:
        raise InputError(f"a request of {size_bytes} bytes is no whole number of sectors of {SECTOR_BYTES} bytes")
    if size_bytes > REQUEST_MAX_BYTES:
        raise InputError(f"a request of {size_bytes} bytes is larger than 32 MiB")
    if count < 1:
        raise InputError(f"{count} requests: at least one is needed")
    if count > REQUESTS_MAX or count * size_bytes > BYTES_MAX:
        raise InputError(
            f"{count} requests of {size_bytes} bytes are too many for one run: at most {REQUESTS_MAX} requests and "
            f"{BYTES_MAX // 10**12} TB; a steady state needs far fewer"
        )
    if not 0 <= seed <= SEED_MAX:
        raise InputError(f"seed {seed} is outside 0 to {SEED_MAX}")
    sectors = size_bytes // SECTOR_BYTES
    if sectors > last_sector:
        raise InputError(
            f"a request of {size_bytes} bytes does not fit the {(last_sector + 1) * SECTOR_BYTES} bytes addressed"
        )
    return _stretches(pattern, sectors, count, last_sector, seed)


def _stretches(pattern: Pattern, sectors: int, count: int, last_sector: int, seed: int) -> Iterator[np.ndarray]:
    """See :func:`pattern_requests`; arguments are checked."""
    types, addresses = start_state(seed), start_state(seed + 1)
    following = np.full(1, -1, np.int64)
    for first in range(0, count, STRETCH):
        out = np.empty((min(STRETCH, count - first), 4), np.int64)
        fill_requests(out, sectors, last_sector, pattern.read_share, pattern.sequential, types, addresses, following)
        yield out
