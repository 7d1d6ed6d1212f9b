"""Measured rows: a value with its unit, and the case that was measured.

A case says what ran, in the simulator's words; it is hashable, so a prediction is made once. A row that cannot be
simulated has a `problem` instead of a case and is listed with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from archsim.units import InputError, parse, quote

#: Dimension of a measured value by the unit that values of it are kept in.
DIMENSIONS = ("s", "B/s", "tok/s")
#: Units that the documentation names; others of the same dimensions are read too.
UNITS = ("us", "ms", "tok/s", "MB/s", "GB/s")


@dataclass(frozen=True)
class OperatorCase:
    """Operators alone on one device.

    Attributes
    ----------
    device : str
        Name of the device in the system.
    op : str
        ``matmul`` (m, k, n), ``attention`` (m, kv, heads, kv_heads, head_dim), ``norm``, ``rope``, ``softmax``,
        ``swiglu`` (m, k), ``matrices`` (m: mean over the products of one layer of `model`) or ``layers`` (m, kv: all
        operators of all layers of `model`, summed).
    sizes : tuple of int
        Sizes in that order.
    dtype : str
        Type of the weights, empty for the model's own.
    kernel : str
        Kernel policy of the NPU, empty for the system's own.
    model : str
        Model of ``matrices`` and ``layers``.
    called : bool
        Whether the time holds the call of the operator, as the host sees it.
    """

    device: str
    op: str
    sizes: tuple[int, ...]
    dtype: str = ""
    kernel: str = ""
    model: str = ""
    called: bool = True


@dataclass(frozen=True)
class FlashCase:
    """Reads of flash: one size, pattern and depth.

    Attributes
    ----------
    pattern : str
        ``seq_read`` or ``rand_read``.
    size_bytes, depth, span_bytes : int
        Bytes of a request, requests outstanding, and bytes over which they are scattered (0: sequential).
    core : str
        Class of the issuing core; empty for the part's own.
    level : str
        ``row``: the phone's part, as loads of a run use it; ``event``: the event-level model of the same name.
    """

    pattern: str
    size_bytes: int
    depth: int = 1
    span_bytes: int = 0
    core: str = ""
    level: str = "row"


@dataclass(frozen=True)
class ModelCase:
    """A whole model: a prompt in batches, or tokens one by one, all weights in DRAM.

    Attributes
    ----------
    device : str
        ``npu`` or ``cpu``: where the layers run; the projection runs on the CPU.
    model : str
        Model by name.
    prompt, generated, depth : int
        Tokens of the prompt, tokens decoded after it, and tokens cached before both.
    batch : int
        Most rows of one pass.
    dtype, kv_dtype : str
        Types of weights and KV cache; empty for the model's own.
    threads : int
        Threads of the CPU; 0 for the system's own.
    """

    device: str
    model: str
    prompt: int
    generated: int
    depth: int = 0
    batch: int = 512
    dtype: str = ""
    kv_dtype: str = ""
    threads: int = 0


Case = OperatorCase | FlashCase | ModelCase


def group_of(case: Case) -> str:
    """Group of a case where the file names none."""
    if isinstance(case, FlashCase):
        return f"flash {'part' if case.level == 'row' else 'event-level'} {case.pattern}"
    if isinstance(case, ModelCase):
        phases = [word for word, tokens in (("prefill", case.prompt), ("decode", case.generated)) if tokens]
        return f"{case.device} {' and '.join(phases)}"
    return f"{case.device} {case.op} {'one row' if case.sizes[0] == 1 else 'batch'}"


@dataclass(frozen=True)
class Measurement:
    """One measured row.

    Attributes
    ----------
    place : str
        Where it stands in the file: ``line 12``, ``[3]``, ``jobs[0]``.
    label, group : str
        What was measured, and the group whose residuals are told together.
    value : float
        As measured, in `unit`; 0 only where nothing is simulated.
    unit : str
        Unit of the file.
    case : Case or None
        What to simulate; None with a `problem`.
    problem : str
        Why it cannot be simulated.
    tolerance : float or None
        Relative tolerance that the file gives.
    samples : int
        Measurements behind the value.
    held_out : bool or None
        Whether a fit must leave it out; None where the file does not say.
    """

    place: str
    label: str
    group: str
    value: float
    unit: str
    case: Case | None
    problem: str = ""
    tolerance: float | None = None
    samples: int = 1
    held_out: bool | None = None

    @property
    def dimension(self) -> str:
        """One of :data:`DIMENSIONS`."""
        return dimension_of(self.unit)

    @property
    def base_value(self) -> float:
        """Value in seconds, bytes per second or tokens per second."""
        return float(parse(f"{self.value!r} {self.unit}", self.dimension))


@dataclass(frozen=True)
class Measured:
    """Rows of one file, with the format it was read as."""

    file: Path
    format: str
    rows: tuple[Measurement, ...]


def dimension_of(unit: str) -> str:
    """Dimension of a unit, one of :data:`DIMENSIONS`.

    Raises
    ------
    InputError
        For a unit of another dimension.
    """
    for dimension in DIMENSIONS:
        try:
            parse(f"1 {unit}", dimension)
        except InputError:
            continue
        return dimension
    raise InputError(f"unit {quote(unit)} is none of a time, a rate of bytes or of tokens; one of {', '.join(UNITS)}")
