"""Control hardware: rows, bits and area of predictors and queues."""

import pytest

from archsim.config import load_config
from archsim.device import OpKind, make_ops
from archsim.lowering import TIME_RATE
from archsim.system import System

CONTROL = System.from_data(load_config("system", "ahasd_listed").data).devices["control"]


def test_a_decision_is_a_row_of_its_cycles():
    rows = CONTROL.lower(make_ops([{"kind": OpKind.CONTROL, "n": 5, "k": 1216}]))
    assert rows.actions == ("control.logic_cycle", "control.table_bits")
    assert rows.counts.tolist() == [[5, 1216]]
    assert rows.work[0] // TIME_RATE == 5 * 1250  # 800 MHz


@pytest.mark.parametrize(
    ("action", "cycles", "bits"),
    [
        ("edc_predict", 1, 24 + 3 + 2 + 9),
        ("edc_update", 2, 48 + 3 + 4 + 9),
        ("tvc_decide", 5, 3 * 4 * 96 + 64),
        ("tvc_update", 5, 96),
        ("push.unverified", 1, 896),
        ("pop.feedback", 1, 128),
    ],
)
def test_cost_of_each_action(action, cycles, bits):
    ops = CONTROL.cost(action, times=3)
    assert (ops.n.tolist(), ops.k.tolist()) == ([3 * cycles], [3 * bits])
    assert CONTROL.lower(ops).counts.tolist() == [[3 * cycles, 3 * bits]]


def test_unknown_actions_are_named():
    with pytest.raises(ValueError, match="unknown control action 'edc'; known: edc_predict, edc_update"):
        CONTROL.cost("edc")


def test_bits_and_area_by_hand():
    assert CONTROL.bits() == {"edc": 1075 + 64 * 13, "tvc": 1416, "queues": 64 * 896 + 32 * 128 + 16 * 112}
    area = {block: cost.value for block, cost in CONTROL.area().items()}
    assert area["tvc"] == pytest.approx(1416 * 0.3)
    assert area["logic"] == pytest.approx(2500.0)
    assert sum(area.values()) / 1e6 < 0.03  # mm2, far below the published 0.09


def test_queues_are_stores_and_predictors_start_fresh():
    assert {store.name: store.capacity for store in CONTROL.stores()} == {
        "control.unverified": 64, "control.feedback": 32, "control.preverify": 16,
    }  # fmt: skip
    assert CONTROL.new_edc().pht == [2] * 512
    assert CONTROL.new_edc() is not CONTROL.new_edc()
    assert CONTROL.new_tvc().window == 4
