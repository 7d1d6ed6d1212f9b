"""Options and settings shared by all tests."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

settings.register_profile("archsim", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("archsim")


if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # Started in the background by a shell: interrupts are ignored, and every process a test starts would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--regold", action="store_true", help="rewrite the golden files from this run")
