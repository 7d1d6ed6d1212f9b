"""Where each part of AHASD pays: gains over the axes an architect would move. Predictions without published figures.

Pairs of cases meet the same text. One pair and one drafter: LLaMA2-7B with 13B, AdaEDL, whose long batches show most.
"""

from __future__ import annotations

from collections.abc import Iterator

from archsim.reproduce.ahasd import BENCH
from archsim.reproduce.ahasd_cases import AAU, ASYNC, EDC, FULL, NO_EDC, NO_TVC, NPU, ORACLE, PLAIN, SYNC, WITHOUT_UNITS
from archsim.reproduce.ahasd_runs import Case
from archsim.reproduce.rows import Row

SOURCE = "archsim, paired on one seed, LLaMA2 pair, AdaEDL"
CHOSEN = {"pair": "llama2", "drafter": "adaedl"}
#: Where host data lie while the draft computes, from own ranks to the very ranks: overrides of the draft's device.
DRAFT_PLACES = {
    "other ranks": (),
    "striped over 4": ("system.pim.host=striped", "system.pim.host_ranks=4"),
    "striped over 2": ("system.pim.host=striped", "system.pim.host_ranks=2"),
    "same ranks": ("system.pim.host=exclusive",),
}
TARGET_RANKS, REUSE = (1, 2, 3, 4), (1, 4)
INTERRUPTS_US = (0.1, 3, 10, 30)
#: Bytes of one command of the NPU, which a trip waits for: the preset's, and smaller.
COMMANDS_MIB = (1, 4)
CHANNELS, ACCEPTANCES = (1, 2, 4), (0.85, 0.92, 0.98)
LENGTHS = (1, 4, 8, 16)


def _gain(case: Case, over: Case) -> float:
    return BENCH(case.having(**CHOSEN)).tps / BENCH(over.having(**CHOSEN)).tps


def _row(name: str, value: float, why: str, unit: str = "x") -> Row:
    return Row(f"map.{name}", SOURCE, unit, None, value, kind="reported", why=why)


def edc_map() -> Iterator[Row]:
    """EDC's gain against how much drafting slows the NPU's reads."""
    for place, sets in DRAFT_PLACES.items():
        slowed = BENCH(AAU.having(*sets, **CHOSEN)).phases["compute"] / BENCH(NPU.having(**CHOSEN)).phases["compute"]
        key = place.replace(" ", "_")
        yield _row(f"edc.{key}.slowed", slowed, "a verification while the memory drafts over one alone")
        for name, case in (("table", EDC), ("oracle", ORACLE)):
            yield _row(f"edc.{key}.{name}", _gain(case.having(*sets), AAU.having(*sets)), f"host data: {place}")


def tvc_map() -> Iterator[Row]:
    """TVC's gain against the ranks the target is striped over and the tokens that share a pass over its weights."""
    for reuse in REUSE:
        for ranks in TARGET_RANKS:
            sets = (f"system.pim_target.host_ranks={ranks}", f"system.pim_target.tokens_per_pass={reuse}")
            yield _row(
                f"tvc.reuse{reuse}.ranks{ranks}",
                _gain(FULL.having(*sets), EDC),
                f"target striped over {ranks} rank(s) of a channel, {reuse} token(s) a pass over its weights",
            )


def aau_map() -> Iterator[Row]:
    """The vector units' gain against the trip they save, ahead of verification and taking turns."""
    for micros in INTERRUPTS_US:
        trip = (f"system.pim.interrupt_ps={micros} us",)
        without = Case("ahasd", sets=(*WITHOUT_UNITS, *trip, NO_EDC, NO_TVC))
        yield _row(f"aau.interrupt{micros:g}us.ahead", _gain(AAU, without), "interrupt, fences, copies and the wait")
        yield _row(
            f"aau.interrupt{micros:g}us.in_turns", _gain(Case("pim_sync"), SYNC.having(*trip)), "the NPU is idle then"
        )
    for size in COMMANDS_MIB:
        command = (f"system.npu.quantum_bytes={size} MiB",)
        yield _row(
            f"aau.command{size}MiB.ahead",
            _gain(AAU, ASYNC.having(*command)),
            f"trips wait for commands of {size} MiB, {size * 1.048576 / 43.5 * 1e3:.0f} us each",
        )


def plain_map() -> Iterator[Row]:
    """AHASD over plain decoding in the memory, against internal bandwidth and acceptance."""
    for channels in CHANNELS:
        sets = (f"system.pim.channels={channels}",)
        both = (*sets, f"system.pim_target.channels={channels}")
        for level in ACCEPTANCES:
            gain = _gain(FULL.having(*both, acceptance=level), PLAIN.having(*sets))
            yield _row(f"plain.{102.4 * channels:g}GBps.a{level:g}", gain, "AHASD over the target alone on the memory")


def idle_map() -> Iterator[Row]:
    """Idle shares of both sides against the draft's length, taking turns and ahead."""
    for length in LENGTHS:
        for name, case in (("sync", SYNC), ("ahead", AAU)):
            busy = BENCH(case.having(f"schedule.length={length}", pair="llama2", drafter="fixed")).busy
            for what, unit in (("npu", "npu.core"), ("pim", "pim.sequencer")):
                yield _row(f"idle.{name}.length{length}.{what}", 1.0 - busy[unit], "fixed drafts", "fraction")


def map_rows() -> Iterator[Row]:
    """All maps."""
    for rows in (edc_map, tvc_map, aau_map, plain_map, idle_map):
        yield from rows()
