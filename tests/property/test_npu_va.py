"""Address windows: the kernel equals the page-by-page oracle, and keeps what an address space promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archsim.devices.npu.va import EVICTIONS, FITS, AddressWindows, map_ps, touch
from archsim.devices.npu.va_oracle import PagedWindows

PAGE = 4096
BUFFERS = 10

rules = st.fixed_dictionaries(
    {
        "slots": st.integers(1, BUFFERS),
        "fit": st.sampled_from(FITS),
        "evict": st.sampled_from(EVICTIONS),
        "compact": st.booleans(),
    }
)
#: Sizes of all buffers in bytes, and batches of buffers used together.
sizes = st.lists(st.integers(1, 6 * PAGE), min_size=BUFFERS, max_size=BUFFERS)
batches = st.lists(st.lists(st.integers(0, BUFFERS - 1), min_size=1, max_size=4, unique=True), min_size=1, max_size=12)


def windows(pages, sessions, how):
    return AddressWindows(pages * PAGE + 77, PAGE, sessions, BUFFERS, **how)


def needs_of(batch, size):
    return np.array([(buffer, size[buffer]) for buffer in batch], dtype=np.int64)


@settings(max_examples=150, deadline=None)
@given(pages=st.integers(1, 16), sessions=st.integers(1, 3), how=rules, size=sizes, uses=batches)
def test_kernel_equals_oracle(pages, sessions, how, size, uses):
    made = windows(pages, sessions, how)
    slow = PagedWindows(made.rules, sessions)
    table, count, _ = made.snapshot()
    for now, batch in enumerate(uses, start=1):
        needs = needs_of(batch, size)
        events = np.zeros((2 * (len(needs) + 1) * (int(count.sum()) + len(needs) + 1), 4), dtype=np.int64)
        lines, failed = touch(table, count, made.rules, needs, now, events)
        expected, stuck = slow.touch([(b, size[b]) for b in batch], now)
        assert failed == stuck
        assert [tuple(line) for line in events[:lines].tolist()] == expected
        made.restore((table, count, now))
        assert made.mapped() == slow.mapped()


@settings(max_examples=150, deadline=None)
@given(pages=st.integers(1, 16), sessions=st.integers(1, 3), how=rules, size=sizes, uses=batches)
def test_an_address_space_keeps_its_promises(pages, sessions, how, size, uses):
    made = windows(pages, sessions, how)
    level = 0
    for batch in uses:
        before = made.mapped()
        changes = made.touch(needs_of(batch, size))
        if changes.failed >= 0:
            assert made.mapped() == before
            fresh = windows(pages, sessions, {**how, "compact": False})
            assert fresh.touch(needs_of(batch, size)).failed >= 0  # not even into empty windows
            continue
        level += changes.mapped_bytes - changes.unmapped_bytes
        held = made.mapped()
        assert level == made.level_bytes == sum(length for line in held for _, length, _ in line)
        assert sum(map(len, held)) <= how["slots"]
        ids = [buffer for line in held for _, _, buffer in line]
        assert len(ids) == len(set(ids))
        assert set(batch) <= set(ids)
        for line in held:
            ends = [0, *(offset + length for offset, length, _ in line)]
            starts = [*(offset for offset, _, _ in line), pages * PAGE]
            assert all(end <= start for end, start in zip(ends, starts))  # no overlap, no overflow
            for offset, length, buffer in line:
                assert offset % PAGE == 0
                assert length == -(-size[buffer] // PAGE) * PAGE
        assert 0 <= made.largest_hole_bytes <= made.free_bytes


@settings(max_examples=60, deadline=None)
@given(order=st.permutations(range(6)), fit=st.sampled_from(FITS))
def test_freed_space_coalesces(order, fit):
    """Six buffers of two pages fill twelve; whatever was mapped first, all their space serves one buffer of twelve."""
    size = [2 * PAGE] * 6 + [12 * PAGE]
    made = AddressWindows(12 * PAGE, PAGE, 1, 7, slots=7, fit=fit, evict="lru")
    for buffer in order:
        made.touch(needs_of([buffer], size))
    assert made.largest_hole_bytes == 0
    changes = made.touch(needs_of([6], size))
    assert (changes.map_calls, changes.unmap_calls) == (1, 6)
    assert made.mapped() == [[(0, 12 * PAGE, 6)]]


@settings(max_examples=60, deadline=None)
@given(pages=st.integers(4, 16), how=rules, size=sizes, uses=batches, more=batches)
def test_equal_digests_meet_equal_fates(pages, how, size, uses, more):
    one = windows(pages, 2, how)
    for batch in uses:
        one.touch(needs_of(batch, size))
    two = windows(pages, 2, how)
    two.restore(one.snapshot())
    assert one.digest() == two.digest()
    for batch in more:
        assert one.touch(needs_of(batch, size)) == two.touch(needs_of(batch, size))
        assert one.digest() == two.digest()


def test_first_fit_takes_the_first_hole_and_best_fit_the_smallest():
    """Mapped: 4 free pages, one page, 2 free pages, one page, 4 free pages; a buffer of two pages comes."""
    held = [[(4, 1, 0), (7, 1, 1)]]
    for fit, offset in (("first", 0), ("best", 5)):
        made = AddressWindows(12 * PAGE, PAGE, 1, 3, slots=3, fit=fit)
        table, count, _ = made.snapshot()
        for i, (at, length, buffer) in enumerate(held[0]):
            table[0, i] = at * PAGE, length * PAGE, 1, buffer
        count[0] = 2
        made.restore((table, count, 1))
        made.touch(np.array([[2, 2 * PAGE]], dtype=np.int64))
        assert (offset * PAGE, 2 * PAGE, 2) in made.mapped()[0]


@pytest.mark.parametrize("compact", [False, True])
def test_a_fragmented_window_needs_compaction_or_evicts(compact):
    """Every other page is free: six in all, and no hole of two."""
    made = AddressWindows(12 * PAGE, PAGE, 1, 7, slots=12, evict="lru", compact=compact)
    table, count, _ = made.snapshot()
    for i in range(6):
        table[0, i] = 2 * i * PAGE, PAGE, i + 1, i
    count[0] = 6
    made.restore((table, count, 6))
    assert made.free_bytes == 6 * PAGE
    assert made.largest_hole_bytes == PAGE
    changes = made.touch(np.array([[6, 2 * PAGE]], dtype=np.int64))
    if compact:  # buffers 1 to 5 move, none goes
        assert changes == (6, 7 * PAGE, 5, 5 * PAGE, -1)
    else:  # buffer 0 at the start goes: pages 0 and 1 are one hole
        assert changes == (1, 2 * PAGE, 1, PAGE, -1)


@given(nbytes=st.integers(0, (1 << 42) - 1), price=st.integers(0, 10**12))
def test_map_time_is_rounded_up_and_does_not_overflow(nbytes, price):
    assert int(map_ps(np.array([nbytes], dtype=np.int64), price)[0]) == -(-nbytes * price // (1 << 30))
