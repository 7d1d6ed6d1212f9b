"""The null model beside every answer: bytes over bandwidth plus operations over peak, nothing else.

No overlap, no queues, no padding, no kernels. Where archsim says no more than this, it adds nothing.
"""

from __future__ import annotations

from typing import Any

from archsim.report.background import decode_executions
from archsim.report.summary import requests
from archsim.report.sums import sums
from archsim.trace import Trace


def null_model(trace: Trace) -> dict[str, Any]:
    """Time per decode step by the null model.

    The bytes read from flash and moved by operators, and the operations done, in the blocks that are not prefill, over
    what flash serves sequentially, what DRAM reaches and each device's peak; the parts add up, nothing overlaps.

    Returns
    -------
    dict
        ``flash_s``, ``memory_s``, ``compute_s`` and ``total_s`` per step, and ``decode_tokens_per_s``.
    """
    ops, peaks = trace.ops, trace.manifest["peaks"]
    times = sums(trace, decode_executions).times
    loads = ops["kind"] == "load"
    storage = set(ops["device"][loads].tolist())
    moved = ops["weight_bytes"] + ops["in_bytes"] + ops["out_bytes"] + ops["kv_bytes"]
    flash_s = sum(
        float((times * ops["weight_bytes"])[loads & (ops["device"] == name)].sum()) / peaks[name]["bytes_per_s"]
        for name in storage
    )
    pools = {pool["name"] for pool in trace.manifest["pools"]}
    shared = sum(peak["bytes_per_s"] for name, peak in peaks.items() if f"{name}.bandwidth" in pools)
    rates = {name: peak["bytes_per_s"] or shared for name, peak in peaks.items()}  # own memory, or the shared one
    memory_s = sum(
        float((times * moved)[~loads & (ops["device"] == name)].sum()) / rate for name, rate in rates.items() if rate
    )
    compute_s = sum(
        float((times * 2 * ops["macs"])[ops["device"] == name].sum()) / peak["ops_per_s"]
        for name, peak in peaks.items()
        if peak["ops_per_s"]
    )
    served = requests(trace)
    steps = sum(request["steps"] for request in served)
    tokens = sum(request["step_tokens"] for request in served)
    total = flash_s + memory_s + compute_s
    return {
        "flash_s": flash_s / steps if steps else None,
        "memory_s": memory_s / steps if steps else None,
        "compute_s": compute_s / steps if steps else None,
        "total_s": total / steps if steps else None,
        "decode_tokens_per_s": tokens / total if total else None,
    }
