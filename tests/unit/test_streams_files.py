"""Broken recordings are refused in one line that says what is wrong and where."""

import io
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from archsim.config import InputError
from archsim.streams import open_stream
from archsim.streams import opening as opening_module

TRACES = Path(__file__).parents[2] / "traces"

TREE = {
    "id": "a",
    "kind": "code",
    "step": 0,
    "pos": 1,
    "root": 5,
    "tok": [7, 8, 9],
    "par": [-1, -1, 0],
    "dep": [1, 1, 2],
    "q": [0.5, 0.25, 0.5],
    "cum": [0.5, 0.25, 0.25],
    "pent": [1.0, 1.0, 0.5],
    "p": [0.9, 0.05, 0.2],
    "tent": [0.3, 0.3, 1.1],
    "acc": [0],
    "bonus": 4,
}
NEXT = TREE | {"step": 1, "pos": 3, "root": 4}
NGRAM = {"id": "a", "kind": "code", "pos": 0, "ngram": 2, "draft": [1, 2], "acc": 1}
JACOBI = {"id": "a", "kind": "code", "blk": 0, "it": 0, "tok": [1, 2], "conf": [0.5, 0.5], "chg": [0], "fixed": 1}
DENOISE = {
    "kind": "code",
    "seq": 0,
    "mode": "one",
    "blk": 0,
    "step": 0,
    "masked": [0, 1],
    "conf": [0.5, 0.25],
    "ent": [1.0, 2.0],
    "arg": [3, 4],
    "commit": [0],
}
TREE_KEYS = "id, kind, step, pos, root, tok, par, dep, q, cum, pent, p, tent, acc, bonus"
NGRAM_KEYS = "id, kind, pos, ngram, draft, acc"


def lines(*records):
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def without(record, key):
    return {k: v for k, v in record.items() if k != key}


JSONL_CASES = [
    ("empty", b"", ": the file is empty; a recording has one JSON object per line"),
    ("blank line", lines(TREE) + b"\n" + lines(NEXT), ":2:1: not JSON: Expecting value"),
    ("not json", b'{"id": \n', ":1:8: not JSON: Expecting value"),
    ("truncated", lines(TREE)[:-20] + b"\n", ":1:239: not JSON: Unterminated string starting at"),
    ("not utf-8", b'{"id": "\xff"}\n', ":1:9: not UTF-8 text; save the recording as UTF-8"),
    ("deep", b'{"par": ' + b"[" * 200_000 + b"\n", ":1: nested too deeply; a line is one flat object"),
    ("array", b"[1, 2]\n", ":1: must be a JSON object, not [1, 2]"),
    ("nan", lines(TREE).replace(b"0.05", b"NaN"), ":1: NaN is not a number that a recording may hold"),
    ("twice", b'{"par": 1, "par": 2}\n', ":1: key 'par' appears twice"),
    (
        "long line",
        b'{"par": "' + b"x" * 2**20 + b'"}\n',
        ":1: 1048587 bytes are more than the limit of 1048576 for a line",
    ),
    (
        "unknown",
        b'{"a": 1}\n',
        ":1: not a known recording: a line has 'par' (tree), 'ngram' (look-up), 'it' (Jacobi) or 'masked' (denoising)",
    ),
    ("missing key", lines(without(TREE, "tent")), f":1: key 'tent' is missing; a line has {TREE_KEYS}"),
    ("extra key", lines(TREE | {"x": 1}), f":1: unknown key 'x'; a line has {TREE_KEYS}"),
    ("id type", lines(TREE | {"id": 3}), ":1: key 'id' must be a text of 1 to 200 characters, not 3"),
    (
        "id with a line break",
        lines(TREE, NEXT | {"id": "a\nb"}),
        r":2: step 1 opens request 'a\nb'; its first step is 0",
    ),
    ("bool", lines(TREE | {"step": True}), ":1: key 'step' must be a whole number from 0 to 2147483648, not True"),
    ("list type", lines(TREE | {"q": 0.5}), ":1: key 'q' must be a list, not 0.5"),
    ("length", lines(TREE | {"q": [0.5, 0.25]}), ":1: key 'q' has 2 entries where 3 are needed"),
    ("no nodes", lines(TREE | {"tok": []}), ":1: key 'tok' has 0 entries; a tree has 1 to 4096 nodes"),
    ("probability", lines(TREE | {"p": [0.9, 1.5, 0.2]}), ":1: p[1] must be a number from 0 to 1, not 1.5"),
    ("negative", lines(TREE | {"pent": [1.0, -1.0, 0.5]}), ":1: pent[1] must be a number from 0 to 20, not -1.0"),
    ("infinite", lines(TREE | {"tent": [0.3, 0.3, 1.0]}).replace(b"1.0]", b"1e999]"), None),
    ("text number", lines(TREE | {"q": [0.5, "a", 0.5]}), ":1: q[1] must be a number from 0 to 1, not 'a'"),
    ("parent", lines(TREE | {"par": [-1, -1, 2]}), ":1: par[2] is 2: a parent stands before its children"),
    ("depth", lines(TREE | {"dep": [1, 1, 3]}), ":1: dep[2] is 3 but its parent 0 has depth 1"),
    ("product", lines(TREE | {"cum": [0.5, 0.25, 0.5]}), ":1: cum[2] is 0.5 but q along its path gives 0.2500"),
    (
        "order",
        lines(TREE | {"q": [0.25, 0.5, 0.5], "cum": [0.25, 0.5, 0.125]}),
        ":1: q[1] is 0.5, more than 0.25 of its earlier sibling 0; sort by q",
    ),
    ("path", lines(TREE | {"acc": [1, 2]}), ":1: acc[1] is node 2, no child of 1; acc is a path from the root"),
    ("step skipped", lines(TREE, NEXT | {"step": 2}), ":2: step 2 follows step 0; steps of a request count up by one"),
    ("pos", lines(TREE, NEXT | {"pos": 2}), ":2: pos 2 does not follow: step 0 left 3 output tokens"),
    ("root", lines(TREE, NEXT | {"root": 9}), ":2: root 9 is not the bonus token 4 of step 0"),
    (
        "duplicate id",
        lines(TREE, TREE | {"id": "b"}, NEXT),
        ":3: request 'a' appears again after another one; lines of a request stand together",
    ),
    ("kind", lines(TREE, NEXT | {"kind": "math"}), ":2: request 'a' changes its kind from 'code' to 'math'"),
    ("mixed formats", lines(NGRAM, TREE), f":2: key 'ngram' is missing; a line has {NGRAM_KEYS}"),
    ("ngram pos", lines(NGRAM, NGRAM | {"pos": 1}), ":2: pos 1 does not follow: 2 output tokens came before"),
    ("ngram acc", lines(NGRAM | {"acc": 3}), ":1: acc 3 is more than the 2 drafted tokens"),
    ("no match", lines(NGRAM | {"ngram": 0}), ":1: ngram 0 with 2 drafted tokens; nothing is drafted without a match"),
    ("iteration", lines(JACOBI, JACOBI | {"it": 2}), ":2: it 2 follows it 0; iterations of a block count up by one"),
    (
        "prefix",
        lines(JACOBI, JACOBI | {"it": 1, "fixed": 0}),
        ":2: fixed 0 is less than 1 before; a verified prefix does not shrink",
    ),
    ("block", lines(JACOBI, JACOBI | {"blk": 2}), ":2: blk 2 it 0 does not follow: blk 1 it 0 does"),
    ("changed", lines(JACOBI | {"chg": [2]}), ":1: chg[0] must be a whole number from 0 to 1, not 2"),
    ("commit", lines(DENOISE | {"masked": [1]}), ":1: commit [0] must name one or more of the masked positions"),
    (
        "masked",
        lines(DENOISE, DENOISE | {"step": 1, "masked": [0, 1]}),
        ":2: 2 masked positions do not follow: the step before left 1",
    ),
    ("mode", lines(DENOISE), ": no mode 'two'; the recording has 'one'"),
]


@pytest.mark.parametrize(("data", "message"), [c[1:] for c in JSONL_CASES], ids=[c[0] for c in JSONL_CASES])
def test_broken_lines(tmp_path, data, message):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(data)
    variant = ":two" if message and "no mode" in message else ""
    with pytest.raises(InputError) as error:
        open_stream(f"{path}{variant}", 1)
    assert str(error.value) == f"{path}{message or ':1: tent[2] must be a number from 0 to 20, not inf'}"
    assert "\n" not in str(error.value)


def exit_arrays(**changed):
    arrays = {
        "ids": np.array(["a", "b"]),
        "seq": np.array([0, 0, 1], dtype=np.int16),
        "kind": np.array([0, 0, 1], dtype=np.int8),
        "pos": np.array([0, 1, 0], dtype=np.int16),
        "tok": np.array([5, 6, 7], dtype=np.int32),
        "target_max": np.array([0.5, 0.5, 0.5], dtype=np.float16),
        "target_ent": np.array([1.0, 1.0, 1.0], dtype=np.float16),
        "exit_layers": np.array([10, 20]),
        "exit_top8": np.arange(18, dtype=np.int32).reshape(3, 2, 3),
        "exit_q": np.full((3, 2, 3), [0.5, 0.25, 0.125], dtype=np.float16),
        "exit_ent": np.ones((3, 2), dtype=np.float16),
    }
    return arrays | changed


def npz(path, arrays):
    np.savez(path, **arrays)
    return path


def spoiled(name, index, value):
    array = exit_arrays()[name].copy()
    array[index] = value
    return {name: array}


NPZ_CASES = [
    ("missing", {"exit_q": None}, ": array 'exit_q' is missing; an exit recording has ids, seq, kind, pos, tok, "),
    ("extra", {"other": np.ones(1)}, ": unknown array 'other'; an exit recording has ids, "),
    ("ids type", {"ids": np.array([1, 2])}, ": array 'ids' must be a non-empty list of texts, not int64 (2,)"),
    ("ids twice", {"ids": np.array(["a", "a"])}, ": ids[1]: 'a' appears twice"),
    ("objects", {"ids": np.array(["a", None], dtype=object)}, ": array 'ids' holds pickled objects; save plain arrays"),
    (
        "length",
        {"tok": np.array([5, 6], dtype=np.int32)},
        ": array 'exit_top8' has shape (3, 2, 3) where (2, 2, 3) is needed",
    ),
    ("token type", {"tok": np.ones(3)}, ": array 'tok' must hold whole numbers, not float64"),
    ("probability", spoiled("exit_q", (1, 0, 0), 1.5), ": exit_q[1,0,0] is 1.5, not within 0 to 1"),
    ("nan", spoiled("target_max", 2, np.nan), ": target_max[2] is nan, not within 0 to 1"),
    ("entropy", spoiled("exit_ent", (0, 1), -1), ": exit_ent[0,1] is -1, not within 0 to 20"),
    (
        "order",
        spoiled("exit_q", (2, 1, 1), 0.75),
        ": exit_q[2,1,1] is more than the candidate before it; sort candidates by q",
    ),
    (
        "sum",
        {"exit_q": np.full((3, 2, 3), 0.5)},
        ": exit_q[0,0] adds up to 1.5000; one token's candidates add up to 1 at most",
    ),
    ("candidate twice", spoiled("exit_top8", (1, 1, 1), 9), ": exit_top8[1,1] names a token twice"),
    ("positions", spoiled("pos", 1, 2), ": pos[1] is 2 where 1 follows; positions count up by one"),
    ("requests", spoiled("seq", 1, 1), ": pos[1] is 1 where 0 follows; positions count up by one"),
    (
        "order of requests",
        {"seq": np.array([1, 1, 0])},
        ": seq[0] is 1; requests follow each other as 0 to 1 without a gap",
    ),
    ("kinds", spoiled("kind", 1, 2), ": kind[1] differs from the kind of its request; a request has one kind"),
    ("kind", spoiled("kind", 1, 9), ": kind[1] is 9, not within 0 to 2"),
    ("lens", {"lens_hit": np.ones((3, 4))}, ": array 'lens_hit' must hold truth values, not float64"),
    ("lens shape", {"lens_max": np.ones((2, 4))}, ": array 'lens_max' has shape (2, 4) where (3, 4) is needed"),
    ("exits", {"exit_layers": np.array([10, 10])}, ": exit_layers [10, 10] and exit_top8 (3, 2, 3) do not name exits"),
    ("no tokens", {"tok": np.empty(0, dtype=np.int32)}, ": array 'tok' has shape (0,); it needs 1 to 10000000 tokens"),
]


@pytest.mark.parametrize(("changed", "message"), [c[1:] for c in NPZ_CASES], ids=[c[0] for c in NPZ_CASES])
def test_broken_arrays(tmp_path, changed, message):
    arrays = {name: array for name, array in exit_arrays(**changed).items() if array is not None}
    path = npz(tmp_path / "bad.npz", arrays)
    with pytest.raises(InputError) as error:
        open_stream(str(path), 1)
    assert str(error.value).startswith(f"{path}{message}")
    assert "\n" not in str(error.value)


def test_a_good_exit_file_opens(tmp_path):
    stream = open_stream(str(npz(tmp_path / "good.npz", exit_arrays())), 1, prompt_tokens=9)
    assert (stream.requests, stream.length(0), stream.length(1), stream.name) == (2, 2, 1, "recorded:good:20")
    assert stream.prompt_tokens(1) == 9


@pytest.mark.parametrize("keep", [0, 10, 500, -1])
def test_truncated_archive(tmp_path, keep):
    path = npz(tmp_path / "cut.npz", exit_arrays())
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"cut\.npz: not a complete \.npz archive: ") as error:
        open_stream(str(path), 1)
    assert "\n" not in str(error.value)


def test_damaged_array_in_an_archive(tmp_path):
    path = npz(tmp_path / "hurt.npz", exit_arrays())
    data = bytearray(path.read_bytes())
    place = data.index(exit_arrays()["exit_q"].tobytes())
    data[place] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"hurt\.npz: not a complete \.npz archive: Bad CRC-32 for file 'exit_q\.npy'"):
        open_stream(str(path), 1)


def array_bytes(header: bytes, version=(1, 0)) -> bytes:
    size = len(header).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + size + header


HEADERS = [
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (1",
    b"{'descr': '<f8'\x00, 'fortran_order': False, 'shape': (1,), }",
    b"{'descr': '<f8'\x00, 'fortran_order': (False, 'shape': (1,), }",
    b"  {\n {\n}\n   \x00",
    b"(" * 9000,
    b"-" * 9000 + b"1",
    b"{'shape': {}}",
    b"{'descr': {1: 2}, 'fortran_order': False, 'shape': (1,), }",
    b"{'descr': [('a', '<f8', -1)], 'fortran_order': False, 'shape': (1,), }",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (True, 1e9), }",
    b"{[]: 1}",
    b"\xff\xfe",
    b"",
]


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0), (9, 9)])
@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
def test_array_with_a_damaged_header(tmp_path, header, version):
    path = tmp_path / "hurt.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tok.npy", array_bytes(header, version) + bytes(8))
    with pytest.raises(InputError, match=r"hurt\.npz: array 'tok' (cannot be read: |claims shape)") as error:
        open_stream(str(path), 1)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < len(str(path)) + 300


def test_any_byte_of_an_array_header_may_be_wrong(tmp_path):
    path = tmp_path / "hurt.npz"
    buffer = io.BytesIO()
    np.save(buffer, np.ones(3))
    whole = buffer.getvalue()
    for place in range(len(whole) - 24):
        for byte in b"\x00('{\n\\#\xff":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("tok.npy", whole[:place] + bytes([byte]) + whole[place + 1 :])
            with pytest.raises(InputError):
                open_stream(str(path), 1)


def test_array_that_claims_more_than_it_holds(tmp_path):
    path = tmp_path / "liar.npz"
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tok.npy", buffer.getvalue())
    with pytest.raises(InputError, match=r"array 'tok' claims shape \(1099511627776,\) but holds only \d+ bytes"):
        open_stream(str(path), 1)


def test_archive_that_unpacks_to_too_much(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tok.npy", bytes(257 * 2**20))
    with pytest.raises(InputError, match=r"unpacks to 269484032 bytes, more than the limit of 268435456"):
        open_stream(str(path), 1)


def test_file_too_large(tmp_path):
    path = tmp_path / "big.jsonl"
    with path.open("wb") as file:
        file.truncate(64 * 2**20 + 1)
    with pytest.raises(InputError, match=r"big\.jsonl: is larger than 67108864 bytes, the limit for a recording"):
        open_stream(str(path), 1)


@pytest.fixture
def copied_traces(tmp_path, monkeypatch):
    folder = tmp_path / "traces"
    shutil.copytree(TRACES, folder)
    monkeypatch.setattr(opening_module, "packed_traces", lambda: folder)
    opening_module.manifest.cache_clear()
    yield folder
    opening_module.manifest.cache_clear()


def test_changed_shipped_file_is_refused(copied_traces):
    path = copied_traces / "ngram_lookup.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"acc":4', b'"acc":3', 1))
    with pytest.raises(InputError) as error:
        open_stream("recorded:ngram_lookup", 1)
    assert str(error.value) == (
        f"{path}: its checksum is not the one in manifest.json; restore it or install archsim again"
    )


def test_changed_prompts_are_refused(copied_traces):
    path = copied_traces / "ref_greedy.jsonl"
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(InputError, match=r"ref_greedy\.jsonl: its checksum is not the one"):
        open_stream("recorded:exit_layers", 1)


def test_every_shipped_file_is_in_the_manifest():
    listed = json.loads((TRACES / "manifest.json").read_text())["files"]
    present = {p.name for p in TRACES.iterdir()} - {"manifest.json", "README.md"}
    recordings = {name for name in present if name.endswith((".npz", ".jsonl"))}
    assert recordings == set(listed)
    for name, facts in listed.items():
        assert facts["bytes"] == (TRACES / name).stat().st_size
        assert facts["licence"]
        assert facts["source"].startswith("measured: ")


PROMPT = {"split": "test", "kind": "code", "id": "a", "temp": 0, "prompt": [1, 2], "out": [3]}


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ([PROMPT, PROMPT], ":2: id 'a' appears twice"),
        ([PROMPT | {"prompt": []}], ":1: key 'prompt' is empty; a prompt has one token or more"),
        ([PROMPT | {"prompt": [-1]}], ":1: prompt[0] must be a whole number from 0 to 2147483648, not -1"),
    ],
)
def test_broken_prompts(tmp_path, prompts, message):
    (tmp_path / "t.jsonl").write_bytes(lines(TREE))
    (tmp_path / "ref_greedy.jsonl").write_bytes(lines(*prompts))
    with pytest.raises(InputError) as error:
        open_stream(str(tmp_path / "t.jsonl"), 1)
    assert str(error.value) == f"{tmp_path / 'ref_greedy.jsonl'}{message}"


def test_unknown_prompt_length(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(lines(TREE, NEXT))
    with pytest.raises(InputError) as error:
        open_stream(str(path), 1).prompt_tokens(0)
    assert str(error.value) == (
        "stream recorded:t does not say how long prompt 'a' is; give job.prompt_tokens, or a ref_greedy.jsonl with its "
        "prompt beside the recording"
    )
    (tmp_path / "ref_greedy.jsonl").write_bytes(lines(PROMPT))
    assert open_stream(str(path), 1).prompt_tokens(0) == 2
