"""Regimes of the reproduction tables: where a row belongs on the validation page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple


class Regime(NamedTuple):
    """Level (see :data:`LEVELS`), what is done, on how many rows at a time, and whether another simulator says so."""

    level: str
    name: str
    batch: str = "-"
    simulator: bool = False


LEVELS = ALONE, PHONE, SYSTEM, TREND = "device alone", "phone", "system", "trend"
_DECODE, _FEW, _MANY = "1 row", "2 to 32 rows", "33 rows and more"

#: Patterns of row ids by table, in the order in which they are tried, and their regime.
PATTERNS: Mapping[str, tuple[tuple[str, Regime], ...]] = {
    "devices": (
        (r"dram\.", Regime(ALONE, "DRAM, command by command", simulator=True)),
        (r"pim\.lp5x", Regime(ALONE, "PIM, gain over streaming the weights", _DECODE)),
        (r"pim\.", Regime(ALONE, "PIM, command by command", simulator=True)),
        (r"flash\.", Regime(ALONE, "flash, event by event", simulator=True)),
        (r"npu\.scalesim", Regime(ALONE, "systolic arrays", simulator=True)),
        (r"npu\.layout", Regime(ALONE, "NPU, layouts")),
        (r"(npu|cpu)\.matrix\..*rows1$", Regime(ALONE, "NPU and CPU, products", _DECODE)),
        (r"(npu|cpu)\.matrix\.", Regime(ALONE, "NPU and CPU, products", _MANY)),
        (r"npu\.layers\.", Regime(ALONE, "NPU, layers", _FEW)),
        (r"npu\.v81\.(pp25|cliff)", Regime(ALONE, "NPU, prefill", _FEW)),
        (r"npu\.(v81\.pp|v\d+\.graph\.prefill|.*prefill)", Regime(ALONE, "NPU, prefill", _MANY)),
        (r"npu\..*graph\.decode", Regime(ALONE, "NPU, products", _DECODE)),
        (r"npu\.v81\.(operator|clock|weights)", Regime(ALONE, "NPU, stages and perturbations", _MANY)),
        (r"(npu|cpu)\.", Regime(ALONE, "NPU and CPU, rates and bandwidths")),
    ),
    "energy": (
        (r"energy\.(sram|pim)", Regime(ALONE, "energy and area of arrays")),
        (r"energy\.", Regime(PHONE, "power and energy of a phone")),
    ),
    "lever": (
        (r"lever\.table1", Regime(PHONE, "plain decoding from flash", _DECODE)),
        (r"lever\.table2", Regime(PHONE, "verification of a tree from flash", _FEW)),
        (r"lever\.fig[45]", Regime(PHONE, "verification of a tree from flash", _FEW)),
        (r"lever\.table6", Regime(SYSTEM, "Lever by DRAM budget", _FEW)),
        (r"lever\.fig10", Regime(SYSTEM, "Lever by phone, model and task", _FEW)),
        (r"lever\.table5", Regime(SYSTEM, "baselines of Lever", _FEW)),
        (r"lever\.", Regime(SYSTEM, "Lever's parts: drafting, pruning, projection", _FEW)),
    ),
    "llada": (
        (r"ladder\.(cpu_pass|vanilla|prefix_kv)", Regime(PHONE, "diffusion decoding on the CPU", _MANY)),
        (r"(ladder|fit|cumulative|alone)\.", Regime(SYSTEM, "llada.cpp, technique by technique", _FEW)),
        (r"", Regime(SYSTEM, "llada.cpp, claims", _FEW)),
    ),
    "ahasd": (
        (r"table\.sync", Regime(SYSTEM, "AHASD, synchronous on PIM", _FEW)),
        (r"(gpu|laptop_gpu|specpim)", Regime(SYSTEM, "AHASD, other machines", _FEW)),
        (r"area\.", Regime(ALONE, "energy and area of arrays")),
        (r"", Regime(SYSTEM, "AHASD", _FEW)),
    ),
    "generations": ((r"", Regime(PHONE, "another generation of the NPU")),),
    "llada_map": ((r"", Regime(SYSTEM, "llada.cpp, maps", _FEW)),),
    "trends": (
        (r"trends\.(scaling|elasticity)", Regime(TREND, "theory: everything scaled, elasticities")),
        (r"trends\.perturbation", Regime(TREND, "one thing changed on a phone")),
        (r"trends\.curve\.prompt", Regime(TREND, "prompt length", _MANY)),
        (r"trends\.curve\.(lanes|sizes)", Regime(TREND, "flash request size and lanes")),
        (r"trends\.curve\.budget", Regime(TREND, "DRAM budget", _FEW)),
        (r"trends\.crossover", Regime(TREND, "crossovers")),
        (r"trends\.rank", Regime(TREND, "rank against the kernels below")),
    ),
}
OTHER = Regime(SYSTEM, "other")


def regime_of(table: str, row_id: str) -> Regime:
    """Regime of a row; tables and ids that no pattern knows are ``other``."""
    for pattern, regime in PATTERNS.get(table, ()):
        if re.match(pattern, row_id):
            return regime
    return OTHER
