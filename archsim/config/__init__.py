"""Configuration: strict YAML to validated plain data, every number with its source.

Files are of five kinds (``part``, ``system``, ``model``, ``run``, ``sweep``). :func:`load_config` resolves one with its
base, the files it names and the overrides of ``--set``; everything wrong is an :class:`InputError` of one line that
names file, line and dotted path.
"""

from archsim.config.background import stated_background
from archsim.config.checking import Row, Source
from archsim.config.files import (
    Part,
    RunFile,
    SystemFile,
    load_model,
    load_part,
    load_run,
    load_system,
)
from archsim.config.finding import check_name, find, is_path, names, packed_folder, search_path, user_folders
from archsim.config.job import JobSpec
from archsim.config.resolve import Resolved, digest
from archsim.config.restating import first_difference, stated, with_unit
from archsim.config.runs import check_file, describe, load_config, resolve_schedule, sweep_run
from archsim.config.setting import SET_SOURCE, Override
from archsim.config.sweeps import SweepSpec
from archsim.units import InputError

__all__ = [
    "SET_SOURCE",
    "InputError",
    "JobSpec",
    "Override",
    "Part",
    "Resolved",
    "Row",
    "RunFile",
    "Source",
    "SweepSpec",
    "SystemFile",
    "check_file",
    "check_name",
    "describe",
    "digest",
    "find",
    "first_difference",
    "is_path",
    "load_config",
    "load_model",
    "load_part",
    "load_run",
    "load_system",
    "names",
    "packed_folder",
    "resolve_schedule",
    "search_path",
    "stated",
    "stated_background",
    "sweep_run",
    "user_folders",
    "with_unit",
]
