"""Weights that were computed with, or read, crossed a link or a memory's pool, and nothing was computed in no time."""

from __future__ import annotations

import numpy as np

from archsim.device import NO_CAP
from archsim.report.invariants.view import View, fail
from archsim.trace import positions
from archsim.units import COEF_ONE, WORK_ONE

#: Kinds whose weights are too large to stay on a device between passes.
KINDS = ("matmul", "projection", "load")
#: Relative error of sums in floating point, and of works that were rounded to whole units.
ROUNDING = 1e-6


def check_moved(view: View) -> int:
    """Compare the weights of every operator with what its rows moved; returns the comparisons made.

    Devices that the manifest lists under ``keep_weights`` use weights where these lie; a trace without the entry is
    compared for its arithmetic alone.
    """
    ops, entry = view.trace.ops, view.rows["op"]
    if not len(ops["op"]):
        return 0
    known = entry >= 0
    place = positions(ops["op"], entry[known])
    if (place < 0).any():
        fail("bytes", "a row names an operator that table 'ops' does not list")
    labels = [ops[name] for name in ("device", "kind", "role", "name")]
    group = np.zeros(len(ops["op"]), dtype=np.int64)
    for codes in (np.unique(column, return_inverse=True)[1] for column in labels):
        group = group * (int(codes.max(initial=0)) + 1) + codes
    _, heads, group = np.unique(group, return_index=True, return_inverse=True)
    of_row = group[place]

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(of_row, values.astype(float), len(heads))

    weights, macs = total(ops["weight_bytes"][place]), total(ops["macs"][place])
    moved, asked = total(_moved(view)[known]), total(view.rows["work"][known])
    leads = total(view.asked("lead")[known])
    keep = view.trace.manifest.get("keep_weights")
    checked = 0
    for i, head in enumerate(heads.tolist()):
        device, kind, role, name = (str(column[head]) for column in labels)
        what = f"{role}: {name} on {device}"
        if macs[i]:
            checked += 1
            if not asked[i] and not leads[i]:
                fail("bytes", f"{what} did {macs[i]:,.0f} multiply-accumulates in no time; its rows have no work")
        if keep is not None and device not in keep and kind in KINDS and weights[i]:
            checked += 1
            if moved[i] < weights[i] * (1 - ROUNDING):
                fail(
                    "bytes",
                    f"{what} needed {weights[i]:,.0f} bytes of weights, and its rows moved {moved[i]:,.0f} over pools "
                    "and capped links, so the rest came in no time; give its rows the work, or set keeps_weights on "
                    "the device",
                )
    return checked


def _moved(view: View) -> np.ndarray:
    """Bytes that each row moves over the pool that it draws on most, or at a cap of its own."""
    share = np.zeros(len(view.rows["work"]))
    for pool, (drawn, coef) in zip(view.trace.manifest["pools"], view.pool_coef):
        if pool["unit"] == "bytes/s":
            share[drawn] = np.maximum(share[drawn], coef / COEF_ONE)
    alone = (share == 0) & (view.asked("cap") < NO_CAP)
    return view.rows["work"] / WORK_ONE * np.where(alone, 1.0, share)
