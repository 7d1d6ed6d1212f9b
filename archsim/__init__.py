"""archsim: a cycle-approximate simulator of language-model inference on phones.

Public names are loaded on first use, so that ``import archsim`` stays light:
``load``, ``run``, ``replay``, ``report``, ``explain``, ``sweep``, ``uncertainty``, ``compare``, ``calibrate``, ...
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import sys
import tempfile
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.3.0"

if TYPE_CHECKING:
    from archsim.config import InputError, Resolved
    from archsim.measurements.calibration import Calibration, calibrate
    from archsim.measurements.residuals import Comparison, compare
    from archsim.report.answers import Difference, Explanation, Replay, Report
    from archsim.report.invariants import Checks, check_trace
    from archsim.session import Result, diff, explain, load, replay, report, run
    from archsim.sweep.outcome import SweepResult
    from archsim.sweep.runner import sweep
    from archsim.sweep.search import search
    from archsim.sweep.uncertainty import uncertainty
    from archsim.system import System
    from archsim.trace import Trace

_MODULES = {
    "archsim.config": ("InputError", "Resolved"),
    "archsim.measurements.calibration": ("Calibration", "calibrate"),
    "archsim.measurements.residuals": ("Comparison", "compare"),
    "archsim.report.answers": ("Difference", "Explanation", "Replay", "Report"),
    "archsim.report.invariants": ("Checks", "check_trace"),
    "archsim.session": ("Result", "diff", "explain", "load", "replay", "report", "run"),
    "archsim.sweep.outcome": ("SweepResult",),
    "archsim.sweep.runner": ("sweep",),
    "archsim.sweep.search": ("search",),
    "archsim.sweep.uncertainty": ("uncertainty",),
    "archsim.system": ("System",),
    "archsim.trace": ("Trace",),
}
_PUBLIC = {name: module for module, names in _MODULES.items() for name in names}
__all__ = [
    "Calibration",
    "Checks",
    "Comparison",
    "Difference",
    "Explanation",
    "InputError",
    "Replay",
    "Report",
    "Resolved",
    "Result",
    "SweepResult",
    "System",
    "Trace",
    "__version__",
    "calibrate",
    "check_trace",
    "compare",
    "diff",
    "explain",
    "load",
    "replay",
    "report",
    "run",
    "search",
    "source_digest",
    "sweep",
    "uncertainty",
]


_IMPORT = re.compile(rb"\n(?:from|import) (archsim[\w.]*)(?: import (\([^)]*\)|.*))?")
_WORD = re.compile(rb"\w+")


def source_digest() -> str:
    """Digest (16 hex digits) of the modules with kernels and of what they import; names the cache folder of kernels."""
    digest = hashlib.sha256()
    for path, text in sorted(kernel_sources().items()):
        digest.update(path.encode())
        digest.update(text)
    return digest.hexdigest()[:16]


def kernel_sources() -> dict[str, bytes]:
    """Sources of the modules with kernels and of what they import, by path.

    A module counts as one with kernels when it names ``njit``. Imports are followed inside the package, at the top
    level of a module, so an edit elsewhere (a report, a command) leaves the compiled kernels in use.
    """
    texts = _sources(os.path.dirname(os.path.abspath(__file__)))
    wanted = [path for path, text in texts.items() if b"njit" in text and path != "__init__.py"]
    seen = set(wanted)
    while wanted:
        for module, names in _IMPORT.findall(b"\n" + texts[wanted.pop()]):
            package = module.decode().split(".")[1:]
            for name in ([], *([word.decode()] for word in _WORD.findall(names))):
                stem = "/".join([*package, *name])
                for path in (f"{stem}.py", f"{stem}/__init__.py"):
                    if path in texts and path not in seen:
                        seen.add(path)
                        wanted.append(path)
    return {path: texts[path] for path in seen}


def _sources(root: str) -> dict[str, bytes]:
    """Sources below a folder, by path from there with slashes; plain calls, as every start reads them all."""
    texts, folders = {}, [""]
    while folders:
        folder = folders.pop()
        with os.scandir(os.path.join(root, folder)) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    with open(entry.path, "rb") as file:
                        texts[folder + entry.name] = file.read()
                elif entry.is_dir() and entry.name != "__pycache__":
                    folders.append(f"{folder}{entry.name}/")
    return texts


def _set_kernel_cache() -> None:
    """Point numba's cache at a folder keyed by the sources.

    A cached kernel that calls a kernel of another file goes stale when only the callee changes (numba issue
    1833), so every state of the sources gets a folder of its own, below ``ARCHSIM_CACHE`` or the user's cache
    folder. Where that cannot be written, kernels are compiled anew into a private temporary folder.
    """
    base = os.environ.get("ARCHSIM_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "archsim"
    )
    folder = os.path.join(base, source_digest())
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        folder = tempfile.mkdtemp(prefix="archsim-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = folder
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = folder


_set_kernel_cache()


def __dir__() -> list[str]:
    """Public names, loaded or not."""
    return sorted({*globals(), *_PUBLIC})


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'archsim' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
