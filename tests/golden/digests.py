"""Digests of small runs, to be compared across processes, versions of Python and of libraries, and with the JIT off.

``python tests/golden/digests.py`` prints them as JSON, with the versions they were made with, and says on stderr which
differ from ``digests.json``; ``--write`` rewrites that file. Versions do not enter a digest: it is that of the rows,
blocks and marks of the trace.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

FILE = Path(__file__).with_name("digests.json")
TINY = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25", "tokens": 2, "prompt_tokens": 4}
PAIR = {"target": "llama2-7b", "draft": "llama2-1.3b", "stream": "synthetic:llama2-7b+llama2-1.3b:alpaca"}
PAIR |= {"tokens": 4, "prompt_tokens": 8}
BLOCKS = {"target": "llada-8b", "stream": "synthetic:llada-8b:gsm8k", "tokens": 8, "prompt_tokens": 8}
#: Machine, schedule and job by name; the first is the tiniest.
CASES = {
    "flash_ar": ("oneplus_12", "flash_ar", TINY),
    "chain_sd": ("oneplus_12", "chain_sd", {**TINY, "tokens": 8, "stream": "recorded:exit_layers:10"}),
    "lever": ("oneplus_12", "lever", {**TINY, "tokens": 8, "stream": "synthetic:llama-3.1-8b:mbpp", "acceptance": 0.6}),
    "llada": ("llada_ace5_pro", "llada", BLOCKS),
    "ahasd": ("ahasd_samsung", "ahasd", PAIR),
    "specpim": ("gpu_pim", "specpim", PAIR),
}
#: The case that runs without the JIT.
TINIEST = "flash_ar"


def digest(name: str) -> str:
    """Digest of one case."""
    from archsim.session import load, run

    system, schedule, job = CASES[name]
    return run(load(system=system, schedule=schedule, job=job), trace="off").summary["digest"]


def versions() -> dict[str, str]:
    """What the digests are made with."""
    import numba
    import numpy

    jit = "off" if numba.config.DISABLE_JIT else "on"
    return {"python": platform.python_version(), "numpy": numpy.__version__, "numba": numba.__version__, "jit": jit}


def main(args: list[str]) -> int:
    """Print the digests of the cases named, or of all; 1 where one differs from the file."""
    found = {name: digest(name) for name in [arg for arg in args if arg != "--write"] or CASES}
    print(json.dumps({"versions": versions(), "digests": found}, indent=1))
    if "--write" in args:
        FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    kept = json.loads(FILE.read_text(encoding="utf-8"))
    differ = [name for name, text in found.items() if text != kept[name]]
    if differ:
        print(f"other than in {FILE.name}: {', '.join(differ)}", file=sys.stderr)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
