"""Options and settings shared by all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("archsim", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("archsim")


def pytest_addoption(parser):
    parser.addoption("--regold", action="store_true", help="rewrite the golden files from this run")
