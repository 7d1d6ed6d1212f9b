"""YAML as this project writes it: block style, keys in the order given, texts that read back as texts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from archsim.config.reading import FLOAT, INT


@cache
def _dumper() -> type:
    """PyYAML's plain dumper, which quotes whatever the core schema of YAML 1.2 would read as a number, too."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Dumper for both schemas: its own of YAML 1.1 and the core one of :mod:`archsim.config.reading`."""

    first = list("-+.0123456789")
    Dumper.add_implicit_resolver("tag:yaml.org,2002:int", INT, first)
    Dumper.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, first)
    return Dumper


def text_of(data: Mapping[str, Any]) -> str:
    """YAML text of plain data, one line for each value; what `reading.read` reads back as it was."""
    import yaml

    return yaml.dump(
        dict(data), Dumper=_dumper(), default_flow_style=False, sort_keys=False, width=4096, allow_unicode=True
    )
