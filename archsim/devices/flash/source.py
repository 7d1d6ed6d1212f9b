"""Requests on their way into the flash kernel: what follows from the address is worked out a stretch at a time."""

from __future__ import annotations

from numba import njit

from archsim.devices.flash import columns as k
from archsim.devices.flash.geometry import SECTOR_BYTES
from archsim.jit import borrower


@borrower
def message_ns(m, sectors):
    """Link time of a message with the data of so many sectors, see :func:`archsim.devices.flash.tables.message_ns`."""
    size = sectors * SECTOR_BYTES
    wire = size + m[k.K_OVERHEAD] * -(-size // m[k.K_PACKET])
    return -(-wire // m[k.K_LANES]) * m[k.K_LINK_NUM] // m[k.K_LINK_DEN]


@njit(cache=True)
def feed(m, fresh):
    """Hand a stretch of requests to the kernel, behind those that it has not taken yet.

    Parameters
    ----------
    m : int64[:]
        Memory of the kernel.
    fresh : int64[n, 4]
        Time in ns, write, first sector, sectors.
    """
    given, left = m[k.A_SOURCE], m[k.LENGTH] - m[k.CURSOR]
    behind = given + m[k.CURSOR] * k.S_FIELDS
    for number in range(left * k.S_FIELDS):
        m[given + number] = m[behind + number]
    per_page, planes = m[k.K_SECTORS], m[k.K_TOTAL_PLANES]
    row, size, size_ns = given + left * k.S_FIELDS, 0, 0
    for i in range(len(fresh)):
        write, sector, sectors = fresh[i, k.S_WRITE], fresh[i, k.S_SECTOR], fresh[i, k.S_SECTORS]
        first = sector // per_page
        low = sector - first * per_page
        last = first if low + sectors <= per_page else (sector + sectors - 1) // per_page
        if sectors != size:
            size, size_ns = sectors, message_ns(m, sectors)
        link_ns = size_ns
        if m[k.K_DATA_BY_PAGE] and not write:
            link_ns = -(-size_ns // (last - first + 1))
        m[row + k.S_TIME], m[row + k.S_WRITE], m[row + k.S_SECTOR] = fresh[i, k.S_TIME], write, sector
        m[row + k.S_SECTORS], m[row + k.R_FIRST], m[row + k.R_PAGES] = sectors, first, last - first + 1
        m[row + k.R_RESIDUE], m[row + k.R_LINK_NS] = first % planes, link_ns
        m[row + k.R_LOW], m[row + k.R_HIGH] = low, sector + sectors - last * per_page
        row += k.S_FIELDS
    # Reading the mapping of a whole stretch brings it into the processor's cache while the reads overlap.
    touched, first_field = 0, given + left * k.S_FIELDS + k.R_FIRST
    for i in range(len(fresh)):
        touched += m[m[k.A_MAP] + 2 * m[first_field + i * k.S_FIELDS]]
    m[k.TOUCHED] = touched
    m[k.CURSOR], m[k.LENGTH] = 0, left + len(fresh)
