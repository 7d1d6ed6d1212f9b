"""Options and settings shared by all tests."""

from __future__ import annotations

import functools
import signal
import sys

import pytest
import typer
from hypothesis import HealthCheck, settings

from archsim import registry

settings.register_profile("archsim", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("archsim")


if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # Started in the background by a shell: interrupts are ignored, and every process a test starts would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--regold", action="store_true", help="rewrite the golden files from this run")


@pytest.fixture(autouse=True, scope="session")
def one_tree_of_commands():
    """The tree of commands is built once in a process, however many command lines the tests run in it."""
    whole = typer.main.get_command
    typer.main.get_command = functools.cache(whole)
    yield
    typer.main.get_command = whole


@pytest.fixture(autouse=True)
def plugins_leave_with_their_test():
    """What a test registers from a user's folder is gone after it, so that no other test counts it."""
    yield
    strangers = [name for name in sys.modules if name.startswith("archsim_user_")]
    if not strangers:
        return
    for items in registry._items.values():
        for name in [name for name, item in items.items() if getattr(item, "__module__", "") in strangers]:
            del items[name]
    for name in strangers:
        del sys.modules[name]
