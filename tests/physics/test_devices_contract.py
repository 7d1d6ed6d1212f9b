"""What every device of a shipped machine promises: named parts, priced actions, sources, pure and convergent rows."""

import time
from pathlib import Path

import numpy as np
import pytest

from archsim.config import load_config, names
from archsim.device import Cost, DType, OpKind, Ops, dtype_bytes, make_ops
from archsim.system import System

#: A kernel table of products with Q4_0 weights, up to 32 rows.
KERNEL_TABLE = Path(__file__).parents[1] / "device" / "data_npu" / "kernels.csv"
MACHINES = {name: load_config("system", name) for name in names("system")}
SYSTEMS = {name: System.from_data(machine.data, machine.sources) for name, machine in MACHINES.items()}
MACHINE, SYSTEM = MACHINES["oneplus_12"], SYSTEMS["oneplus_12"]


def entry(kind, m=6, k=1024, n=512, **more):
    """One operator of each kind, all of its columns filled."""
    weights = {OpKind.NORM: 4 * k, OpKind.EMBED: m * dtype_bytes(DType.Q4_0, k), OpKind.LOAD: 3_000_000}
    pairs = m * 50 + m * (m + 1) // 2
    columns = {
        "weight_bytes": weights.get(kind, n * dtype_bytes(DType.Q4_0, k)),
        "in_bytes": 2 * m * k,
        "out_bytes": 2 * m * n,
        "macs": 2 * pairs * 8 * 128 if kind == OpKind.ATTENTION else m * k * n,
        "kv_bytes": (m + 50) * 1024,
    }
    if kind not in weights and kind not in (OpKind.MATMUL, OpKind.PROJECTION):
        columns["weight_bytes"] = 0
    shape = {"m": m, "k": 0 if kind == OpKind.LOAD else k, "n": 65_536 if kind == OpKind.LOAD else n, "kv": 50}
    heads = {"heads": 8, "kv_heads": 2, "head_dim": 128}
    types = {"wdtype": DType.Q4_0, "adtype": DType.FP16, "kvdtype": DType.FP16}
    return {"kind": kind, **shape, **heads, **types, **columns, **more}


def alone_ps(rows):
    """Lead and flow of all rows, one after the other, with nothing else running."""
    return int((rows.lead + -(-rows.work // rows.cap)).sum())


CASES = [
    (machine, name, kind)
    for machine, system in SYSTEMS.items()
    for name, device in system.devices.items()
    for kind in sorted(device.ops)
]


def test_the_machine_has_the_devices_and_names_it_should():
    assert list(SYSTEM.devices) == ["flash", "dram", "cpu", "npu", "rails"]
    assert {unit.name for unit in SYSTEM.units} == {"flash.queue", "cpu.compute", "cpu.control", "cpu.copy", "npu.core"}
    assert all(unit.quantum for unit in SYSTEM.units)
    pools = {pool.name for pool in SYSTEM.pools}
    assert pools == {"flash.link", "dram.bandwidth", "cpu.cores", "cpu.bandwidth", "npu.hvx", "npu.dma"}
    stores = {store.name for store in SYSTEM.stores}
    assert stores == {"flash.capacity", "dram.capacity", "npu.vtcm", "npu.window"}


@pytest.mark.parametrize(("machine", "name", "kind"), CASES)
def test_every_action_counted_is_priced(machine, name, kind):
    energy = SYSTEMS[machine].prices().energy_pj
    for m in (1, 6):
        rows = SYSTEMS[machine].devices[name].lower(make_ops([entry(kind, m)]))
        assert set(rows.actions) <= set(energy)
        assert (rows.counts >= 0).all()
        assert rows.counts.any()


def test_every_action_priced_is_counted_by_something():
    seen = set()
    for name, kind in sorted({(name, kind) for machine, name, kind in CASES if machine == "oneplus_12"}):
        table = "system.npu.table=" + str(KERNEL_TABLE)
        for sets in ((), ("system.npu.policy_many=static_graph",), ("system.npu.policy_many=table", table)):
            data = load_config("system", "oneplus_12", sets=sets)
            device = System.from_data(data.data).devices[name]
            for weights, activations in ((DType.Q4_0, DType.FP16), (DType.FP16, DType.INT8)):
                if sets and "table" in sets[0] and weights != DType.Q4_0:
                    continue  # the table holds Q4_0 products only
                ops = make_ops([entry(kind, m, wdtype=weights, adtype=activations) for m in (1, 6, 40)])
                rows = device.lower(ops)
                seen |= {action for action, count in zip(rows.actions, rows.counts.sum(axis=0)) if count}
    # efficiency cores take part only in jobs of more than six threads; no kernel policy counts descriptors
    assert set(SYSTEM.prices().energy_pj) - seen <= {"cpu.efficiency_cycle", "npu.dma_descriptor"}


@pytest.mark.parametrize("machine", SYSTEMS)
def test_every_price_has_a_source_a_unit_and_a_range_around_it(machine):
    prices = SYSTEMS[machine].prices()
    for table, unit in ((prices.energy_pj, "pJ"), (prices.power_mw, "mW"), (prices.area_um2, "um2")):
        assert table
        for key, cost in table.items():
            assert isinstance(cost, Cost)
            assert cost.unit == unit, key
            assert len(cost.source) > 10, key
            assert cost.value > 0 or cost.source.endswith("; x 0"), key  # none of that class of core
            assert cost.range is not None, key
            assert cost.range[0] <= cost.value <= cost.range[1], key


@pytest.mark.parametrize("machine", MACHINES)
def test_every_number_of_the_parts_has_a_source(machine):
    for name, part in MACHINES[machine].data["devices"].items():
        for field, value in part["spec"].items():
            absent = value == 0 and field in ("channels", "tokens_per_pass", "host_ranks")  # not given: the standard's
            if isinstance(value, (int, float, tuple, list)) and not isinstance(value, bool) and not absent:
                found = [
                    source for path, source in MACHINES[machine].sources.items() if f"{name}." in path and field in path
                ]
                assert found, (name, field)
                assert all(source.text for source in found), (name, field)


@pytest.mark.parametrize(("machine", "name", "kind"), CASES)
def test_lowering_is_pure(machine, name, kind):
    ops = make_ops([entry(kind, 1), entry(kind, 6), entry(kind, 1)])
    before = Ops(*(column.copy() for column in ops))
    first, second = (SYSTEMS[machine].devices[name].lower(ops) for _ in range(2))
    for column in type(first)._fields:
        assert np.array_equal(getattr(first, column), getattr(second, column))
    assert all(np.array_equal(a, b) for a, b in zip(ops, before))
    each = np.bincount(first.op, minlength=3)
    assert (each > 0).all()
    assert first.op.tolist() == np.repeat([0, 1, 2], each).tolist()
    for column in ("work", "cap", "lead", "coef", "counts"):
        values = getattr(first, column)
        assert np.array_equal(values[first.op == 0], values[first.op == 2])


@pytest.mark.parametrize(("machine", "name", "kind"), CASES)
def test_split_operators_conserve_and_converge(machine, name, kind):
    device = SYSTEMS[machine].devices[name]
    whole = device.lower(make_ops([entry(kind)]))
    for parts in (4, 16, 64):
        split = device.lower(make_ops([entry(kind, parts=parts)]))
        assert split.op.size == parts * whole.op.size
        assert split.lead.sum() == whole.lead.sum()
        assert split.counts.sum(axis=0).tolist() == whole.counts.sum(axis=0).tolist()
        # the parts move the same bytes
        dram = SYSTEMS[machine].binding.pool("dram.bandwidth")
        moved = [int(rows.work[rows.pool[:, 0] == dram].sum()) for rows in (split, whole)]
        assert moved[0] == moved[1]
        assert alone_ps(split) == pytest.approx(alone_ps(whole), rel=2e-3)


@pytest.mark.parametrize(("machine", "name", "kind"), CASES)
def test_bytes_flow_through_the_pools_of_the_device_and_of_dram(machine, name, kind):
    rows = SYSTEMS[machine].devices[name].lower(make_ops([entry(kind)]))
    bits = {action: int(count) for action, count in zip(rows.actions, rows.counts.sum(axis=0))}
    moved = (bits.get("dram.read_bits", 0) + bits.get("dram.write_bits", 0)) // 8
    assert bits.get("dram.io_bits", 0) == 8 * moved
    dram = SYSTEMS[machine].binding.pool("dram.bandwidth")
    flows = (rows.pool[:, 0] == dram) & (rows.coef[:, 0] == 1 << 20)
    assert rows.work[flows].sum() >> 28 == moved
    assert flows.any() == (moved > 0)
    for pool, coef in zip(rows.pool[0], rows.coef[0]):
        assert (pool < 0) == (coef == 0)


def test_no_row_asks_a_pool_for_more_than_it_has():
    """A row alone runs at its cap, so its duration is what the device planned."""
    from archsim.system import pool_fixed

    for machine, name, kind in CASES:
        rows = SYSTEMS[machine].devices[name].lower(make_ops([entry(kind, m, 4096, 4096) for m in (1, 6, 128)]))
        for cap, pools, coefs in zip(rows.cap.tolist(), rows.pool.tolist(), rows.coef.tolist()):
            for pool, coef in zip(pools, coefs):
                if pool >= 0:
                    asked = -(-cap * coef >> 20)
                    capacity = pool_fixed(SYSTEMS[machine].pools[pool], SYSTEMS[machine].pools[pool].capacity)
                    assert asked <= capacity + 1, (name, kind, SYSTEMS[machine].pools[pool].name)


def test_swapping_the_flash_part_changes_the_load_only():
    times = {}
    for part in ("ufs_3_1", "ufs_4_0", "ufs_4_1"):
        data = load_config("system", "oneplus_12", sets=(f"system.flash={part}",))
        flash = System.from_data(data.data).devices["flash"]
        times[part] = alone_ps(flash.lower(make_ops([{"kind": OpKind.LOAD, "weight_bytes": 122_683_392}])))
    rates = {part: 122_683_392 / duration * 1e3 for part, duration in times.items()}
    assert rates == pytest.approx({"ufs_3_1": 2.1, "ufs_4_0": 4.0, "ufs_4_1": 6.0}, rel=0.01)


def test_whole_chip_area_is_that_of_a_phone_chip():
    total_mm2 = sum(cost.value for cost in SYSTEM.prices().area_um2.values()) / 1e6
    assert 15 < total_mm2 < 60  # CPU, NPU and memory interfaces of a die of about 140 mm2


@pytest.mark.bench
@pytest.mark.parametrize("name", ["cpu", "npu"])
def test_lowering_is_fast(name):
    device = SYSTEM.devices[name]
    one, many = (
        make_ops([entry(OpKind.MATMUL)]),
        make_ops([entry(OpKind.MATMUL, k=32 * (i % 9 + 1)) for i in range(300)]),
    )
    device.lower(one), device.lower(many)
    for ops, limit_s in ((one, 50e-6), (many, 3e-3)):
        start = time.process_time()
        for _ in range(100):
            device.lower(ops)
        assert (time.process_time() - start) / 100 < limit_s
