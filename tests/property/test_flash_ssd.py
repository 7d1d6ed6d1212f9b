"""Promises of the flash kernel: it equals its plain version, serves what is asked and loses no page."""

import itertools
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archsim.devices.flash import columns as k
from archsim.devices.flash.memory import rows as rows_of
from archsim.devices.flash.oracle import Oracle
from archsim.devices.flash.random import start_state
from archsim.devices.flash.replay import COLLECT_SEED, Drive, device_spec, run_pattern, simulate
from archsim.devices.flash.tables import tables

REFERENCE = device_spec("ufs_2ch_2chip_2die_4pl")
PHONE = device_spec("ufs_4_0")
SMALL = {"blocks_per_plane": 64, "pages_per_block": 4, "overprovisioning": 0.1}
TINY = {**SMALL, "chips": 1, "dies": 1, "planes": 2}
PHONE_SMALL = {**TINY, "map_cache_bytes": 512 * 1024, "map_segment_bytes": 256 * 1024}
SETTINGS = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def workloads(draw, spec):
    """Rows of requests: mixed sizes, sequential runs, bursts and gaps."""
    seed, count = draw(st.integers(0, 2**32 - 1)), draw(st.integers(1, 600))
    writes, runs = draw(st.sampled_from([0.0, 0.3, 1.0])), draw(st.booleans())
    rng = np.random.default_rng(seed)
    rows, time, after = [], 0, 0
    for _ in range(count):
        time += int(rng.choice([0, 10, 30000]))
        sectors = int(rng.choice([1, 8, 32, 100]))
        first = after if runs and rng.random() < 0.9 else int(rng.integers(spec.logical_sectors - sectors))
        first = 0 if first + sectors > spec.logical_sectors else first
        after = first + sectors
        rows.append((time, int(rng.random() < writes), first, sectors))
    return np.array(rows, np.int64)


SPECS = {
    "reference": REFERENCE.model_copy(update=SMALL),
    "reference_tiny": REFERENCE.model_copy(update=TINY),
    "phone_tiny": PHONE.model_copy(update={**PHONE_SMALL, "read_ahead_bytes": 256 * 1024}),
    "reference_dies": REFERENCE.model_copy(update={**SMALL, "independent_dies": True}),
    "phone_grouped": PHONE.model_copy(update={**PHONE_SMALL, "independent_planes": False, "read_ahead_bytes": 0}),
}


@pytest.mark.parametrize("name", SPECS)
@SETTINGS
@given(data=st.data(), depth=st.sampled_from([0, 1, 3, 32, 70]))
def test_kernel_equals_the_plain_version(name, data, depth):
    spec = SPECS[name]
    rows = data.draw(workloads(spec))
    done = simulate(spec, [rows.copy()], Drive(depth), int(rows[:, 3].max()))
    config, lookup = tables(spec, "prime", False)
    plain = Oracle(spec, config, lookup, depth, start_state(COLLECT_SEED))
    assert done.responses_ns.tolist() == plain.run(rows)
    assert done.time_ns == plain.now
    assert {name: done.counts[name] for name in plain.commands} == plain.commands
    m = done.memory
    assert m[k.FREE_TRANSACTIONS] == m[k.A_MAP] - m[k.A_FREE_TRANSACTION]  # all given back
    assert m[k.FREE_REQUESTS] == m[k.A_UNITS] - m[k.A_FREE_REQUEST]
    assert done.counts["read_bytes"] == int(rows[rows[:, 1] == 0, 3].sum()) * 512
    assert done.counts["written_bytes"] == done.counts["programmed_bytes"] == int(rows[rows[:, 1] == 1, 3].sum()) * 512


def test_many_mapping_pages_may_wait_to_be_written_back():
    """Write-backs come last at a chip, so they pile up under a load of reads and writes that miss the mapping cache."""
    spec = SPECS["phone_grouped"]
    done = run_pattern(spec, "mixed:0.5", 4096, 20000, depth=32, span_bytes=spec.logical_sectors * 512)
    assert done.counts["mapping_writes"] > 300
    assert done.memory[k.FREE_TRANSACTIONS] == done.memory[k.A_MAP] - done.memory[k.A_FREE_TRANSACTION]


def check_nothing_is_lost(spec, m):
    """Every written page is mapped to a page that says so, and blocks count what they hold."""
    config, _ = tables(spec, "prime", False)
    mapping = rows_of(m, k.A_MAP, spec.logical_pages, 2)[:, 0]
    assert not (mapping & k.LOCK).any()
    planes = rows_of(m, k.A_PLANES, config.total_planes, k.P_FIELDS)
    blocks = rows_of(m, k.A_BLOCKS, config.total_planes * config.blocks, k.B_FIELDS)
    blocks = blocks.reshape(config.total_planes, config.blocks, k.B_FIELDS)
    owners = m[m[k.A_OWNER] :][: config.total_planes * config.blocks * config.pages_per_block]
    owners = owners.reshape(config.total_planes, config.blocks, config.pages_per_block)
    valid = np.zeros((config.total_planes, config.blocks), np.int64)
    for logical in np.flatnonzero(mapping):
        block, page = (mapping[logical] - 1) >> k.PAGE_BITS, (mapping[logical] - 1) & k.PAGE_MASK
        plane = logical % config.total_planes
        assert owners[plane, block, page] == logical + 1
        assert page < blocks[plane, block, k.B_NEXT]
        valid[plane, block] += 1
    assert (valid == blocks[:, :, k.B_NEXT] - blocks[:, :, k.B_INVALID]).all()
    assert (planes[:, k.P_POOL] == (blocks[:, :, k.B_STATE] == k.FREE).sum(axis=1)).all()
    assert not planes[:, [k.P_RUNNING, k.P_RESERVED]].any()
    assert not blocks[:, :, [k.B_READS, k.B_PROGRAMS, k.B_GC]].any()
    return int((mapping > 0).sum())


@pytest.mark.parametrize(("depth", "sectors"), [(1, 8), (32, 8), (32, 32), (8, 100)])
@pytest.mark.parametrize("base", [REFERENCE, PHONE], ids=["reference", "phone"])
def test_device_of_64_blocks_survives_many_overwrites(base, depth, sectors):
    spec = base.model_copy(update={"blocks_per_plane": 64, "pages_per_block": 8, "chips": 1, "dies": 1})
    pages = spec.logical_pages
    order = np.arange(0, spec.logical_sectors - sectors + 1, sectors)
    rng = np.random.default_rng(5)
    many = rng.integers(0, len(order), 12 * pages)
    first = np.concatenate([order, order[many]])
    rows = np.stack([np.zeros_like(first), np.ones_like(first), first, np.full_like(first, sectors)], 1)
    stretches = [rows[i : i + 4096] for i in range(0, len(rows), 4096)]
    done = simulate(spec, stretches, Drive(depth), sectors)
    assert done.counts["written_bytes"] == len(rows) * sectors * 512
    assert done.counts["blocks_erased"] > 64 * spec.total_planes
    touched = set()
    for start in first.tolist():
        touched.update(range(start // spec.sectors_per_page, (start + sectors - 1) // spec.sectors_per_page + 1))
    assert check_nothing_is_lost(spec, done.memory) == len(touched)


def test_filled_device_is_mapped_in_order():
    spec = REFERENCE.model_copy(update=SMALL)
    done = run_pattern(spec, "rand_write", 4096, 4000, depth=16, filled_bytes=spec.logical_pages * spec.page_bytes)
    assert check_nothing_is_lost(spec, done.memory) == spec.logical_pages


@pytest.mark.parametrize("pattern", ["rand_read", "seq_read"])
@pytest.mark.parametrize("size", [4096, 16384, 131072])
@pytest.mark.parametrize(
    ("base", "fields"), [(REFERENCE, ("channels", "chips")), (PHONE, ("channels", "dies"))], ids=["reference", "phone"]
)
def test_reads_are_not_slower_with_more_hardware_or_depth(base, fields, pattern, size):
    def time_ns(spec, depth):
        return run_pattern(spec, pattern, size, 6000, depth=depth, span_bytes=10**9).time_ns

    for field in fields:
        times = [time_ns(base.model_copy(update={field: value}), 16) for value in (1, 2, 4)]
        assert all(later <= 1.01 * earlier for earlier, later in pairwise(times)), (field, times)
    times = [time_ns(base, depth) for depth in (1, 2, 4, 8, 16, 32)]
    assert all(later <= 1.01 * earlier for earlier, later in pairwise(times)), times


@pytest.mark.parametrize("chips", [1, 2])
@pytest.mark.parametrize("layout", ["CWDP", "CWPD"])
def test_more_dies_are_not_slower_where_each_takes_its_own_commands(layout, chips):
    base = REFERENCE.model_copy(update={"layout": layout, "chips": chips, "independent_dies": True})
    for pattern, size in itertools.product(("rand_read", "seq_read"), (4096, 16384, 131072)):
        times = [
            run_pattern(base.model_copy(update={"dies": dies}), pattern, size, 3000, depth=16, span_bytes=10**9).time_ns
            for dies in (1, 2, 4, 8)
        ]
        assert all(later <= 1.01 * earlier for earlier, later in pairwise(times)), (pattern, size, times)


def test_dies_of_the_reference_part_what_could_join():
    """A chip of the reference works on one die at a time, and consecutive pages go to its dies before its planes.

    So a die more adds no work at a time but makes two commands out of one of two planes; with the planes first it
    does not.
    """

    def run(layout, dies):
        spec = REFERENCE.model_copy(update={"chips": 1, "layout": layout, "dies": dies})
        done = run_pattern(spec, "rand_read", 131072, 1500, depth=16, span_bytes=10**9)
        return done.time_ns, done.counts["read"] + done.counts["multiplane_read"]

    dies_first, planes_first = ([run(layout, dies) for dies in (1, 2, 4)] for layout in ("CWDP", "CWPD"))
    assert [commands for _, commands in planes_first] == [3000, 3000, 3000]
    assert dies_first[0] == planes_first[0]
    assert dies_first[2][1] > 2.5 * dies_first[0][1]
    assert dies_first[2][0] > 2 * dies_first[0][0]
    assert planes_first[2][0] < 1.01 * planes_first[0][0]


def test_equal_runs_are_equal():
    runs = [run_pattern(REFERENCE, "mixed:0.7", 4096, 3000, depth=32, seed=9) for _ in range(2)]
    assert runs[0].responses_ns.tolist() == runs[1].responses_ns.tolist()
    assert run_pattern(REFERENCE, "mixed:0.7", 4096, 3000, depth=32, seed=10).time_ns != runs[0].time_ns
