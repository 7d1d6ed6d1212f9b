"""The report page in a browser without a window: no error, rows drawn, zoom, pins, and strangers' names harmless."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from archsim.report.page.build import run_page, table_page
from archsim.trace import Trace

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from test_page import AIMS, EVIL, SWEEP, evil_trace
from test_report_sample import sample, sample_manifest, sample_tables

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine; the page is not opened")

QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--enable-logging=stderr"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)


def opened(text, tmp_path):
    """Open a page with its self-test; what that found, and the page's title. No console message is allowed."""
    page, profile = tmp_path / "page.html", tmp_path / "profile"
    page.write_text(text, encoding="utf-8")
    command = [BROWSER, *QUIET, f"--user-data-dir={profile}", "--virtual-time-budget=60000", "--window-size=1400,1000"]
    done = subprocess.run([*command, "--dump-dom", f"file://{page}#selftest"], capture_output=True, timeout=240)
    out, err = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    assert not [line for line in err.splitlines() if "CONSOLE" in line]
    found = re.search(r'<pre id="selftest"[^>]*>(.+?)</pre>', out, re.DOTALL)
    assert found, f"the self-test wrote nothing: {err[-2000:]}"
    return json.loads(unescape(found[1])), unescape(re.search(r"<title>(.*?)</title>", out, re.DOTALL)[1])


def check_time_line(found):
    for key in ("rows", "order", "wheel", "key_zoom", "key_pan", "key_fit", "opened", "hit", "pixels"):
        assert found[key] is True, (key, found)


def test_a_run_opens_draws_and_zooms(tmp_path):
    found, title = opened(run_page(sample(), "a run"), tmp_path)
    assert (title, found["failed"], found["table_sorted"]) == ("a run", [], True)
    assert found["figures"] >= 6
    check_time_line(found["timeline"])
    assert found["timeline"]["drawn_all"] > 8
    assert "unit: npu.hmx" in found["timeline"]["tooltip"]


def test_names_of_strangers_run_nothing(tmp_path):
    found, title = opened(run_page(evil_trace(), EVIL), tmp_path)
    assert (title, found["failed"]) == (EVIL, [])
    assert EVIL in found["timeline"]["tooltip"]


def test_a_sweep_opens_and_pins(tmp_path):
    found, _ = opened(table_page(SWEEP, EVIL, objectives=AIMS, axes=["schedule.ring"], facts={"a": EVIL}), tmp_path)
    explorer = found["explorer"]
    assert found["failed"] == []
    assert (explorer["points"], explorer["front"], explorer["listed"]) == (4, 1, 4)
    for key in ("pareto_ok", "hover", "pinned", "sorted", "column"):
        assert explorer[key] is True, (key, explorer)
    assert "energy (J)" in explorer["tooltip"]
    assert re.search(r"energy \(J\)-?\d \(-?\d to -?\d\)", explorer["tooltip"])  # the band of the column


def many(n):
    """`n` rows of two operators on three units, a thousand rows a block."""
    tables = sample_tables()
    rng = np.random.default_rng(1)
    unit = np.arange(n) % 3
    length = rng.integers(1_000, 3_000_000, n)
    start, end = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for u in range(3):
        end[unit == u] = np.cumsum(length[unit == u])
        start[unit == u] = end[unit == u] - length[unit == u]
    zero = np.zeros(n, dtype=np.int64)
    rows = dict.fromkeys(tables["rows"], zero) | {"row": np.arange(n), "unit": unit, "op": 1 + np.arange(n) % 2}
    rows |= {
        "block": np.arange(n) * 5 // n,
        "start_ps": start,
        "flow_ps": start,
        "end_ps": end,
        "work": zero + 9,
        "done": zero + 9,
    }
    return Trace({**tables, "rows": rows}, sample_manifest())


@pytest.mark.parametrize(("n", "most_bytes"), [(100_000, 5e6), pytest.param(1_000_000, 20e6, marks=pytest.mark.slow)])
def test_many_rows_stay_small_and_few_marks_are_drawn(n, most_bytes, tmp_path):
    text = run_page(many(n))
    assert len(text) < most_bytes
    found, _ = opened(text, tmp_path)
    check_time_line(found["timeline"])
    assert found["timeline"]["drawn_all"] < 20_000  # it depends on pixels, not on rows
