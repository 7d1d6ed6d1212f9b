"""Drafting control, pre-verification control and queues: by hand, and against plain models of full history."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archsim.devices.control.edc import Edc
from archsim.devices.control.oracle import PlainEdc, PlainTvc
from archsim.devices.control.tvc import Table, Tvc

PROPERTY = settings(max_examples=150, deadline=None, derandomize=True)


def test_buckets_by_hand():
    edc = Edc(hmax_milli=4000)
    # Intervals of 500: 0-499, 500-999, ..., 3500 and above.
    assert [edc.bucket(e) for e in (0, 499, 500, 1999, 2000, 3499, 3500, 4000, 99_999)] == [0, 0, 1, 3, 4, 6, 7, 7, 7]
    assert Edc(hmax_milli=10_000).bucket(4000) == 3


def test_index_is_older_newer_lead():
    edc = Edc()
    for entropy in (3999, 3999, 1000, 1000, 0, 0, 500, 1500):  # buckets 7 7 2 2 0 0 1 3, oldest first
        edc.drafted(entropy)
    assert edc.leht == [3, 1, 0, 0, 2, 2, 7, 7]
    # newer half (3+1+0+0)//4 = 1, older half (2+2+7+7)//4 = 4, lead saturates at 7
    assert edc.lead == 7
    assert edc.index() == 4 * 64 + 1 * 8 + 7


def test_a_counter_learns_to_stop_and_to_go_on():
    edc = Edc()
    asked = []
    for accepted in (False, False, True, True, True):
        edc.drafted(100)
        asked.append(edc.predict())
        assert edc.unverified[-1].index == 1  # history of zeros, one batch ahead
        edc.verified([accepted])
    # counter 2 -> 1 -> 0 -> 1 -> 2 -> 3; it says go on from 2
    assert asked == [True, False, False, False, True]
    assert edc.pht[1] == 3
    assert sum(value != 2 for value in edc.pht) == 1


def test_the_counter_that_predicted_is_trained_not_the_present_one():
    edc = Edc()
    edc.drafted(100)
    edc.predict()  # index 1
    edc.drafted(2100)  # bucket 4: the newer half is 4 // 4 = 1
    edc.predict()  # index 8 + 2
    assert [batch.index for batch in edc.unverified] == [1, 10]
    edc.verified([True])
    assert (edc.pht[1], edc.pht[10]) == (3, 2)
    edc.verified([False])
    assert (edc.pht[1], edc.pht[10]) == (3, 1)


def test_commit_adds_one_batch_and_rollback_restores_the_history():
    edc = Edc()
    for entropy in (500, 1000, 1500):
        edc.drafted(entropy)
    assert edc.verified([True]) == 0
    assert edc.lceht == [1, 0, 0, 0, 0, 0, 0, 0]  # not the two that are newer
    assert edc.leht == [3, 2, 1, 0, 0, 0, 0, 0]
    assert edc.verified([False]) == 1
    assert edc.leht == edc.lceht == [1, 0, 0, 0, 0, 0, 0, 0]
    assert edc.lead == 0


def test_batches_behind_a_miss_in_one_pass_count_as_rejected_later_ones_do_not():
    edc = Edc()
    for entropy in (0, 600, 3000, 3999):
        edc.drafted(entropy)
        edc.predict()
    indices = [batch.index for batch in edc.unverified]
    assert len(set(indices)) == 4
    assert edc.verified([True, False, True]) == 1  # the third cannot be right behind a miss
    assert [edc.pht[index] for index in indices] == [3, 1, 1, 2]
    flushing = Edc(train_flushed=True)
    for entropy in (0, 600):
        flushing.drafted(entropy)
        flushing.predict()
    last = flushing.unverified[-1].index
    assert flushing.verified([False]) == 1
    assert flushing.pht[last] == 1


def test_a_stop_is_still_trained_by_the_batch_it_stopped_after():
    edc = Edc()
    edc.pht[1] = 0
    for expected in (False, False, True):
        edc.drafted(0)
        assert edc.predict() is expected
        edc.verified([True])


def test_nothing_unverified_is_nothing_to_run_ahead_of():
    edc = Edc()
    assert edc.predict()
    assert edc.pht == [2] * 512
    with pytest.raises(ValueError, match="1 batches were verified and 0 are waiting"):
        edc.verified([True])
    with pytest.raises(ValueError, match="history 7 even"):
        Edc(history=7)


def test_storage_in_bits():
    bits = Edc().bits(waiting=0)
    assert bits == {"leht": 24, "lceht": 24, "llr": 3, "pht": 1024, "kept": 0}
    assert sum(bits.values()) == 1075
    assert Edc().bits(waiting=64)["kept"] == 64 * (3 + 9 + 1)
    assert Tvc().bits() == {"tables": 1152, "ncr": 64, "control": 200}


step = st.one_of(
    st.tuples(st.just("draft"), st.integers(0, 6000)),
    st.tuples(st.just("ask"), st.just(0)),
    st.tuples(st.just("verify"), st.lists(st.booleans(), min_size=1, max_size=4)),
)


@PROPERTY
@given(
    steps=st.lists(step, max_size=120), hmax=st.sampled_from([2000, 4000, 10_000]), history=st.sampled_from([4, 8, 16]),
    flushed=st.booleans(),
)  # fmt: skip
def test_edc_equals_its_plain_model(steps, hmax, history, flushed):
    edc, plain = Edc(hmax, history, train_flushed=flushed), PlainEdc(hmax, history, flushed)
    for what, value in steps:
        if what == "draft":
            assert edc.drafted(value) == plain.drafted(value)
        elif what == "ask":
            assert edc.predict() == plain.predict()
        else:
            outcomes = value[: len(edc.unverified)]
            assert edc.verified(outcomes) == plain.verified(outcomes)
        assert edc.leht == plain.state()
        assert edc.pht == [plain.counter(index) for index in range(512)]
        assert edc.lead == min(7, len(plain.waiting))


def test_predictions_by_hand():
    table = Table(4)
    for entry in ((100, 1), (300, 2), (900, 3), (800, 4), (500, 5)):
        table.record(*entry)
    # the last four: 150, 300, 200, 100 a unit; times ten, mean of 1500, 3000, 2000, 1000
    assert table.predict(10) == 1875
    assert table.entries[0] == (300, 2)


def test_pre_verification_by_hand():
    tvc = Tvc(window=4, most=8)
    tvc.preset(verify_ps=1000, kv_rows=100, draft_ps=50, preverify_ps=120)
    # left = 1000 - (300 + 50) = 650: five tokens of 120
    assert tvc.length(elapsed_ps=300, kv_rows=100, unchecked=8) == 5
    assert tvc.length(elapsed_ps=300, kv_rows=100, unchecked=3) == 3
    assert tvc.length(elapsed_ps=830, kv_rows=100, unchecked=8) == 1  # exactly one token left
    assert tvc.length(elapsed_ps=831, kv_rows=100, unchecked=8) == 0  # none, not clamped to one
    assert tvc.length(elapsed_ps=5000, kv_rows=100, unchecked=8) == 0
    assert tvc.length(elapsed_ps=0, kv_rows=200, unchecked=99) == 8  # the cap
    tvc.pvct.record(2400, 2)  # (120 + 1200) // 2 = 660 a token
    assert tvc.length(elapsed_ps=0, kv_rows=100, unchecked=8) == 1


def test_tables_without_presets_say_so():
    with pytest.raises(ValueError, match="without a measurement or preset"):
        Tvc().length(0, 10, 4)
    with pytest.raises(ValueError, match="size of 0 has no rate"):
        Table(4).record(5, 0)
    with pytest.raises(ValueError, match="give 1 or more"):
        Table(0)


def test_a_jump_of_the_prompt_misleads_the_verification_table_for_a_window():
    """Weights dominate, 296 ms at 128 rows and 305 at 1024: by proportion the first guess is eight times that."""
    tvc = Tvc()
    for _ in range(4):
        tvc.nvct.record(296, 128)
    guesses = []
    for _ in range(5):
        guesses.append(tvc.nvct.predict(1024))
        tvc.nvct.record(305, 1024)
    assert guesses[0] == 296 * 8
    assert guesses == sorted(guesses, reverse=True)
    assert guesses[-1] == 305


measure = st.tuples(st.sampled_from(["nvct", "pdct", "pvct"]), st.integers(0, 10**12), st.integers(1, 4096))


@PROPERTY
@given(
    measures=st.lists(measure, max_size=30), window=st.sampled_from([1, 2, 4, 8]),
    asked=st.tuples(st.integers(0, 10**12), st.integers(1, 4096), st.integers(0, 20)),
)  # fmt: skip
def test_tvc_equals_its_plain_model(measures, window, asked):
    tvc, plain = Tvc(window), PlainTvc(window)
    for table, time_ps, size in [("nvct", 10**9, 7), ("pdct", 10**6, 1), ("pvct", 10**7, 1), *measures]:
        getattr(tvc, table).record(time_ps, size)
        plain.record(table, time_ps, size)
        assert getattr(tvc, table).predict(13) == plain.predict(table, 13)
    assert tvc.length(*asked) == plain.length(*asked)
