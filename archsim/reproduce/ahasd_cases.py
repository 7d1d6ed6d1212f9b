"""The cases of AHASD's table: the preset, the ablation, the rivals, and the published figures they are held against."""

from __future__ import annotations

from collections.abc import Sequence

from archsim.reproduce.ahasd_runs import DRAFTERS, PAIRS, Case

SOURCE = "arXiv 2604.25326"
TABLE = f"{SOURCE}, table Power and Efficiency (NPU with LPDDR5 = 1)"
ABLATION = f"{SOURCE}, ablation means (GPU = 1)"
GUIDE = "AHASD artifact (MAdrid1011/AHASD af6ab66), docs/ReproducibilityGuide.md (GPU = 1)"

#: The preset: machine ``ahasd_samsung`` (409.6 GB/s in the memory, four tokens a pass over the weights, draft in one
#: rank of four, target striped over the other three) with the stored acceptance levels of the three pairs, and the
#: schedule's defaults: up to eight unverified batches, all of them verified in one pass, feedback read between batches,
#: and drafting that goes on where no token can be pre-verified in time, as published.
WITHOUT_UNITS = ("system.pim.vector_unit=host",)
NO_EDC, NO_TVC = "schedule.edc=off", "schedule.tvc=off"
NPU = Case("npu_sd")
SYNC = Case("pim_sync", sets=WITHOUT_UNITS)
ASYNC = Case("ahasd", sets=(*WITHOUT_UNITS, NO_EDC, NO_TVC))
AAU = Case("ahasd", sets=(NO_EDC, NO_TVC))
EDC = Case("ahasd", sets=(NO_TVC,))
FULL = Case("ahasd")
ORACLE = Case("ahasd", sets=("schedule.edc=oracle", NO_TVC))
GPU = Case("gpu_sd", system="mobile_gpu")
LAPTOP = Case("gpu_sd", system="laptop_gpu")
PLAIN = Case("pim_ar")
STEPS = {"async": ASYNC, "aau": AAU, "edc": EDC, "tvc": FULL}


def specpim(rule: str) -> Case:
    """The GPU with processing in memory, by what a verification does."""
    return Case("specpim", system="gpu_pim", sets=(f"schedule.verify={rule}",))


def grid(case: Case, pairs: Sequence[str] = tuple(PAIRS)[:3], drafters: Sequence[str] = DRAFTERS) -> list[Case]:
    """A case for every pair and drafter, in one order."""
    return [case.having(pair=pair, drafter=drafter) for pair in pairs for drafter in drafters]


#: Published, over NPU with LPDDR5: (memory power, NPU power, throughput, energy per token).
POWER_TABLE = {"sync": (1.90, 1.10, 2.20, 0.64), "ahasd": (2.00, 1.15, 3.10, 0.48)}
#: Published over the GPU, by step: (throughput, energy efficiency).
ABLATION_MEANS = {"async": (2.2, 1.9), "aau": (2.7, 2.6), "edc": (3.4, 4.5), "tvc": (3.8, 5.2)}
#: Published over the GPU, pair -> drafter -> (throughput, energy efficiency).
GRID = {
    "opt": {"specdec++": (3.6, 4.8), "svip": (3.8, 5.1), "adaedl": (4.0, 5.3), "banditspec": (4.2, 5.6)},
    "palm": {"specdec++": (2.6, 3.5), "svip": (2.9, 3.8), "adaedl": (3.1, 4.1), "banditspec": (3.3, 4.3)},
}
#: Published area: block -> (mm2 at 28 nm, percent of the die).
AREA = {"edc": (0.05, 0.10), "tvc": (0.03, 0.06), "queues": (0.01, 0.02), "aau": (1.25, 2.50)}
#: Dies that the two published shares imply, mm2: 1.25 / 2.50 %, and 0.45 / 2.50 % in the artifact.
DIES_MM2 = (50.0, 18.0)
