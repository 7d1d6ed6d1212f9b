"""A sweep's folder: what it is, what has been run, and its tables.

``sweep.json`` says which sweep the folder belongs to. ``points.jsonl`` gets one line per finished point, keyed by the
digest of the point's configuration and of archsim's sources; a line that was cut off by a killed process, or whose
checksum is not that of its result, is ignored, so a sweep goes on where it stopped. The tables are written at the end
from these lines alone.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from archsim.config import InputError, digest
from archsim.config.regular import make_folders, read_regular, reason, remove_empty, replaced, what_is
from archsim.trace.runfolder import LOCK, FolderLock

SPEC, POINTS = "sweep.json", "points.jsonl"
#: Largest files that are read: a million points take some 2 kB each.
MAX_SPEC_BYTES, MAX_POINTS_BYTES = 64 << 20, 4 << 30


class Kept(Mapping[str, dict[str, Any]]):
    """Results by key, read from their file when asked for: a sweep of any length takes little memory as it runs.

    Parameters
    ----------
    path : Path
        File with a line per result.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._places: dict[str, tuple[int, int]] = {}

    def place(self, key: str, at: int, length: int) -> None:
        """Note that the result of `key` is in the `length` bytes from `at`."""
        self._places[key] = (at, length)

    def __getitem__(self, key: str) -> dict[str, Any]:
        at, length = self._places[key]
        try:
            with self.path.open("rb") as stream:
                stream.seek(at)
                result = json.loads(stream.read(length))["result"]
        except (OSError, ValueError, LookupError, TypeError):
            raise InputError(f"{self.path}: was changed while it was in use; run again") from None
        return {sys.intern(name): value for name, value in result.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._places


class Memory:
    """Results by key that are not kept on disk."""

    folder: Path | None = None

    def __init__(self) -> None:
        self.done: dict[str, dict[str, Any]] = {}

    def add(self, key: str, result: dict[str, Any]) -> None:
        """Hold one result."""
        self.done[key] = result

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing to hold: no other process sees it."""
        yield


_HEAD = '"result":'


def _sum(line: bytes) -> int:
    """Checksum of the result in a line."""
    return zlib.crc32(line[line.index(_HEAD.encode()) :].rstrip(b"\n"))


class Store:
    """Results of a sweep, by key.

    Parameters
    ----------
    folder : Path
        Where they are kept; made when missing.
    spec : dict
        The sweep as plain data; a folder that holds another one is refused.

    Raises
    ------
    InputError
        When the folder cannot be written.
    """

    def __init__(self, folder: Path, spec: dict[str, Any]) -> None:
        self.folder = folder
        self.done = Kept(folder / POINTS)
        #: What of the folder could not be used; empty where nothing.
        self.lost = ""
        self._made = make_folders(folder)
        self._claimed = False
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InputError(f"{folder}: cannot be written; choose another folder with -o")
        self._spec = spec

    def _claim(self, spec: dict[str, Any]) -> None:
        path = self.folder / SPEC
        problem = what_is(path)
        if problem == "no such file":
            taken = [entry.name for entry in self.folder.iterdir() if entry.name not in (LOCK, POINTS)]
            if taken:
                raise InputError(f"{self.folder}: holds other files ({taken[0]}); choose a new folder with -o")
            self._claimed = True
            with replaced(path) as partial:
                partial.write_text(json.dumps(spec, indent=1) + "\n", encoding="utf-8")
            return
        if problem:
            raise InputError(f"{path}: {problem}")
        try:
            held = json.loads(read_regular(path, MAX_SPEC_BYTES))
        except (ValueError, RecursionError, InputError):
            raise InputError(f"{path}: cannot be read; remove the folder or choose another with -o") from None
        if digest(held) != digest(spec):
            name = held.get("name", "?") if isinstance(held, dict) else "?"
            raise InputError(f"{self.folder}: belongs to another sweep ({name}); choose another folder with -o")

    def _read(self) -> None:
        path = self.folder / POINTS
        problem = what_is(path)
        if problem == "no such file":
            return
        if problem:
            raise InputError(f"{path}: {problem}")
        raw = read_regular(path, MAX_POINTS_BYTES, "the results of a sweep")
        whole = raw[: raw.rfind(b"\n") + 1]
        at, bad = 0, 0
        for line in whole.splitlines(keepends=True):
            try:
                entry = json.loads(line)
                if entry["sum"] != _sum(line) or entry["result"]["status"] not in ("ok", "failed"):
                    raise ValueError
                self.done.place(entry["key"], at, len(line))
            except (ValueError, LookupError, TypeError, RecursionError):
                bad += 1
            at += len(line)
        if bad:
            self.lost = f"{path}: {bad} line(s) are damaged or were changed; what they held was run again"
        if len(whole) < len(raw):
            with path.open("rb+") as stream:
                stream.truncate(len(whole))

    def add(self, key: str, result: dict[str, Any]) -> None:
        """Keep one result; it survives a kill from here on."""
        text = json.dumps(result, separators=(",", ":"), allow_nan=False)
        line = f"{_HEAD}{text}}}\n"
        line = f'{{"key":{json.dumps(key)},"sum":{_sum(line.encode())},{line}'
        try:
            with (self.folder / POINTS).open("ab") as stream:
                at = stream.seek(0, os.SEEK_END)
                stream.write(line.encode())
        except OSError as error:
            raise InputError(f"{self.folder / POINTS}: cannot be written: {reason(error)}") from None
        self.done.place(key, at, len(line))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes out of the folder, and read what is there.

        An error before the first result takes back what was made here.

        Raises
        ------
        InputError
            When another process works in it, or it belongs to another sweep.
        """
        lock = FolderLock(self.folder)
        try:
            # What another process holds is neither claimed nor read: it may be in the middle of a line.
            self._claim(self._spec)
            self._read()
            yield
        except BaseException:
            if self._claimed and not self.done:
                for name in (SPEC, POINTS):
                    with suppress(OSError):
                        (self.folder / name).unlink(missing_ok=True)
            raise
        finally:
            lock.free()
            if not self.done:
                remove_empty(self._made)
