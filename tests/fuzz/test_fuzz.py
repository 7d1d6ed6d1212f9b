"""Whatever the input: the right exit code in one line, in time, and nothing half-written (see ``harness``)."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

sys.path.insert(0, str(Path(__file__).parent))

import material
from grammar import AREAS
from harness import call, verdict

#: Cases by area in the default run and in the slow one, and the seeds they are drawn with.
FEW = 15
MANY = {
    "command lines": 1200,
    "configuration": 6300,
    "streams": 3500,
    "traces": 5500,
    "run folders": 1300,
    "resealed run folders": 500,
    "model files": 2000,
    "sweep folders": 200,
}
SEED_OF_FEW, SEED_OF_MANY = 20250, 1


@pytest.fixture(scope="module")
def warm():
    material.warm()


def fuzz(area: str, cases: int, number: int, folder: Path) -> Counter:
    """Run `cases` of an area; count how they ended."""
    ends: Counter = Counter()

    @seed(number)
    @settings(
        max_examples=cases,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(AREAS[area])
    def one(case) -> None:
        outcome = call(case, folder)
        if outcome.interrupted:  # a hang is one twice over: the machine may have been busy, or a kernel been compiled
            outcome = call(case, folder)
        ends["interrupted" if outcome.interrupted else outcome.code] += 1
        fault = verdict(case, outcome)
        assert not fault, f"{fault}\n{case!r}"

    one()
    return ends


def test_the_slow_run_has_twenty_thousand_cases_of_every_area():
    assert MANY.keys() == AREAS.keys()
    assert sum(MANY.values()) >= 20_000


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.parametrize("area", AREAS)
def test_few_cases(area, tmp_path, warm):
    fuzz(area, FEW, SEED_OF_FEW, tmp_path / "case")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # else it hides the fault of a case with large files
@pytest.mark.parametrize("area", AREAS)
def test_many_cases(area, tmp_path, warm, record_property):
    ends = fuzz(area, MANY[area], SEED_OF_MANY, tmp_path / "case")
    record_property("ends", dict(ends))
    print(f"{area}: {sum(ends.values())} cases, seed {SEED_OF_MANY}: {dict(ends)}")
