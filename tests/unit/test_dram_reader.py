"""Trace reader: formats, compression, and one-line errors that name file and line."""

import gzip

import numpy as np
import pytest

from archsim.devices.dram import reader
from archsim.units import InputError

CAPACITY, ALIGN = 1 << 31, 32


def read(path, style=None):
    parts = list(reader.blocks(path, style, CAPACITY, ALIGN))
    return [np.concatenate([getattr(p, f) for p in parts]).tolist() for f in ("address", "write", "cycle")]


def refuse(path, style=None):
    with pytest.raises(InputError) as caught:
        read(path, style)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message or "format" in message
    return message.replace(f"{path}", "FILE")


@pytest.fixture
def trace(tmp_path):
    def write(text, name="t.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize(
    ("text", "style", "cycles"),
    [
        ("R 20\nW 0x1fFE0\n", "rw-hex", [0, 0]),
        ("LD 32\nST 0x1ffe0\n", "ldst", [0, 0]),
        ("0x20 READ 5\n0x1FFE0\tWRITE   17\r\n", "dramsim3", [5, 17]),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_formats(trace, text, style, cycles, named):
    assert read(trace(text), style if named else None) == [[32, 0x1FFE0], [0, 1], cycles]


def test_blank_lines_comments_and_a_missing_last_newline(trace):
    assert read(trace("# made by hand\n\n  R 20\n\nW 40"))[0] == [0x20, 0x40]


def test_gzip_is_recognised_by_its_content(trace):
    assert read(trace(gzip.compress(b"R 20\n" * 3), "plain_name"))[0] == [32, 32, 32]


def test_blocks_are_cut_at_line_ends(trace, monkeypatch):
    monkeypatch.setattr(reader, "BLOCK_BYTES", 7)
    wanted = [k * 32 for k in range(500)]
    assert read(trace("".join(f"R {a:x}\n" for a in wanted)))[0] == wanted


def test_malformed_line(trace):
    assert refuse(trace("R 20\n\nR 40\nR zz\n"), "rw-hex") == (
        "FILE:4: 'R zz' is malformed; expected rw-hex: R|W HEXADDRESS"
    )
    for line in ("R", "R 20 7", "X 20", "R20", "R 0x", "LD", "\0\1"):
        assert "FILE:2: " in refuse(trace(f"R 20\n{line}\n"), "rw-hex")


@pytest.mark.parametrize(
    ("line", "fed", "looks"),
    [
        ("R 20", "ldst", "rw-hex"),
        ("R 20", "dramsim3", "rw-hex"),
        ("LD 0x20", "rw-hex", "ldst"),
        ("LD 0x20", "dramsim3", "ldst"),
        ("0x20 READ 5", "rw-hex", "dramsim3"),
        ("0x20 WRITE 5", "ldst", "dramsim3"),
    ],
)
def test_wrong_reader_says_what_it_looks_like(trace, line, fed, looks):
    assert refuse(trace(f"{line}\n"), fed).endswith(f"it looks like {looks}: use --format {looks}")


def test_unknown_look_and_unknown_format(trace):
    assert "FILE:1: 'hello world' is in no known trace format" in refuse(trace("hello world\n"))
    assert refuse(trace("R 20\n"), "ldts").startswith("unknown trace format 'ldts'")


def test_addresses(trace):
    assert "FILE:2: the address in 'R 80000000' is out of range; the memory ends at 0x80000000" in refuse(
        trace("R 20\nR 80000000\n")
    )
    assert "out of range" in refuse(trace("R ffffffffffffffffffffffffff\n"))
    assert "FILE:1: the address in 'W 21' is not a multiple of the 32-byte burst" in refuse(trace("W 21\n"))


def test_cycles(trace):
    assert "FILE:1: the cycle in '0x20 READ -4' is negative" in refuse(trace("0x20 READ -4\n"))
    assert "FILE:3: the cycle in '0x20 READ 6' is below" in refuse(trace("0x20 READ 5\n0x20 READ 7\n0x20 READ 6\n"))
    assert "malformed" in refuse(trace("0x20 READ\n"), "dramsim3")


def test_decreasing_across_blocks(trace, monkeypatch):
    monkeypatch.setattr(reader, "BLOCK_BYTES", 12)
    assert "FILE:3: the cycle" in refuse(trace("0x20 READ 5\n0x20 READ 9\n0x20 READ 8\n"))


def test_empty_missing_and_truncated(trace, tmp_path):
    assert refuse(trace(""), "ldst") == "FILE: no request in it; expected lines of LD|ST ADDRESS"
    assert "no request in it" in refuse(trace("\n# nothing\n"))
    assert "no such file" in refuse(tmp_path / "absent.txt")
    assert "is a folder, not a file" in refuse(tmp_path)
    whole = gzip.compress("".join(f"R {k * 32:x}\n" for k in range(5000)).encode())
    assert refuse(trace(whole[: len(whole) // 2]), "rw-hex") == "FILE: the gzip file is truncated; copy it again"
    assert "cannot be read" in refuse(trace(whole[:40] + b"\0" * 400 + whole[440:]), "rw-hex")
