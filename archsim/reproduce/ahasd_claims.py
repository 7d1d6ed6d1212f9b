"""AHASD's claims about other machines, about latency shares, and about area, each with its arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from archsim.reproduce.ahasd import BENCH, held, ratio
from archsim.reproduce.ahasd_cases import AREA, DIES_MM2, FULL, GPU, LAPTOP, NPU, PLAIN, SOURCE, SYNC, grid, specpim
from archsim.reproduce.ahasd_runs import Case, Measured, resolved
from archsim.reproduce.rows import Row, Verdict
from archsim.session import build_job

RULES = ("host", "best", "split")
#: Launch cost of a kernel on the mobile GPU, us, and factors on the energy of all memories.
LAUNCHES_US = (10, 30, 100)
MEMORY_FACTORS = (0.5, 1.0, 2.0)
UM2_PER_MM2 = 1e6


def scaled_energy(found: Measured, factor: float) -> float:
    """Energy per token (J) if all that the memory draws were `factor` times as much."""
    return found.energy_j * (1.0 + (factor - 1.0) * found.memory_w / found.total_w)


def rival_rows() -> Iterator[Row]:
    """SpecPIM-like machines, the mobile GPU and the discrete one."""
    for rule in RULES:
        chosen = {"drafters": ("specdec++",), "pairs": ("opt", "llama2", "palm")[: 1 if rule == "split" else 3]}
        gain = ratio(FULL, specpim(rule), **chosen)
        saved = 1.0 / ratio(FULL, specpim(rule), "energy_j", **chosen)
        why = {
            "host": "the rival's memory only drafts: its verification is the GPU's",
            "best": "the rival may verify in the memory, where a pass over the target is several times as fast",
            "split": "the rival verifies on both at once: nothing that AHASD has makes up for it (OPT pair only)",
        }[rule]
        for what, paper, value in (("throughput", 1.5, gain), ("efficiency", 1.24, saved)):
            yield Row(
                f"specpim.{rule}.{what}", SOURCE, "x", paper, value, kind="reported",
                verdict="follows_if" if held(paper, value) == "follows" else "does_not_follow",
                why=f"{why}; published as up to 1.5x and a mean of 1.24x, SpecPIM's mapping is not",
            )  # fmt: skip
    for launch in LAUNCHES_US:
        gpu = GPU.having(f"system.gpu.launch_ps={launch} us")
        longest = {"drafters": ("adaedl",)}
        pairs = zip(grid(FULL, **longest), grid(gpu, **longest), strict=True)
        cells = [BENCH(a).tps / BENCH(b).tps for a, b in pairs]
        yield Row(
            f"gpu.launch_{launch}us.throughput", SOURCE, "x", 4.2, max(cells), kind="reported",
            verdict="follows_if" if held(4.2, max(cells)) == "follows" else "does_not_follow",
            why=f"largest pair with AdaEDL; their mean is {ratio(FULL, gpu, **longest):.2f}x. The GPU's launch cost is "
            "not published",
        )  # fmt: skip
    for factor in MEMORY_FACTORS:
        cells = [
            scaled_energy(BENCH(b), factor) / scaled_energy(BENCH(a), factor)
            for a, b in zip(grid(FULL), grid(GPU), strict=True)
        ]
        yield Row(
            f"gpu.memory_energy_{factor:g}.efficiency", SOURCE, "x", 5.6, max(cells), kind="reported",
            verdict="follows_if" if held(5.6, max(cells)) == "follows" else "does_not_follow",
            why=f"largest cell with {factor:g} times the memory energy; the less memory costs, the more the GPU's own "
            "watts weigh",
        )  # fmt: skip
    yield from _laptop()


def _laptop() -> Iterator[Row]:
    chosen = {"pairs": ("opt",), "drafters": ("specdec++",)}
    gain = ratio(FULL, LAPTOP, **chosen)
    yield Row(
        "laptop_gpu.throughput", SOURCE, "x", 4.2, gain, kind="quoted", verdict="contradicts",
        why="as published the GPU is an RTX 4090 Laptop of 576 GB/s: 11 times the NPU's 51.2 GB/s. It verifies and "
        "drafts from the same weights by the same bytes; only the pair that fits its 16 GB",
    )  # fmt: skip


def share_rows() -> Iterator[Row]:
    """Share of the memory's drafting in an iteration over the draft's length."""
    source = f"{SOURCE}, motivation: share of PIM in an iteration, SpecPIM's mapping, LLaMA2-7B with a draft of 1.3B"
    for pair in ("motivation", "llama2"):
        for length, paper in ((1, 0.123), (16, 0.842)):
            case = SYNC.having(f"schedule.length={length}", pair=pair, drafter="fixed")
            phases = BENCH(case).phases
            share = phases["draft"] / sum(phases.get(name, 0.0) for name in ("draft", "compute", "projection"))
            per_token = phases["draft"] / length
            verify = phases["compute"] + phases.get("projection", 0.0)
            needed = 0.842 / 0.158 * verify / per_token
            yield Row(
                f"share.{pair}.length_{length}", source, "fraction", paper, share, kind="reported",
                verdict="follows" if abs(share - paper) <= 0.05 else "does_not_follow",
                why=f"a drafted token takes {per_token * 1e3:.1f} ms, a verification {verify * 1e3:.0f} ms: 84.2 % "
                f"needs drafts of {needed:.0f} tokens, and the largest draft is 16",
            )  # fmt: skip


def area_rows() -> Iterator[Row]:
    """Area of the additions from bits, lanes and gates, and their share of both dies that published shares imply."""
    system, _, _ = build_job(resolved(FULL))
    area = {name: cost.value / UM2_PER_MM2 for name, cost in system.prices().area_um2.items()}
    units = system.devices["pim"].standard.organisation["channels"] * system.devices["pim"].spec.ranks
    blocks = {name: area[f"control.{name}"] for name in ("edc", "tvc", "queues")} | {"aau": area["pim.aau"] / units}
    bits = {
        "edc": "histories, lead register and 512 counters of 2 bits",
        "tvc": "3 tables of 4 entries of 96 bits, a register and control bits",
        "queues": "64, 32 and 16 entries of 896, 128 and 112 bits",
        "aau": "16 lanes of one unit, as the artifact gives it without a synthesis report",
    }
    for name, (paper, _) in AREA.items():
        yield Row(
            f"area.{name}", f"{SOURCE}, area at 28 nm", "mm2", paper, blocks[name], kind="reported",
            verdict=held(paper, blocks[name]), why=bits[name],
        )  # fmt: skip
    gates = area["control.logic"] + area["pim.gtsu"] / units
    total = sum(blocks.values()) + gates
    for die in DIES_MM2:
        for what, size in (("artifact_aau", total), ("paper_aau", total - blocks["aau"] + AREA["aau"][0])):
            share = size / die
            verdict: Verdict = "follows_if" if share < 0.03 else "contradicts"
            yield Row(
                f"area.share_of_{die:g}mm2.{what}", f"{SOURCE}: below 3 % of the die", "fraction",
                0.03, share, kind="reported", verdict=verdict,
                why=f"{size:.3f} mm2 over {die:g} mm2, the die that 2.50 % for {'1.25' if die == 50 else '0.45'} mm2 "
                f"implies; below 3 % needs a die of {size / 0.03:.0f} mm2 or more",
            )  # fmt: skip


def internal_rows() -> Iterator[Row]:
    """The same with the rates as listed: 256 GB/s in the memory, one token a pass over the weights."""
    listed = {"system": "ahasd_listed"}

    def on(case: Case) -> Case:
        return replace(case, **listed)

    chosen = {"drafters": ("specdec++",)}
    for name, paper, case, over in (
        ("sync", 2.20, SYNC, NPU),
        ("ahasd", 3.10, FULL, NPU),
        ("ahasd_over_sync", 3.10 / 2.20, FULL, SYNC),
        ("pim_alone_over_ahasd", None, PLAIN, FULL),
    ):
        found = ratio(on(case), on(over), **chosen)
        yield Row(
            f"listed.{name}", SOURCE, "x", paper, found, kind="reported",
            verdict=None if paper is None else held(paper, found),
            why="256 GB/s in the memory, no reuse of weights between tokens, drafter SpecDec++",
        )  # fmt: skip


def claim_rows() -> Iterator[Row]:
    """All claims."""
    for rows in (rival_rows, share_rows, area_rows, internal_rows):
        yield from rows()
