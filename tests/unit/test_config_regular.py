"""Files at the border: what is no regular file is refused unopened; what is written appears whole or not at all."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from archsim.config.regular import check_output, make_folders, output_folder, read_regular, replaced, what_is
from archsim.report.perfetto import write_perfetto
from archsim.report.style import blank, save
from archsim.report.tables import read_table, write_table
from archsim.streams import open_stream
from archsim.units import InputError
from archsim.workload.importer import import_model


def fifo(path):
    os.mkfifo(path)
    return path


def bound(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.close()
    return path


def folder(path):
    path.mkdir()
    return path


def link_to_device(path):
    path.symlink_to("/dev/full")
    return path


SPECIAL = {
    "pipe": (fifo, "is a pipe, not a file"),
    "socket": (bound, "is a socket, not a file"),
    "folder": (folder, "is a folder, not a file"),
    "device": (link_to_device, "is a device, not a file"),
}
WRITERS = {
    "perfetto": ("x.perfetto", lambda path: write_perfetto(None, path)),
    "figure": ("x.svg", lambda path: save(blank(1.0)[0], path)),
    "csv": ("x.csv", lambda path: write_table([{"a": 1}], path)),
    "json": ("x.json", lambda path: write_table([{"a": 1}], path)),
    "parquet": ("x.parquet", lambda path: write_table([{"a": 1}], path)),
}
READERS = {
    "recording": ("x.jsonl", lambda path: open_stream(str(path), 0)),
    "archive": ("x.npz", lambda path: open_stream(str(path), 0)),
    "table": ("x.csv", read_table),
    "gguf": ("x.gguf", lambda path: import_model(path)),
    "config": ("x.json", lambda path: import_model(path)),
}


@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("writer", WRITERS)
def test_special_files_are_not_replaced(special, writer, tmp_path):
    make, words = SPECIAL[special]
    name, write = WRITERS[writer]
    path = make(tmp_path / name)
    before = os.lstat(path)
    with pytest.raises(InputError) as caught:
        write(path)
    assert str(caught.value) == f"{path}: {words}; choose another output"
    assert os.path.samestat(before, os.lstat(path))
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("reader", READERS)
def test_special_files_are_refused_unopened(special, reader, tmp_path):
    make, words = SPECIAL[special]
    name, load = READERS[reader]
    path = make(tmp_path / name)
    if special == "folder" and reader in ("gguf", "config"):  # a folder stands for the config.json in it
        path, words = fifo(path / "config.json"), "is a pipe, not a file"
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: {words.replace('file', 'table') if reader == 'table' else words}")


def test_what_is(tmp_path):
    (tmp_path / "plain").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    assert what_is(tmp_path / "plain") == ""
    assert what_is(tmp_path / "none") == what_is(tmp_path / "plain" / "below") == "no such file"
    assert what_is(tmp_path / "loop").startswith("cannot be read: ")
    assert what_is("a\0b") == "cannot be read: embedded null byte"


def test_reading_is_bounded(tmp_path):
    path = tmp_path / "big"
    path.write_bytes(b"x" * 11)
    assert read_regular(path, 11, "a test") == b"x" * 11
    with pytest.raises(InputError, match="is larger than 10 bytes, the limit for a test"):
        read_regular(path, 10, "a test")


@pytest.mark.parametrize("file", ["", "none/x.svg"])
def test_paths_that_cannot_be_written(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"is empty; give one|there is no folder 'none'"):
        check_output(file)


def test_a_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("old")
    broken = replaced(path)
    broken.__enter__().write_text("half")
    with pytest.raises(RuntimeError):
        broken.gen.throw(RuntimeError())
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["x.txt"]
    with replaced(path) as partial:
        partial.write_text("new")
    assert path.read_text() == "new"


def test_a_link_keeps_pointing(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    with replaced(tmp_path / "link.txt") as partial:
        partial.write_text("new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def dead_process() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_leftovers_of_dead_processes_go(tmp_path):
    stale, alive = tmp_path / f".x.txt.{dead_process()}.partial", tmp_path / f".x.txt.{os.getppid()}.partial"
    other = tmp_path / f".y.txt.{dead_process()}.partial"
    for path in (stale, alive, other):
        path.write_text("half")
    with replaced(tmp_path / "x.txt") as partial:
        partial.write_text("new")
    assert not stale.exists()
    assert alive.exists()
    assert other.exists()


@contextmanager
def small_files():
    """Let no file grow beyond 4 kB, as on a full disk; for one write only, as it holds for pytest's output too."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("writer", ["figure", "csv", "json", "parquet"])
def test_a_full_disk_is_one_line_and_leaves_nothing(writer, tmp_path):
    name, _ = WRITERS[writer]
    path = tmp_path / name
    if writer == "figure":
        write = lambda: save(blank(6.0, 4, 4)[0], path)  # noqa: E731
    else:
        write = lambda: write_table([{"a": i, "b": str(hash(str(i)))} for i in range(5000)], path)  # noqa: E731
    with pytest.raises(InputError) as caught, small_files():
        write()
    assert str(caught.value) == f"{path}: cannot be written: File too large"
    assert os.listdir(tmp_path) == []


def test_output_folder_goes_when_it_was_made_and_stays_empty(tmp_path):
    with pytest.raises(RuntimeError), output_folder(tmp_path / "a" / "b"):
        raise RuntimeError
    assert os.listdir(tmp_path) == []
    (tmp_path / "old").mkdir()
    with pytest.raises(RuntimeError), output_folder(tmp_path / "old"):
        raise RuntimeError
    broken = output_folder(tmp_path / "kept")
    (broken.__enter__() / "file").write_text("")
    with pytest.raises(RuntimeError):
        broken.gen.throw(RuntimeError())
    assert sorted(os.listdir(tmp_path)) == ["kept", "old"]


def test_folders_are_not_made_in_place_of_something_else(tmp_path):
    for name, words in (("pipe", "is a pipe, not a folder"), ("plain", "is a file, not a folder")):
        path = tmp_path / name
        fifo(path) if name == "pipe" else path.write_text("")
        with pytest.raises(InputError, match=words):
            make_folders(path)
