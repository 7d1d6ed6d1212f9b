"""The alarm of the harness interrupts a case wherever it strikes."""

from __future__ import annotations

import sys
import time
import weakref
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from harness import PATIENCE, Hang, Interrupt, alarm


class Thing:
    """Something to refer to."""


def busy(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def dropped() -> None:
    """Drop an object whose weak reference keeps its callback busy."""
    thing = Thing()
    watched = weakref.ref(thing, lambda _: busy(0.3))
    del thing
    assert watched() is None
    busy(20)


def stubborn(answers: list[int]) -> None:
    """Go on after each interrupt."""
    while True:
        try:
            busy(20)
        except KeyboardInterrupt:
            answers.append(1)


def test_an_interrupt_in_a_callback_of_a_weak_reference_comes_again():
    with alarm(cpu_s=30, wall_s=0.1) as rung, pytest.raises(Interrupt):
        dropped()
    assert len(rung) == 1


def test_what_answers_no_interrupt_hangs():
    answers: list[int] = []
    with alarm(cpu_s=30, wall_s=0.05) as rung, pytest.raises(Hang):
        stubborn(answers)
    assert len(answers) == PATIENCE == len(rung) - 1


def test_other_faults_of_a_callback_are_shown(monkeypatch):
    shown = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: shown.append(unraisable.exc_type))
    hook = sys.unraisablehook
    with alarm():
        thing = Thing()
        watched = weakref.ref(thing, lambda _: 1 // 0)
        del thing
        assert watched() is None
    assert shown == [ZeroDivisionError]
    assert sys.unraisablehook is hook
