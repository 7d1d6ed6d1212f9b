"""Trace readers: what they take, and what they say about files that cannot be."""

import gzip
import os

import numpy as np
import pytest

from archsim.devices.flash.readers import STRETCH, open_trace
from archsim.devices.flash.replay import device_spec, result, run_pattern, run_trace
from archsim.streams.opening import packed_traces
from archsim.units import InputError

MQSIM = "1000 0 64 8 1\n2000 0 128 16 0\n2000 0 256 8 1\n"
FIO2 = "fio version 2 iolog\nf add\nf open\nf read 0 4096\nf wait 250\nf write 8192 8192\nf sync 0 0\nf close\n"
FIO3 = "fio version 3 iolog\n0 f add\n1 f open\n5 f read 0 4096\n17 f write 8192 8192\n20 f close\n"
BLKPARSE = """\
  8,0    1        1     0.000000000   700  Q   R 64 + 8 [fio]
  8,0    1        2     0.000001500   700  G   R 64 + 8 [fio]
  8,0    1        3     0.000002000   700  D   R 64 + 8 [fio]
  8,0    1        4     0.000010000   700  D  WS 128 + 16 [fio]
  8,0    1        5     0.000020000     0  C   R 64 + 8 [0]
  8,0    1        6     0.000030000   700  D  FN [fio]
  8,0    1        0     0.000040000     0  m   N cfq700 x

CPU1 (8,0):
 Reads Queued:           1,        4KiB
"""


def write(tmp_path, text, name="trace.txt"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(path, **how):
    return np.concatenate(list(open_trace(path, **how).stretches())).tolist()


def test_mqsim(tmp_path):
    assert read(write(tmp_path, MQSIM)) == [[0, 0, 64, 8], [1000, 1, 128, 16], [1000, 0, 256, 8]]


def test_fio_2_counts_waits_in_microseconds(tmp_path):
    assert read(write(tmp_path, FIO2)) == [[0, 0, 0, 8], [250000, 1, 16, 16]]


def test_fio_3_has_microseconds(tmp_path):
    assert read(write(tmp_path, FIO3)) == [[0, 0, 0, 8], [12000, 1, 16, 16]]


def test_blkparse_takes_issued_requests(tmp_path):
    assert read(write(tmp_path, BLKPARSE)) == [[0, 0, 64, 8], [8000, 1, 128, 16]]
    assert read(write(tmp_path, BLKPARSE), action="Q") == [[0, 0, 64, 8]]


@pytest.mark.parametrize("name", ["mqsim.trace", "fio_v2.log", "fio_v3.log", "blkparse.txt"])
def test_samples_of_each_format_are_the_same_requests(name):
    samples = packed_traces() / "flash" / "samples"
    rows = read(samples / name)
    assert rows == read(samples / "mqsim.trace")
    assert (len(rows), sum(row[1] for row in rows), rows[1]) == (20, 3, [60000, 0, 256, 256])
    done, about = run_trace(device_spec("ufs_4_0"), samples / name)
    assert about["format"] == name.split("_")[0].split(".")[0]
    assert len(done.responses_ns) == 20
    assert done.counts["read_bytes"] == (8 * 256 + 9 * 8) * 512
    assert done.counts["written_bytes"] == 3 * 8 * 512


def test_gzip_and_the_stated_unit(tmp_path):
    path = write(tmp_path, gzip.compress(MQSIM.encode()), "trace.gz")
    assert [row[0] for row in read(path, unit="us")] == [0, 10**6, 10**6]


def test_long_traces_come_in_stretches(tmp_path):
    path = write(tmp_path, "".join(f"{i * 1000} 0 {8 * i} 8 1\n" for i in range(STRETCH + 5)))
    assert [len(rows) for rows in open_trace(path).stretches()] == [STRETCH, 5]


@pytest.mark.parametrize(
    ("text", "how", "message"),
    [
        (MQSIM + "3000 0 64\n", {}, ":4: '3000 0 64' is not 'time device sector sectors type' with type 0 or 1"),
        (
            MQSIM + "3000 0 64 8 2\n",
            {},
            ":4: '3000 0 64 8 2' is not 'time device sector sectors type' with type 0 or 1",
        ),
        (MQSIM + "1999 0 64 8 1\n", {}, ":4: time goes back by 1 ns; requests must be in order of time"),
        ("-5 0 64 8 1\n", {}, ":1: time -5 is negative"),
        (MQSIM + "3000 0 64 0 1\n", {}, ":4: a request of 0 sectors; it must be 1 to 65536 (32 MiB)"),
        (MQSIM + f"{10**18} 0 64 8 1\n", {}, "ns after the first request; at most"),
        (MQSIM + f"3000 0 {2**63 - 1} 8 1\n", {}, ":4: sector 9223372036854775807 is no address"),
        (MQSIM + f"3000 0 {2**54} 8 1\n", {}, ":4: sector 18014398509481984 is no address"),
        (MQSIM + "\u0663000 0 64 8 1\n", {}, "is not 'time device sector sectors type' with type 0 or 1"),
        (MQSIM + "nan 0 64 8 1\n", {}, ":4: 'nan 0 64 8 1' is not 'time device sector sectors type'"),
        ("\0" * 5000, {}, ":1: the line is longer than 4096 characters"),
        (MQSIM, {"format": "fio"}, ":1: is not a fio iolog: it looks like an MQSim trace (format mqsim)"),
        (FIO3, {"format": "mqsim"}, ":1: is not an MQSim trace: it looks like a fio iolog (format fio)"),
        (BLKPARSE, {"format": "fio"}, ":1: is not a fio iolog: it looks like blkparse text (format blkparse)"),
        ("hello world\n", {}, ":1: 'hello world' looks like none of mqsim, fio, blkparse; name the format"),
        ("", {}, ": is empty"),
        ("\n \n", {}, ": is empty"),
        ("fio version 3 iolog\n0 f add\n", {}, ": holds no requests"),
        ("fio version 4 iolog\n", {}, ":1: 'fio version 4 iolog': a fio iolog starts with"),
        (FIO3 + "30 f reed 0 4096\n", {}, ":7: unknown action 'reed'; did you mean 'read'?"),
        (FIO3 + "30 f read 0\n", {}, ":7: a read needs offset and length, not '0'"),
        (FIO3 + "30 f read 0 4095\n", {}, ":7: offset 0 and length 4095 are not whole sectors of 512 bytes"),
        (FIO3 + "30 f read x 4096\n", {}, ":7: 'x 4096' are not the numbers of a read"),
        (FIO3 + "-3 f read 0 4096\n", {}, ":7: time -3 is negative"),
        (FIO3 + "3 f read 0 4096\n", {}, ":7: time goes back by 14000 ns; requests must be in order of time"),
        (
            BLKPARSE.replace("WS 128 + 16 [fio]", "WS 128 +"),
            {},
            ":4: 'WS 128 +' is not 'kind sector + sectors' of a D event",
        ),
        (BLKPARSE.replace(" 0.000010000", "-0.000010000"), {}, ":4: time -0.000010000 is negative"),
        (
            BLKPARSE.replace("  D ", "  I "),
            {},
            "no requests; it has 1 Q events; it has 3 I events",
        ),
        (MQSIM, {"format": "mqsin"}, "unknown format 'mqsin'; did you mean 'mqsim'?"),
        (MQSIM, {"unit": "min"}, "unknown unit of time 'min'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path, text, how, message):
    with pytest.raises(InputError) as caught:
        read(write(tmp_path, text), **how)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_fio_nanoseconds_are_noticed(tmp_path):
    text = "fio version 3 iolog\n0 f open\n" + "".join(f"{i * 120_000} f read {i * 4096} 4096\n" for i in range(20))
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=r"20 requests are 0\.12 s apart.*look like nanoseconds"):
        read(path)
    assert read(path, unit="ns")[1][0] == 120_000
    assert read(path, unit="us")[1][0] == 120_000_000


def test_times_no_device_can_serve_are_noticed(tmp_path):
    path = write(tmp_path, "".join(f"{i} 0 {256 * i} 256 1\n" for i in range(200)))
    with pytest.raises(InputError, match="no device serves"):
        read(path)


def test_truncated_gzip(tmp_path):
    whole = gzip.compress("".join(f"{i} 0 {8 * i} 8 1\n" for i in range(2000)).encode())
    path = write(tmp_path, whole[:-40], "cut.gz")
    with pytest.raises(InputError, match=r"cut\.gz: the gzip file is damaged or ends early"):
        read(path)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        open_trace(tmp_path / "none")
    with pytest.raises(InputError, match="is a folder, not a file"):
        open_trace(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    for path, words in (
        (tmp_path / "pipe", "is a pipe"),
        ("/dev/zero", "is a device"),
        ("", "the path of the trace is"),
    ):
        with pytest.raises(InputError, match=words):
            open_trace(path)


def test_replay_reports_the_promised_keys_and_serves_all(tmp_path):
    spec = device_spec("ufs_2ch_1chip_2die_4pl")
    done, about = run_trace(spec, write(tmp_path, MQSIM))
    out = result(spec, done)
    promised = ("bandwidth_mb_s", "iops", "cpu_s", *(f"response_us_{name}" for name in ("avg", "min", "max", "p99")))
    assert set(promised) <= set(out)
    assert about == {"format": "mqsim", "skipped_lines": 0, "wrapped_addresses": 0}
    assert out["bytes"]["read"] == 16 * 512
    assert out["bytes"]["written"] == 16 * 512


def test_addresses_beyond_the_device_wrap_and_are_counted(tmp_path):
    spec = device_spec("ufs_2ch_1chip_2die_4pl")
    _, about = run_trace(spec, write(tmp_path, f"0 0 {spec.logical_sectors + 5} 8 1\n1 0 0 8 1\n"))
    assert about["wrapped_addresses"] == 1


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"pattern": "rand_reed"}, "unknown pattern 'rand_reed'; did you mean 'rand_read'?"),
        ({"pattern": "mixed:120"}, "the share of reads must be 0 to 1"),
        ({"size_bytes": 1000}, "a request of 1000 bytes is no whole number of sectors"),
        ({"requests": 0}, "0 requests: at least one is needed"),
        ({"depth": 0}, "queue depth 0: at least 1 is needed"),
        ({"seed": -1}, "seed -1 is outside 0 to"),
        ({"span_bytes": 1 << 50}, "is not within the device's"),
        ({"size_bytes": 1 << 40}, "bytes is larger than 32 MiB"),
        ({"depth": 1 << 40}, "queue depth 1099511627776: at most 65536 requests can be outstanding"),
        ({"requests": 10**15}, "requests of 4096 bytes are too many for one run"),
        ({"requests": 10**7, "size_bytes": 1 << 25}, "are too many for one run"),
        ({"core": "tiny"}, "unknown core 'tiny'"),
    ],
)
def test_patterns_that_cannot_be(how, message):
    arguments = {"pattern": "rand_read", "size_bytes": 4096, "requests": 10, **how}
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        run_pattern(device_spec("ufs_2ch_1chip_2die_4pl"), **arguments)


def test_a_device_that_needs_too_much_memory_is_refused_at_once():
    spec = device_spec("ufs_4_0").model_copy(update={"blocks_per_plane": 1 << 16, "pages_per_block": 1 << 14})
    with pytest.raises(InputError, match="GiB of memory to simulate; at most 4 GiB are used"):
        run_pattern(spec, "rand_read", 4096, 10)


@pytest.mark.parametrize("depth", [-1, 1 << 20])
def test_depths_of_a_trace_that_cannot_be(tmp_path, depth):
    with pytest.raises(InputError, match=f"queue depth {depth}: at "):
        run_trace(device_spec("ufs_4_0"), write(tmp_path, MQSIM), depth=depth)
