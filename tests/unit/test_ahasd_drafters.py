"""Stopping rules of the adaptive drafters, by hand."""

from __future__ import annotations

import math

import pytest

from archsim.schedules.ahasd.drafters import CAP, NAMES, AdaEdl, BanditSpec, acceptance_at, make_drafter


def flat(entropy):
    return lambda i: entropy


def test_fixed_drafts_its_length_and_no_more_than_there_is_room():
    assert make_drafter("fixed", 5, ()).plan(flat(9.0), 16) == 5
    assert make_drafter("fixed", 5, ()).plan(flat(9.0), 3) == 3


@pytest.mark.parametrize("name", NAMES)
def test_none_exceeds_cap_or_room_and_all_draft_at_least_one(name):
    for entropy in (0.0, 0.3, 1.0, 8.0):
        for room in (1, 2, 7, 40):
            drafter = make_drafter(name, CAP, (2, 4, 6, 8))
            assert 1 <= drafter.plan(flat(entropy), room) <= min(room, CAP)


def test_svip_stops_behind_the_first_token_above_its_bound():
    bound = 0.3**2 / 0.15  # 0.6 nats
    entropies = [0.1, bound - 1e-9, bound + 1e-9, 0.1]
    assert make_drafter("svip", 8, ()).plan(lambda i: entropies[i], 4) == 3


def test_specdec_stops_when_a_rejection_is_likelier_than_three_in_ten():
    entropy = 0.44  # accepted with .888 by the curve: .888**3 = .700 is just above, .888**4 = .62 below .7
    each = acceptance_at(entropy)
    expected = next(n for n in range(1, 17) if 1 - each**n > 0.3)
    assert make_drafter("specdec++", 8, ()).plan(flat(entropy), 16) == expected == 4
    assert make_drafter("specdec++", 8, ()).plan(flat(6.0), 16) == 2  # never below two


def test_adaedl_threshold_moves_to_the_target_acceptance():
    drafter = AdaEdl()
    start = drafter.threshold
    drafter.learn(0, 4, 1, 10**9)
    assert drafter.rate == pytest.approx(0.45)
    assert drafter.threshold == pytest.approx(start + 0.1 * 0.01)
    low = AdaEdl()
    for _ in range(50):
        low.learn(4, 4, 5, 10**9)
    assert low.threshold < start
    stop_at = (1 - start) ** 2 / 0.2
    assert AdaEdl().plan(lambda i: stop_at + 1e-6 if i == 2 else 0.0, 16) == 3
    assert math.isclose(AdaEdl().plan(flat(stop_at - 1e-6), 16), CAP)


def test_bandit_warms_every_arm_up_twice_and_then_prefers_the_best():
    drafter = BanditSpec((2, 4, 6), exploration=0.01)
    seen = []
    for _ in range(60):
        n = drafter.plan(flat(1.0), 16)
        seen.append(n)
        drafter.learn(n, n, {2: 1, 4: 9, 6: 3}[n], 10**12)
    assert seen[:6] == [2, 2, 4, 4, 6, 6]
    assert seen[6:].count(4) > 40


def test_bandit_explores_when_told_to():
    drafter = BanditSpec((2, 4), exploration=6.0)
    for _ in range(60):
        n = drafter.plan(flat(1.0), 16)
        drafter.learn(n, n, {2: 1, 4: 2}[n], 10**12)
    assert min(drafter.pulls) > 5
