"""Files at the border: only regular ones are read or replaced, and a file appears whole or not at all."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from archsim.units import InputError, quote

_PARTIAL_STEM = 50
#: What the folders of runs and sweeps hold.
_RUN_FILE = re.compile(r"manifest\.json|sweep\.json|points\.jsonl|[a-z_]+\.parquet")
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def what_is(path: str | os.PathLike[str]) -> str:
    """What is wrong with a path that should be a regular file: ``no such file``, ``is a pipe, not a file``; or empty.

    Nothing is opened, so a pipe does not block and a device does not act.
    """
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "no such file"
    except (OSError, ValueError) as error:
        return f"cannot be read: {getattr(error, 'strerror', None) or error}"
    if stat.S_ISREG(mode):
        return ""
    noun = next((noun for test, noun in _KINDS if test(mode)), "something else")
    return f"is {noun}, not a file"


def reason(error: OSError) -> str:
    """Words of the system for an error; those of other libraries (pyarrow's, say) are longer."""
    return os.strerror(error.errno) if error.errno else " ".join(str(error).split())


def read_regular(path: Path, limit: int, noun: str = "", name: str = "") -> bytes:
    """Content of a regular file of at most `limit` bytes.

    Parameters
    ----------
    path : Path
        The file.
    limit : int
        Largest size in bytes.
    noun : str
        What the file should be, for the error (``a recording``); none for a file whose kind is plain.
    name : str
        How errors call the file; its path where none is given.

    Raises
    ------
    InputError
        When it is missing, no regular file, too large or cannot be read.
    """
    name = name or str(path)
    problem = what_is(path)
    if problem:
        raise InputError(f"{name}: {problem}" + (f"; expected {noun}" if noun else ""))
    try:
        with open(path, "rb") as stream:
            over = os.fstat(stream.fileno()).st_size > limit
            raw = b"" if over else stream.read(limit + 1)
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from None
    if over or len(raw) > limit:
        raise InputError(f"{name}: is larger than {limit} bytes" + (f", the limit for {noun}" if noun else ""))
    return raw


def check_output(file: str | os.PathLike[str]) -> Path:
    """Path of a file that may be written: one that does not exist, or a regular file; links are followed.

    Raises
    ------
    InputError
        For an empty path, a missing folder, or anything that is no regular file.
    """
    if not os.fspath(file):
        raise InputError("the path of the file to write is empty; give one")
    path = Path(file)
    problem = what_is(path)
    if problem == "no such file":
        folder = path.parent
        if not folder.is_dir():
            raise InputError(f"{path}: cannot be written: there is no folder {quote(folder)}")
    elif problem:
        raise InputError(f"{path}: {problem.replace('cannot be read', 'cannot be written')}; choose another output")
    return Path(os.path.realpath(path))


def keep_apart(
    outputs: Mapping[str, Path | None], inputs: Mapping[str, str | Path | None], *, suffix: str = ""
) -> None:
    """Refuse outputs that would replace an input, a file of a run that is read, or each other.

    Parameters
    ----------
    outputs, inputs : Mapping
        Paths by what they are called in the error; None where nothing was given. An input may be a name instead.
    suffix : str
        Ending that may be left out of an input.

    Raises
    ------
    InputError
        Naming the output and what it would replace.
    """
    taken = {Path(os.path.realpath(file)): f"{what} itself" for what, file in inputs.items() if file is not None}
    if suffix:
        taken |= {Path(f"{path}{suffix}"): words for path, words in taken.items()}
    for option, file in outputs.items():
        if file is None:
            continue
        real = Path(os.path.realpath(file))
        for path, words in taken.items():
            if real == path or (path.is_file() and real.is_file() and real.samefile(path)):
                raise InputError(f"{option} {file} is {words}; give it another name")
            if real.parent == path and _RUN_FILE.fullmatch(real.name):
                raise InputError(f"{option} {file} is a file of {words.removesuffix(' itself')}; give it another name")
        taken[real] = f"also {option}"


@contextmanager
def replaced(file: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside `file`, which takes its place when the block ends without an error.

    Temporary files of dead processes for the same file are removed first.

    Raises
    ------
    InputError
        When `file` may not be written (:func:`check_output`), or the disk is full.
    """
    target = check_output(file)
    stem = target.name[:_PARTIAL_STEM]
    partial = target.with_name(f".{stem}.{os.getpid()}.partial")
    try:
        _remove_stale(target.parent, stem)
        yield partial
        os.replace(partial, target)
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {reason(error)}") from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


@contextmanager
def output_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Folder for several files, made if need be; one that was made and is empty after an error is removed again.

    Raises
    ------
    InputError
        When it is no folder or cannot be made.
    """
    if not os.fspath(folder):
        raise InputError("the path of the output folder is empty; give one")
    path = Path(folder)
    made = make_folders(path)
    try:
        yield path
    except BaseException:
        remove_empty(made)
        raise


def make_folders(path: Path) -> list[Path]:
    """Make a folder and its missing parents; return those that were made, the innermost first.

    Raises
    ------
    InputError
        When something else is there, or it cannot be made.
    """
    made: list[Path] = []
    missing = [folder for folder in (path, *path.parents) if not os.path.lexists(folder)]
    try:
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            made.insert(0, folder)
        if not path.is_dir():
            problem = what_is(path).replace(", not a file", "") or "is a file"
            raise InputError(f"{path}: {problem}, not a folder; choose another output folder")
    except OSError as error:
        remove_empty(made)
        raise InputError(f"{path}: cannot be made: {error.strerror or error}") from None
    return made


def remove_empty(folders: list[Path]) -> None:
    """Remove folders that are empty, in order; others stay."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def _remove_stale(folder: Path, stem: str) -> None:
    """Remove temporary files for `stem` whose process is gone."""
    pattern = re.compile(rf"\.{re.escape(stem)}\.([0-9]{{1,10}})\.partial")
    for path in folder.iterdir():
        match = pattern.fullmatch(path.name)
        if match and not _alive(int(match.group(1))):
            with suppress(OSError):
                path.unlink()


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
