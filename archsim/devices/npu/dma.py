"""DMA descriptors: how a block is cut into transfers, and what rate a ring of them reaches.

A 1D descriptor moves at most 2**24 - 1 bytes; rows of a 2D one are held in fields of 16 bits before v75 and of 24 from
there on, so longer rows are cut. Up to `flight` descriptors are in the memory system at once, each for `latency`
before its data flow: by Little's law the ring sustains ``flight * piece / latency``. With the in-order bit a descriptor
waits for the one before: for a gap of its own, or (where the part does not say) for its whole latency.

Sources: 16-byte 1D and 32-byte 2D descriptors, field widths, ring (open Hexagon DMA queues); the in-order bit costs 3-5
tokens/s in decoding (llama.cpp #21137).
"""

from __future__ import annotations

from archsim.devices.npu.numbers import bytes_fs
from archsim.jit import callee


@callee
def descriptors(rows, row_bytes, limit):
    """Descriptors of a 2D block: one when its rows fit the field, else as many as each row needs.

    `limit` is the largest value of a length field.
    """
    if row_bytes <= limit:
        return 1 if rows <= limit else -(-rows // limit)
    return rows * -(-row_bytes // limit)


@callee
def transfer_fs(nbytes, pieces, c, rate):
    """Duration of `nbytes` in `pieces` equal descriptors at `rate` (1e6 bytes/s), fs."""
    if nbytes == 0:
        return 0
    latency_fs = c.dma_latency_ps * 1000
    flow_fs = bytes_fs(nbytes, rate)
    if c.dma_in_order:
        return (pieces - 1) * c.dma_order_ps * 1000 + latency_fs + flow_fs
    waves_fs = -(-pieces * latency_fs // c.dma_flight)
    return max(flow_fs, waves_fs) + latency_fs
