"""The commands, files and Python of the README, as they stand there, each group of them in a folder of its own.

A group is what stands under one heading, or under one paragraph that begins in bold. A fenced block is a list of
commands when its lines begin with ``archsim``, ``python`` or ``export`` (a synopsis, with its brackets, is none); a
YAML block that states ``kind:`` and ``name:`` is the file ``<name>.yaml``, which every group finds; a Python block is a
script.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
#: Commands that are left out, by how they begin: they need torch and a model of 270 MB, or what such a command made.
LEFT_OUT = (
    "archsim record ",
    "archsim run --system oneplus_12 --schedule lever --target qwen3-8b --stream my_streams/",
)
#: A user's ``config.json``: that of SmolLM2-135M.
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": True,
}
#: Seconds that one command may take on a machine that has other work.
BOUND_S = 900


@dataclass(frozen=True)
class Block:
    """A fenced block: its group, what it holds (``shell``, ``python``, ``yaml``), and its lines."""

    group: str
    holds: str
    lines: tuple[str, ...]


def holds(language: str, lines: list[str]) -> str:
    """What a block holds; empty for what nobody can run."""
    if language in ("python", "yaml"):
        return language
    words = [line for line in lines if line and not line.startswith(" ")]
    synopsis = any(re.search(r"\[-|\[[A-Z]| \| ", line) for line in lines)
    if words and not synopsis and all(re.match(r"(archsim|python|export) ", line) for line in words):
        return "shell"
    return ""


def blocks(text: str) -> list[Block]:
    """Blocks of a page that hold something, in order."""
    found, group, language, lines = [], "", None, []
    for line in text.splitlines():
        if language is not None:
            if line.startswith("```"):
                what = holds(language, lines)
                if what:
                    found.append(Block(group, what, tuple(lines)))
                language = None
            else:
                lines.append(line)
        elif line.startswith("```"):
            language, lines = line[3:].strip(), []
        else:
            title = re.match(r"#+ (.*)|\*\*(.+?)\*\*", line)
            group = (title[1] or title[2]).strip("*. ") if title else group
    return found


def commands(block: Block) -> list[str]:
    """Commands of a shell block; an indented line goes on with the one above."""
    joined: list[str] = []
    for line in block.lines:
        if line.startswith(" ") and joined:
            joined[-1] = f"{joined[-1].removesuffix(chr(92)).rstrip()} {line.strip()}"
        elif line.strip():
            joined.append(line.strip())
    return joined


def files(found: list[Block]) -> dict[str, str]:
    """Files that the YAML blocks are."""
    named = {}
    for block in found:
        text = "\n".join(block.lines) + "\n"
        name = re.search(r"^name: (\S+)$", text, re.M)
        if block.holds == "yaml" and name and re.search(r"^kind: ", text, re.M):
            named[f"{name[1]}.yaml"] = text
    return named


PAGE = blocks(README.read_text(encoding="utf-8"))
GROUPS = list(dict.fromkeys(block.group for block in PAGE if block.holds in ("shell", "python")))


def test_the_page_is_taken_apart():
    text = (
        "# T\n```\nsh x\n```\n**A b.** c\n```\narchsim run a \\\n  --set b=c\nexport D=$PWD\n```\n"
        "```yaml\nkind: part\nname: p\n```\n## E\n```\narchsim run X | --system S [--json]\n```\n"
        "```python\nimport os\n```\n"
    )
    found = blocks(text)
    assert [(block.group, block.holds) for block in found] == [("A b", "shell"), ("A b", "yaml"), ("E", "python")]
    assert commands(found[0]) == ["archsim run a --set b=c", "export D=$PWD"]
    assert files(found) == {"p.yaml": "kind: part\nname: p\n"}


def test_what_is_left_out_stands_in_the_readme():
    shown = [command for block in PAGE if block.holds == "shell" for command in commands(block)]
    assert len(shown) >= 20
    assert [start for start in LEFT_OUT if not any(command.startswith(start) for command in shown)] == []


def prepare(folder: Path) -> dict[str, str]:
    """Lay out what a user has: the files of the page, the traces, the commands; returns the environment."""
    for name, text in files(PAGE).items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    (folder / "traces").symlink_to(ROOT / "traces")
    programs = folder / "bin"
    programs.mkdir()
    for name, words in {"archsim": " -m archsim", "python": ""}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable}{words} "$@"\n')
        (programs / name).chmod(0o755)
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": path}


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_snippets_run(group, tmp_path):
    environment = prepare(tmp_path)
    for block in (block for block in PAGE if block.group == group):
        if block.holds == "python":
            run([sys.executable, "-c", "\n".join(block.lines)], tmp_path, environment)
        for command in commands(block) if block.holds == "shell" else ():
            if command.startswith("export "):
                name, _, value = command.removeprefix("export ").partition("=")
                environment[name] = value.replace("$PWD", str(tmp_path))
            elif not command.startswith(LEFT_OUT):
                run(["bash", "-c", command], tmp_path, environment)


def run(words: list[str], folder: Path, environment: dict[str, str]) -> None:
    """Run a command, which ends in 0."""
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=BOUND_S)
    assert done.returncode == 0, f"{words[-1]}\n{done.stdout[-500:]}{done.stderr[-2000:]}"
