"""What a warm pass costs the planner: a 32-layer pass under each mapping, in CPU time."""

from __future__ import annotations

import time

import pytest

from archsim.config import load_config
from archsim.system import System
from archsim.units import from_numbers
from archsim.workload.model import ModelSpec
from archsim.workload.plan import Pass, Placement, Planner
from archsim.workload.residency import DropAll, FirstTouch, PerOperator, Resident
from archsim.workload.runtime import Runtime


@pytest.mark.bench
@pytest.mark.parametrize(
    "how", [FirstTouch(sessions=1), FirstTouch(sessions=1, evict="lru"), PerOperator(), DropAll(), Resident()], ids=str
)
def test_a_warm_pass_is_planned_in_less_than_a_millisecond(how):
    spec = from_numbers(ModelSpec, {**load_config("model", "llada-8b").data["spec"], "name": "llada-8b"})
    system = System.from_data(load_config("system", "oneplus_12").data)
    planner = Planner(system, {"target": spec}, {"target": Placement().within(spec, 0.0)}, {})
    runtime = Runtime(planner, {"target": 203 * spec.kv_token_bytes}, how, len(system.stores))
    passes = [Pass("target", "denoise", 32, kv, projected=32) for kv in range(75, 107)]
    for asked in passes:
        runtime.plan([asked])
    began = time.process_time()
    for asked in 4 * passes:
        runtime.plan([asked])
    assert (time.process_time() - began) / (4 * len(passes)) < 1e-3
