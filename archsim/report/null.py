"""The null model beside every answer: bytes over bandwidth plus operations over peak, nothing else.

No overlap, no queues, no padding, no kernels. Where archsim says no more than this, it adds nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from archsim.report.summary import requests
from archsim.report.traffic import executions
from archsim.trace import Trace


def null_model(trace: Trace) -> dict[str, Any]:
    """Time per decode step by the null model.

    The bytes that flash and each device moved and the operations each device did in the blocks that are not prefill,
    over the machine's bandwidths and peaks; the parts add up.

    Returns
    -------
    dict
        ``flash_s``, ``memory_s``, ``compute_s`` and ``total_s`` per step, and ``decode_tokens_per_s``.
    """
    ops = trace.ops
    decode = np.append(trace.blocks["phase"] != "prefill", False)[trace.row_block]
    times = executions(trace, decode.astype(np.float64))
    loads = ops["kind"] == "load"
    capacity = {pool["name"]: pool["capacity"] for pool in trace.manifest["pools"] if pool["unit"] == "bytes/s"}
    moved = ops["weight_bytes"] + ops["in_bytes"] + ops["out_bytes"] + ops["kv_bytes"]
    flash_s = _over(float((times * ops["weight_bytes"])[loads].sum()), _sum_of(capacity, ".link"))
    memory_s = _over(float((times * moved)[~loads].sum()), _sum_of(capacity, "dram.bandwidth"))
    compute_s = sum(
        _over(float((times * 2 * ops["macs"])[ops["device"] == name].sum()), peak)
        for name, peak in trace.manifest["peaks_ops_per_s"].items()
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


def _sum_of(capacity: dict[str, float], ending: str) -> float:
    return sum(value for name, value in capacity.items() if name.endswith(ending))


def _over(amount: float, rate: float) -> float:
    return amount / rate if rate else 0.0
