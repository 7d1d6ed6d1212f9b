"""``archsim trace pim`` and ``archsim trace flash`` as a user calls them."""

from __future__ import annotations

import json

import pytest

from archsim.cli import run_cli
from archsim.streams.opening import packed_traces

TRACE = packed_traces() / "pim" / "mac_64rows_32ch.trace"
PIM_KEYS = {"cycles", "cycles_baseline", "tck_ns", "time_us", "commands", "cpu_s"}
FLASH_KEYS = {
    "bandwidth_mb_s",
    "iops",
    "response_us_avg",
    "response_us_min",
    "response_us_max",
    "response_us_p99",
    "cpu_s",
}


def call(args, capsys):
    code = run_cli([str(arg) for arg in args])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_pim_trace(capsys):
    code, out, err = call(["trace", "pim", TRACE, "--device", "gddr6_aim", "--baseline", "--json"], capsys)
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert set(document) >= PIM_KEYS
    assert document["cycles"] < document["cycles_baseline"]


def test_pim_product(capsys):
    code, out, _ = call(
        ["trace", "pim", "--gemv", "1024x1024", "--device", "lpddr5x_pim", "--baseline", "--json"], capsys
    )
    assert code == 0
    assert json.loads(out)["cycles_baseline"] > 2 * json.loads(out)["cycles"]


def test_flash_pattern(capsys):
    args = ["--pattern", "rand_read", "--size", "16 KiB", "--qd", "32", "--requests", "2000", "--seed", "7"]
    documents = []
    for _ in range(2):
        code, out, err = call(["trace", "flash", *args, "--device", "ufs_4_0", "--json"], capsys)
        assert (code, err) == (0, "")
        documents.append({key: value for key, value in json.loads(out).items() if key != "cpu_s"})
    assert set(documents[0]) >= FLASH_KEYS - {"cpu_s"}
    assert documents[0] == documents[1]
    assert documents[0]["requests"] == 2000


def test_flash_trace(capsys, tmp_path):
    trace = tmp_path / "two.trace"
    trace.write_text("0 0 0 8 1\n1000000 0 64 8 0\n")
    code, out, err = call(["trace", "flash", trace, "--device", "ufs_4_0", "--json"], capsys)
    assert (code, err) == (0, "")
    assert json.loads(out)["requests"] == 2


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (["pim"], "give an instruction trace or --gemv OUTxIN, one of the two"),
        (["pim", TRACE, "--gemv", "8x8"], "one of the two"),
        (["pim", TRACE, "--fence"], "belong to --gemv"),
        (["pim", "--gemv", "8by8"], "is not OUTxIN"),
        (["pim", "--gemv", "8x8", "--device", "lpddr5x_pin"], "did you mean 'lpddr5x_pim'?"),
        (["flash"], "give a block trace or --pattern, one of the two"),
        (["flash", "--pattern", "rand_reed"], "rand_read"),
        (["flash", "--pattern", "rand_read", "--size", "16"], "has no unit"),
        (["flash", "--pattern", "rand_read", "--device", "ufs_9"], "unknown flash device 'ufs_9'"),
        (["flash", "/nonexistent"], "/nonexistent"),
    ],
)
def test_bad_input(args, part, capsys):
    code, out, err = call(["trace", *args], capsys)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert part in err
