"""Packages that are also verbs: ``archsim.report`` holds the reports, and ``archsim.report(folder)`` makes one."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


def make_callable(package: str, module: str, verb: str) -> None:
    """Let a package be called as the function `verb` of `module`, which is imported at the first call.

    ``import archsim.report`` binds the package to the name that the verb has among archsim's public names; called, it
    is that verb all the same.
    """

    class Verb(ModuleType):
        def __call__(self, *args: Any, **named: Any) -> Any:
            return getattr(import_module(module), verb)(*args, **named)

    Verb.__call__.__doc__ = f"Call :func:`{module}.{verb}`."
    sys.modules[package].__class__ = Verb
