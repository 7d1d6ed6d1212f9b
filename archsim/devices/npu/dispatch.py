"""Handing an operator to the DSP: host side, DSP side, cache maintenance.

``call``
    One message per operator in shared memory; the measured 11-35 us hold both sides (llama.cpp #18139).
``queue``
    A batch of operators in one packet (dspqueue): the host's packet and half a polling interval, and a flush of the
    whole cache at both ends of the batch, are shared by its operators; each pays the DSP's own start and a flush of its
    output, by range up to ``flush_bytes``, above that of the whole cache.
``rpc``
    A synchronous FastRPC call per operator with the same maintenance; a host that polls for its end saves the wake-up
    within it (``host_polls``, ``host_wake_ps``).

Sources: polling every 100 us, ranges and 4 MiB limit (ggml-hexagon); start 4.5 us, flush 5.3 us of an 891 us operator
(llama.cpp #26501); crossing 0.3-0.5 ms (BigMoeOnEdge, v81).
"""

from __future__ import annotations

from typing import NamedTuple

from archsim.jit import callee


class CallCosts(NamedTuple):
    """Costs of the ways to call, ps; `ops` operators share a batch."""

    call: int
    packet: int
    poll: int
    start: int
    rpc: int
    flush: int
    ops: int

    def lead(self, way: str) -> int:
        """Latency of one operator, its own flush apart."""
        if way == "queue":
            return self.start + -(-(self.packet + self.poll // 2 + 2 * self.flush) // self.ops)
        return self.call if way == "call" else self.rpc


@callee
def flush_ps(out_bytes, whole_ps, whole_bytes):
    """Flush of an operator's output: by range, at most the cost of the whole cache."""
    return -(-whole_ps * min(out_bytes, whole_bytes) // whole_bytes)
