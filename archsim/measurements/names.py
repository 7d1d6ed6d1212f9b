"""Names that measured files use for models and types, as archsim's own."""

from __future__ import annotations

import re
from functools import cache
from pathlib import PurePosixPath

from archsim.config import names
from archsim.device import DType

_TYPE = re.compile(r"(?:^|[^a-z0-9])((?:i?q\d[a-z0-9_]*|f16|f32|bf16|tq\d_\d|mxfp4)(?: ?- ?[a-z]+)?)\b", re.I)


@cache
def _models() -> dict[str, str]:
    """Models that come with archsim or are on the search path, by their names without signs."""
    return {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in names("model")}


def model_of(text: str) -> str:
    """Model that a file name or description means, the longest that fits; empty where none does.

    ``Meta-Llama-3.1-8B-Instruct-Q4_0.gguf`` is ``llama-3.1-8b``: signs and case do not count, digits must not go on.
    """
    stem = PurePosixPath(text.replace("\\", "/")).name.lower()
    plain = re.sub(r"[^a-z0-9]", "", stem)
    found = [
        (len(key), name)
        for key, name in _models().items()
        if re.search(rf"(?<![0-9]){re.escape(key)}(?![0-9]*b)", plain)
    ]
    return max(found)[1] if found else ""


def dtype_of(text: str) -> str:
    """Storage type named as archsim does: ``f16`` is ``FP16``; empty for one it does not have."""
    plain = text.strip().upper()
    plain = {"F16": "FP16", "F32": "FP32"}.get(plain, plain)
    return plain if plain in DType.__members__ else ""


def type_in(text: str) -> str:
    """First storage type that a text names, as it stands there; empty where it names none."""
    match = _TYPE.search(text)
    return match.group(1) if match else ""
