"""What a decoding step reads and writes, by what the bytes are: weights, keys and values, activations."""

from __future__ import annotations

from archsim.report.background import decode_executions
from archsim.report.sums import sums
from archsim.trace import Trace

KV_LOAD = "attn.kv_load"


def operands(trace: Trace, steps: int) -> dict[str, float]:
    """Bytes of operands per step, over the job's blocks that are not prefill; empty without steps.

    Each operand counts once per operator, whatever a kernel fetches again.

    Returns
    -------
    dict
        ``weights``, ``kv`` (read by attention and written), ``activations`` (read and written), and what is read from
        flash for them: ``weights_from_flash``, ``kv_from_flash``.
    """
    if not steps:
        return {}
    ops = trace.ops
    times = sums(trace, decode_executions).times / steps
    load, kv = ops["kind"] == "load", ops["name"] == KV_LOAD
    parts = {
        "weights": ops["weight_bytes"] * ~load,
        "kv": ops["kv_bytes"],
        "activations": ops["in_bytes"] + ops["out_bytes"],
        "weights_from_flash": ops["weight_bytes"] * (load & ~kv),
        "kv_from_flash": ops["weight_bytes"] * (load & kv),
    }
    return {name: float((times * size).sum()) for name, size in parts.items()}
