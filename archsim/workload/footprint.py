"""What a job keeps in DRAM and in flash: weights, buffers, keys and values, and where each row of these lives.

``job.kv_tier`` says it for the target's cache. ``dram``: all rows. ``flash``: the prompt's rows are in flash once they
are computed, the output's in DRAM. ``split``: DRAM holds ``kv_dram_tokens`` rows at most, what is beyond goes to flash
in blocks of ``kv_block_tokens``, oldest or most recent (a pass reads all of them, so its time does not tell which).
Every layer of a pass reads its part of the rows in flash back into a buffer of one layer before its attention. Writing
to flash is not charged: neither time nor energy (a block is written once and read in every later pass).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archsim import units
from archsim.config import InputError, JobSpec

if TYPE_CHECKING:
    from archsim.workload.job import Job


def spilled_rows(spec: JobSpec, cached: int, prompt: int) -> int:
    """Rows in flash of `cached` rows of the target, `prompt` of which are the prompt's."""
    if spec.kv_tier == "flash":
        return min(prompt, cached)
    if spec.kv_tier == "split":
        assert spec.kv_dram_tokens is not None
        beyond, block = max(cached - spec.kv_dram_tokens, 0), spec.kv_block_tokens
        return min(-(-beyond // block) * block, cached)
    return 0


def footprint(job: Job) -> dict[str, dict[str, int]]:
    """Bytes by store (``dram``, ``flash``) and by what they hold."""
    dram: dict[str, int] = {}
    flash: dict[str, int] = {}
    rows = job.longest()
    for role, place in job.placements.items():
        if place.shares:
            continue
        model = job.models[role]
        weights = model.total_bytes - (model.layers - place.pinned) * model.layer_bytes
        if place.head_in == "flash":
            weights -= model.head_bytes
            dram[f"{role} projection buffer"] = model.head_bytes
        dram[f"{role} weights"] = weights
        if place.streams:
            dram[f"{role} ring of {place.ring} layer buffers"] = place.ring * model.layer_bytes
            flash[f"{role} weights"] = model.total_bytes
        away = 0
        if role == "target" and job.spec.kv_tier != "dram":
            away = spilled_rows(job.spec, rows, job.longest_prompt())
            what = f"KV of {away} prompt rows" if job.spec.kv_tier == "flash" else f"KV of {away} rows"
            flash[f"{role} {what}"] = away * model.kv_token_bytes
            dram[f"{role} KV of one layer, read back"] = away * model.kv_row_bytes
        dram[f"{role} KV of {rows - away} rows"] = (rows - away) * model.kv_token_bytes
    weights_of = {role: dram[f"{role} weights"] for role, place in job.placements.items() if not place.shares}
    for device in job.system.devices.values():
        for role, size in device.second_copies(weights_of).items():
            dram[f"{role} weights as {device.name} needs them"] = size
    return {"dram": dram, "flash": flash}


def check_memory(job: Job) -> None:
    """Refuse a job that the machine's memory or flash cannot hold.

    Raises
    ------
    InputError
        With every part and its size, and what to change.
    """
    for device, parts in job.footprint.items():
        if not parts:
            continue
        store = next((store for store in job.system.stores if store.name == f"{device}.capacity"), None)
        if store is None:
            what = next(iter(parts))
            if device in job.system.devices:
                kind = job.system.devices[device].kind
                raise InputError(
                    f"system {job.system.name!r} has no memory in {device!r}, which is a part of device {kind}, "
                    f"but the job keeps {what} in it; give it a part of device {device}"
                )
            raise InputError(f"system {job.system.name!r} has no {device}, but the job keeps {what} in it")
        need = sum(parts.values())
        if need > store.capacity:
            listed = ", ".join(f"{what} {units.show(size, 'B')}" for what, size in parts.items())
            cache = max(size for what, size in parts.items() if " KV of " in what) if device == "dram" else 0
            away = " or move keys and values away (job.kv_tier=split, job.kv_dtype=Q8_0)," if cache > need // 4 else ""
            raise InputError(
                f"the job needs {units.show(need, 'B')} of {device} and {job.system.name} has "
                f"{units.show(store.capacity, 'B')} ({listed}); lower job.tokens, job.dram_fraction or the ring,{away} "
                "or choose a smaller model"
            )
