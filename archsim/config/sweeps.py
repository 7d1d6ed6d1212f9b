"""What a sweep varies: the model of sweep files."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from archsim.config.job import Text

Number = int | float
#: Most values of one span.
MOST_STEPS = 10_000
_RELATION = re.compile(r"\s*([\w.]{1,200})\s*(<=|>=|==|!=|<|>)\s*([^<>=!]{1,100}?)\s*")
Points = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]


class Span(BaseModel):
    """An axis between two bounds: `steps` evenly spaced values (in the logarithm with `log`), or a range to draw from.

    With `step` values are snapped to multiples of it above `low` ("64 KiB"); alone it makes all of these the values.
    Whole bounds give whole values. Bounds with a unit ("1 GHz") need the same dimension.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    low: Number | str
    high: Number | str
    steps: Annotated[int, Field(strict=True, ge=2, le=MOST_STEPS)] | None = None
    step: Number | str | None = None
    log: bool = False

    @field_validator("steps", mode="before")
    @classmethod
    def _some_steps(cls, steps: Any) -> Any:
        if isinstance(steps, int) and not isinstance(steps, bool) and not 2 <= steps <= MOST_STEPS:
            raise ValueError(f"{str(steps)[:40]} steps; 2 to {MOST_STEPS} can be asked for")
        return steps


class Sample(BaseModel):
    """Draw `points` points instead of a grid: independently, or as a Latin hypercube."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: Literal["random", "lhs"]
    points: Points
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] = 0


class Condition(BaseModel):
    """A relation between an axis and a value or another axis; points that break it are left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    left: Text
    op: Literal["<", "<=", "==", "!=", ">=", ">"]
    right: bool | Number | str

    @model_validator(mode="before")
    @classmethod
    def _in_three(cls, given: Any) -> Any:
        if isinstance(given, str):
            found = _RELATION.fullmatch(given)
            left, op, right = found.groups() if found else ("job.tokens", ">", "64")
            for_example = "" if found else ", for example"
            raise ValueError(
                f"write a condition in three fields{for_example}: {{left: {left}, op: '{op}', right: {right}}}"
            )
        return given


class Bound(BaseModel):
    """Bounds on a result; points outside are marked infeasible."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min: Number | None = None
    max: Number | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Bound:
        if self.min is None and self.max is None:
            raise ValueError("give min, max or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self


class SweepSpec(BaseModel):
    """A run file, the axes over dotted paths, and what is done with the results.

    Attributes
    ----------
    run : str
        Run file, or the name of one.
    axes : dict
        Dotted path -> list of values, or a :class:`Span`.
    set : dict
        Values set for all points.
    zip : list of list of str
        Axes that move together.
    sample : Sample or None
        Points drawn instead of the grid.
    where : list of Condition
        Which points of the grid (or sample) count.
    repeat : list of str
        Axes (seeds, prompts) over which results are averaged, with a confidence interval.
    objectives : dict of str to min or max
        Results to optimise; the table marks the Pareto front.
    constraints : dict of str to Bound
        Bounds on results.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: Text
    axes: dict[str, Annotated[list[bool | Number | str], Field(min_length=1, max_length=10_000)] | Span]
    set: dict[str, bool | Number | str] = {}
    zip: list[Annotated[list[Text], Field(min_length=2)]] = []
    sample: Sample | None = None
    where: list[Condition] = []
    repeat: list[Text] = []
    objectives: dict[str, Literal["min", "max"]] = {}
    constraints: dict[str, Bound] = {}

    @model_validator(mode="after")
    def _axes_agree(self) -> SweepSpec:
        if not self.axes:
            raise ValueError("a sweep needs at least one axis, such as 'job.tokens: [64, 128]'")
        twice = sorted(set(self.axes) & set(self.set))
        if twice:
            raise ValueError(f"{twice[0]!r} is both an axis and set")
        zipped = [path for group in self.zip for path in group]
        for path in (*zipped, *self.repeat, *(condition.left for condition in self.where)):
            if path not in self.axes:
                raise ValueError(f"{path!r} is no axis; the axes are: {', '.join(self.axes)}")
        if len(set(zipped)) < len(zipped):
            raise ValueError("an axis can be in one zip only")
        if self.sample is not None and self.zip:
            raise ValueError("a sample draws every axis by itself; leave out zip")
        return self
