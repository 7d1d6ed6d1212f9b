"""Heat: the network against closed forms, the governor on real runs, and what a slower clock may stretch."""

import math

import numpy as np
import pytest

from archsim.config import load_config
from archsim.devices.thermal import DIES, NODES, Network
from archsim.engine.sim import Sim
from archsim.report.cautions import LONG_PS, cautions
from archsim.report.energy import energy
from archsim.report.heat import heat
from archsim.report.power import power
from archsim.session import build_job, declare, load, replay, run
from archsim.session.thermal import Governor, thermal_spec
from archsim.system import System
from archsim.trace import Trace
from archsim.units import InputError

SPEC, _ = thermal_spec("phone_passive")
JOB = {"target": "smollm2-135m", "stream": "synthetic:qwen3-4b:mbpp", "tokens": 300, "prompt_tokens": 16}


def hot_part(tmp_path, **changes):
    """Part file of a phone whose limits are low enough to be met within seconds."""
    lines = "".join(f"  {key}: {{value: {value}, source: 'a test'}}\n" for key, value in changes.items())
    path = tmp_path / "hot.yaml"
    path.write_text(
        f"kind: part\nname: hot\nbase: phone_passive.yaml\ndevice: thermal\nspec:\n{lines}", encoding="utf-8"
    )
    return path


def test_steady_state_is_resistances_times_power():
    network = Network(SPEC)
    watts = {"cpu": 2.0, "npu": 1.0, "dram": 0.5, "flash": 0.25, "rest": 1.0}
    for _ in range(40_000):
        network.step(watts, 1.0)
    body = SPEC.ambient_k + 4.75 * SPEC.body_k_per_w
    package = body + 3.5 * SPEC.package_k_per_w
    expected = {
        "body": body,
        "package": package,
        "flash": body + 0.25 * SPEC.flash_k_per_w,
        **{die: package + watts[die] * getattr(SPEC, f"{die}_k_per_w") for die in ("cpu", "npu", "dram")},
    }
    assert network.kelvin == pytest.approx(expected, abs=1e-6)


def test_the_body_warms_along_its_exponential():
    network = Network(SPEC)
    for _ in range(6000):
        network.step({"rest": 4.0}, 0.1)
    # all other nodes follow the body within seconds, so their capacities add to its own
    tau = SPEC.body_k_per_w * sum(getattr(SPEC, f"{node}_j_per_k") for node in NODES)
    expected = 4.0 * SPEC.body_k_per_w * (1 - math.exp(-600 / tau))
    assert network.kelvin["body"] - SPEC.ambient_k == pytest.approx(expected, rel=2e-3)
    assert network.kelvin["cpu"] == pytest.approx(network.kelvin["body"], abs=0.25)  # one time constant behind


@pytest.mark.parametrize("seconds", [0.1, 0.5])
def test_heat_is_conserved(seconds):
    """What came in is in the capacities or has left through the body."""
    network, given, left = Network(SPEC), 0.0, 0.0
    watts = {"cpu": 6.0, "dram": 1.0, "rest": 1.3}
    for _ in range(400):
        before = network.kelvin["body"]
        network.step(watts, seconds)
        mean = (before + network.kelvin["body"]) / 2 - SPEC.ambient_k
        given, left = given + sum(watts.values()) * seconds, left + mean / SPEC.body_k_per_w * seconds
    held = sum(getattr(SPEC, f"{n}_j_per_k") * (k - SPEC.ambient_k) for n, k in network.kelvin.items())
    assert held + left == pytest.approx(given, rel=1e-4)


def test_the_meter_agrees_with_the_energy_report(tmp_path):
    resolved = load(system="oneplus_12", schedule="cpu_ar", job={**JOB, "thermal": "phone_passive"})
    seen = []
    step = Network.step

    def recording(self, watts, seconds):
        seen.append(sum(watts.values()) * seconds)
        step(self, watts, seconds)

    Network.step = recording
    try:
        trace = run(resolved, trace="off").trace
    finally:
        Network.step = step
    covered = len(seen) * SPEC.step_ps / trace.duration_ps
    assert 0.9 < covered <= 1
    assert sum(seen) == pytest.approx(energy(trace).total_j * covered, rel=0.02)


def test_a_hot_phone_slows_down_and_replays(tmp_path):
    part = hot_part(tmp_path, skin_k="298.4 K", hysteresis_k="0.1 K", body_j_per_k="2 J/K", period_ps="100 ms")
    job = {**JOB, "tokens": 300}
    cool = run(load(system="oneplus_12", schedule="cpu_ar", job=job), trace="off").trace
    folder = tmp_path / "run"
    warm = run(load(system="oneplus_12", schedule="cpu_ar", job={**job, "thermal": str(part)}), output=folder).trace
    assert warm.duration_ps > 1.2 * cool.duration_ps
    rows = heat(warm, 3 * 10**11)
    assert rows[-1]["tokens_per_s"] < 0.9 * rows[0]["tokens_per_s"]
    assert rows[-1]["cpu.compute_rate"] < 1
    assert rows[-1]["body_celsius"] > rows[0]["body_celsius"]
    assert rows[-2]["power_w"] < rows[0]["power_w"]
    watts = power(warm, 10**11)
    assert watts.mean_w() * warm.duration_ps * 1e-12 == pytest.approx(energy(warm).total_j, rel=1e-9)
    assert replay(folder)["identical"]
    # the same work: counts do not depend on heat
    assert energy(warm).counts == energy(cool).counts


def test_hot_memory_loses_bandwidth_to_refresh_and_hot_flash_its_rate(tmp_path):
    part = hot_part(tmp_path, hot_dram_k="298.2 K", hot_flash_k="298.2 K", hysteresis_k="0.01 K")
    job = {"target": "llama-3.1-8b", "stream": "recorded:exit_layers:25", "tokens": 4, "thermal": str(part)}
    trace = run(load(system="oneplus_12", schedule="flash_ar", job=job), trace="off").trace
    rates = trace.tables["rates"]
    assert {"dram.bandwidth", "flash.link"} <= set(rates["target"].tolist())
    assert rates["fraction"][rates["target"] == "flash.link"][0] == pytest.approx(0.5)
    assert rates["fraction"][rates["target"] == "dram.bandwidth"][0] == pytest.approx(0.86 / 0.93, abs=1e-6)
    refresh = energy(trace).static_j["dram.refresh"]
    assert refresh > 1.1 * 233.6e-3 * trace.duration_ps * 1e-12


def test_a_slower_npu_clock_stretches_no_latency_of_memory_or_flash():
    """Leads are latencies of other domains; a product bound by memory keeps its time until the contexts bind."""
    from archsim.device import DType, OpKind, dtype_bytes, make_ops
    from archsim.workload.plan import Planner  # noqa: F401 - the planner is what turns such rows into blocks

    machine = load_config("system", "oneplus_12")
    system = System.from_data(machine.data, machine.sources)
    (clock,) = (c for c in system.prices().clocks if c.name == "npu.core")
    assert clock.targets == ("npu.hvx",)
    ops = make_ops([{"kind": OpKind.LOAD, "weight_bytes": 10_000_000}])
    load_row = system.devices["flash"].lower(ops)
    k = n = 4096
    sizes = {"weight_bytes": n * dtype_bytes(DType.Q4_0, k), "in_bytes": 2 * k, "out_bytes": 2 * n, "macs": k * n}
    product = system.devices["npu"].lower(
        make_ops([{"kind": OpKind.MATMUL, "m": 1, "k": k, "n": n, "wdtype": DType.Q4_0, "adtype": DType.FP16, **sizes}])
    )
    times = {}
    for fraction in (1.0, 0.98, 0.5):
        for name, rows in (("flash", load_row), ("npu", product)):
            sim = declare(system.describe(), log="off")
            for target in clock.targets:
                sim.set_rate(target, fraction)
            times[name, fraction] = _alone_ps(sim, rows)
    assert times["flash", 0.5] == times["flash", 1.0]
    assert times["npu", 0.5] > 1.3 * times["npu", 1.0]
    lead = int(product.lead[0])
    assert times["npu", 0.5] - lead <= 2 * (times["npu", 1.0] - lead) + 10


def _alone_ps(sim: Sim, rows) -> int:
    """Time of the rows of one operator alone on the machine, lead included."""
    from archsim.engine.block import Block

    n = len(rows.unit)
    none = np.full((n + 1, 2), -1, np.int64)
    zero = np.zeros((n + 1, 2), np.int64)
    grow = lambda column, value: np.append(column, value)  # noqa: E731
    block = Block(
        unit=grow(rows.unit, -1), priority=np.zeros(n + 1, np.int64), weight=grow(rows.weight, 1),
        lead=grow(rows.lead, 0), work=grow(rows.work, 0), cap=grow(rows.cap, 1 << 62),
        pool=np.vstack([rows.pool, np.full((1, 4), -1)]), coef=np.vstack([rows.coef, np.zeros((1, 4), np.int64)]),
        claim=grow(rows.claim, -1), stream=grow(rows.stream, 0), store=none, store_start=zero, store_end=zero,
        store_mode=zero, heir=np.full(n + 1, -1, np.int64), op=np.full(n + 1, -1, np.int64),
        succ_ptr=np.append(np.arange(n + 1), n), succ=np.arange(1, n + 1),
    )  # fmt: skip
    sim.emit(block)
    sim.run()
    return sim.now


def test_what_is_no_thermal_part_or_makes_no_sense_is_refused(tmp_path):
    with pytest.raises(InputError, match="part 'ufs_4_0' is a flash; give one of device kind thermal"):
        thermal_spec("ufs_4_0")
    with pytest.raises(InputError, match="no part 'phone_pasive'"):
        thermal_spec("phone_pasive")
    for changes, message in (
        ({"step_ps": "300 ms"}, "must be a multiple of step_ps"),
        ({"skin_k": "280 K"}, "skin_k 280 must be above ambient_k"),
    ):
        with pytest.raises(InputError, match=message):
            thermal_spec(str(hot_part(tmp_path, **changes)))
    trace = run(load(system="oneplus_12", schedule="cpu_ar", job={**JOB, "tokens": 3}), trace="off").trace
    with pytest.raises(InputError, match="the run has no temperatures"):
        heat(trace)


def test_a_long_run_without_heat_says_so():
    trace = run(load(system="oneplus_12", schedule="cpu_ar", job={**JOB, "tokens": 3}), trace="off").trace
    assert not any("thermal model" in line for line in cautions(trace))
    notes = {**trace.notes, "time_ps": trace.notes["time_ps"] + LONG_PS}
    late = Trace({**trace.tables, "notes": notes}, trace.manifest)
    assert any("without a thermal model" in line for line in cautions(late))
    assert not any(
        "thermal model" in line for line in cautions(Trace(late.tables, {**trace.manifest, "thermal": {"part": "x"}}))
    )


def test_every_die_of_the_machine_heats_a_node():
    machine = load_config("system", "oneplus_12")
    system = System.from_data(machine.data, machine.sources)
    job = build_job(load(system="oneplus_12", schedule="resident_ar", job=JOB))[2]
    governor = Governor(SPEC, system, declare(system.describe(), log="off"), job)
    heated = {governor._node(name) for name in system.devices}
    assert heated == {*DIES, "rest"}


def test_the_heat_figure_is_drawn_and_its_script_refuses_a_run_without_heat(tmp_path, capsys):
    from archsim.report import figures, script, style

    part = hot_part(tmp_path, skin_k="298.4 K", hysteresis_k="0.1 K", body_j_per_k="2 J/K", period_ps="100 ms")
    warm = run(load(system="oneplus_12", schedule="cpu_ar", job={**JOB, "thermal": str(part)}), trace="off").trace
    path = style.save(figures.figure(warm, "heat"), tmp_path / "heat.svg")
    assert path.stat().st_size > 20_000
    run(load(system="oneplus_12", schedule="cpu_ar", job={**JOB, "tokens": 3}), output=tmp_path / "cold")
    assert script.of_run("heat", [str(tmp_path / "cold"), "-o", str(tmp_path / "f.svg")]) == 2
    assert "the run has no temperatures" in capsys.readouterr().err


def test_the_option_and_the_report_of_a_session(tmp_path, capsys):
    from archsim.cli import run_cli

    words = ["run", "--system", "oneplus_12", "--schedule", "cpu_ar", "--target", "smollm2-135m", "--tokens", "160"]
    words += ["--stream", "synthetic:qwen3-4b:mbpp", "--thermal", "phone_passive", "-o", str(tmp_path / "run")]
    assert run_cli(words) == 0
    assert run_cli(["report", str(tmp_path / "run"), "--figures", str(tmp_path / "figures")]) == 0
    out = capsys.readouterr().out
    assert "Heat over time" in out
    assert "body_celsius" in out
    assert (tmp_path / "figures" / "heat.svg").stat().st_size > 10_000
    assert run_cli([*words[:-3], "phone_active", "-o", str(tmp_path / "no")]) == 2
    assert "no part 'phone_active'" in capsys.readouterr().err
