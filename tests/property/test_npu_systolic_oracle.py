"""The fold walk against every register of every element, and what a memory limit may and may not do."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from archsim.devices.npu.systolic import DATAFLOWS, Array, fold_starts, multiply
from archsim.devices.npu.systolic_oracle import simulate

side, edge, flow = st.integers(1, 13), st.integers(1, 7), st.sampled_from(DATAFLOWS)


@settings(max_examples=60)
@given(flow, edge, edge, side, side, side, st.integers(0, 2**32 - 1))
def test_walk_equals_registers(dataflow, rows, cols, m, k, n, seed):
    random = np.random.default_rng(seed)
    a, b = random.integers(-128, 128, (m, k)), random.integers(-128, 128, (k, n))
    seen = simulate(dataflow, rows, cols, a, b)
    found = multiply(Array(rows, cols, dataflow), m, k, n)
    assert (seen.product == a @ b).all()
    assert seen.cycles == found.length_cycles == found.folds * found.fold_cycles
    assert (seen.ifmap_reads, seen.filter_reads) == (found.ifmap_reads, found.filter_reads)
    assert (seen.ofmap_writes, seen.macs) == (found.ofmap_writes, found.macs)
    if k + cols > rows:  # else the chains of two folds meet
        assert seen.last_result <= found.length_cycles + found.drain_cycles


@settings(max_examples=80)
@given(flow, edge, edge, st.integers(1, 200), st.integers(1, 200), st.integers(1, 200), st.integers(1, 40))
def test_a_link_costs_at_least_its_words_and_more_is_never_slower(dataflow, rows, cols, m, k, n, link):
    sizes = {"ifmap_bytes": 2048, "filter_bytes": 2048, "ofmap_bytes": 1024}
    free = multiply(Array(rows, cols, dataflow, **sizes), m, k, n)
    slow = multiply(Array(rows, cols, dataflow, link_words=link, **sizes), m, k, n)
    fast = multiply(Array(rows, cols, dataflow, link_words=2 * link, **sizes), m, k, n)
    assert free.stall_cycles == 0
    assert free.length_cycles <= fast.length_cycles <= slow.length_cycles
    assert slow.length_cycles - slow.stall_cycles == free.length_cycles
    starts = fold_starts(slow.array, m, k, n)
    assert starts[0] == 0
    assert (np.diff(starts) >= slow.fold_cycles).all()
    assert slow.length_cycles >= starts[-1] + slow.fold_cycles
    # a word fetched for the folds before cycle 0 is free: those that fill a half, or one fold
    for reads in (slow.ifmap_dram_reads, slow.filter_dram_reads):
        at_once = max(1024, max(m, k, n) * max(rows, cols))
        assert slow.length_cycles >= (reads - at_once) / link
    # what has not left when the last product is done is in the SRAM for results
    assert slow.length_cycles >= (slow.ofmap_dram_writes - 1024) / link - 1


@settings(max_examples=40)
@given(flow, edge, edge, st.integers(1, 300), st.integers(1, 300), st.integers(1, 300), st.integers(7, 16))
def test_more_memory_never_means_more_traffic(dataflow, rows, cols, m, k, n, bits):
    small, large = (
        multiply(Array(rows, cols, dataflow, ifmap_bytes=size, filter_bytes=size, ofmap_bytes=size), m, k, n)
        for size in (1 << bits, 2 << bits)
    )
    assert large.ifmap_dram_reads <= small.ifmap_dram_reads <= small.ifmap_reads
    assert large.filter_dram_reads <= small.filter_dram_reads <= small.filter_reads
    assert large.ifmap_dram_reads >= m * k
    assert large.filter_dram_reads >= k * n
