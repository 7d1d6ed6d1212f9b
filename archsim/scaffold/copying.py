"""Take one registered class out of a module, with all that it needs, as the text of a module of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass

_WIDTH = 120


@dataclass(frozen=True)
class Piece:
    """One top-level statement of a module: what it defines, what it names, its lines (comments above it included)."""

    node: ast.stmt
    defines: frozenset[str]
    uses: frozenset[str]
    text: str
    apart: bool  # a blank line stands before it

    @property
    def is_block(self) -> bool:
        """Whether it is a function or class, which two blank lines set apart."""
        return isinstance(self.node, (ast.FunctionDef, ast.ClassDef))


def copied(source: str, chosen: str, docstring: str, renames: dict[str, str], decorator: str) -> str:
    """Module that holds a class of `source`, what that class uses, and the imports of both.

    Parameters
    ----------
    source : str
        Text of the module to copy from.
    chosen : str
        Name of the class.
    docstring : str
        Docstring of the new module, without quotes.
    renames : dict
        New names by old, for the class and those that go with it.
    decorator : str
        Name of the decorator that registers (``device``, ``schedule``). The chosen class has its argument replaced by
        ``renames[""]``; other registered classes become plain ones.
    """
    pieces = _pieces(source)
    body = [piece for piece in pieces if not _is_import(piece.node)]
    kept = _reached(body, chosen)
    kept_text = [
        _registered(piece, decorator, renames[""] if chosen in piece.defines else None)
        for piece in body
        if piece in kept
    ]
    used = {name for text in kept_text for name in _uses(ast.parse(text))}
    guards = [piece for piece in pieces if isinstance(piece.node, ast.If) and _is_import(piece.node)]
    used |= {"TYPE_CHECKING"} if any(_pruned(piece, used) for piece in guards) else set()
    parts = [f'"""{docstring}\n"""']
    parts += [text for piece in pieces if _is_import(piece.node) for text in _pruned(piece, used)]
    after_block = False
    for piece, text in zip((piece for piece in body if piece in kept), kept_text):
        parts += [""] * (2 if piece.is_block or after_block else int(piece.apart))
        parts.append(text)
        after_block = piece.is_block
    text = "\n".join(parts) + "\n"
    for old, new in renames.items():
        if old:
            text = re.sub(rf"\b{re.escape(old)}\b", new, text)
    return text


def identifiers(source: str) -> set[str]:
    """Every name that a module defines, imports or uses."""
    tree = ast.parse(source)
    names = {alias.asname or alias.name for node in ast.walk(tree) if _is_plain_import(node) for alias in node.names}
    return names | _uses(tree) | {name for piece in _pieces(source) for name in piece.defines}


def _pieces(source: str) -> list[Piece]:
    lines = source.splitlines()
    found = []
    body = ast.parse(source).body
    for node in body[1:] if ast.get_docstring(ast.parse(source)) is not None else body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]) - 1
        while first and lines[first - 1].startswith("#"):
            first -= 1
        text = "\n".join(lines[first : node.end_lineno])
        apart = first > 0 and not lines[first - 1].strip()
        found.append(Piece(node, frozenset(_defines(node)), frozenset(_uses(node)), text, apart))
    return found


def _defines(node: ast.stmt) -> set[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
    return {leaf.id for target in targets if target for leaf in ast.walk(target) if isinstance(leaf, ast.Name)}


def _uses(node: ast.AST) -> set[str]:
    return {leaf.id for leaf in ast.walk(node) if isinstance(leaf, ast.Name) and isinstance(leaf.ctx, ast.Load)}


def _is_plain_import(node: ast.AST) -> bool:
    return isinstance(node, (ast.Import, ast.ImportFrom))


def _is_import(node: ast.stmt) -> bool:
    guard = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return _is_plain_import(node) or guard


def _reached(body: Iterable[Piece], chosen: str) -> set[Piece]:
    """Pieces that the chosen name needs, directly or by others."""
    by_name = {name: piece for piece in body for name in piece.defines}
    wanted, kept = [chosen], set()
    while wanted:
        piece = by_name.get(wanted.pop())
        if piece is not None and piece not in kept:
            kept.add(piece)
            wanted += piece.uses
    return kept


def _registered(piece: Piece, decorator: str, name: str | None) -> str:
    """Text of a piece, registered under `name`, or under none."""
    pattern = re.compile(rf"^@{decorator}\([^)\n]*\)\n", re.M)
    return pattern.sub("" if name is None else f'@{decorator}("{name}")\n', piece.text, count=1)


def _pruned(piece: Piece, used: set[str]) -> list[str]:
    """Import statement (or guarded block of them) with the names that are used; a blank line stands before a group."""
    if isinstance(piece.node, ast.If):
        inner = [text for node in piece.node.body for text in _import_lines(node, used, "    ")]
        return ["", "if TYPE_CHECKING:", *inner] if inner else []
    lines = _import_lines(piece.node, used)
    return ["", *lines] if lines and piece.apart else lines


def _import_lines(node: ast.stmt, used: set[str], indent: str = "") -> list[str]:
    future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
    kept = [a for a in node.names if future or (a.asname or a.name).split(".")[0] in used]  # type: ignore[attr-defined]
    if not kept:
        return []
    names = [alias.name + (f" as {alias.asname}" if alias.asname else "") for alias in kept]
    if isinstance(node, ast.Import):
        return [f"{indent}import {', '.join(names)}"]
    line = f"{indent}from {node.module} import {', '.join(names)}"  # type: ignore[attr-defined]
    if len(line) <= _WIDTH:
        return [line]
    return [f"{indent}from {node.module} import (", *(f"{indent}    {name}," for name in names), f"{indent})"]  # type: ignore[attr-defined]
