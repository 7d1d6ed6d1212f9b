"""Models of measured rows, by name."""

from __future__ import annotations

from functools import lru_cache

from archsim.config import load_config
from archsim.units import from_numbers
from archsim.workload.model import ModelSpec


@lru_cache(maxsize=64)
def spec_of(model: str) -> ModelSpec:
    """Spec of a model by name or file.

    Raises
    ------
    InputError
        When there is none.
    """
    return from_numbers(ModelSpec, {**load_config("model", model).data["spec"], "name": model})
