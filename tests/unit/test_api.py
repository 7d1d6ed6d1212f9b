"""The public names of Python: typed results that read as documents, print short and turn into frames."""

import subprocess
import sys

import numpy as np
import pytest

import archsim
from archsim import InputError

JOB = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25", "tokens": 6}
SWEEP = {
    "run": {"system": "oneplus_12", "schedule": {"name": "flash_ar"}, "job": JOB},
    "axes": {"system.flash.stream_bytes_per_s": ["3 GB/s", "4 GB/s"], "job.dram_fraction": [0, 0.5]},
    "objectives": {"decode_tokens_per_s": "max", "energy_per_token_j": "min"},
}


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    loaded = archsim.load(system="oneplus_12", schedule="chain_sd", job=JOB)
    return archsim.run(loaded, output=tmp_path_factory.mktemp("api") / "run", trace="full", check=True)


def test_every_public_name_is_there_and_documented():
    for name in archsim.__all__:
        assert getattr(archsim, name) is not None
        assert name in dir(archsim)
    for name in ("load", "run", "replay", "explain", "diff", "search", "check_trace"):
        assert "Parameters" in getattr(archsim, name).__doc__


def test_the_packages_of_reports_and_sweeps_are_verbs_too(result):
    code = (
        "import archsim, sys\n"
        "import archsim.report.tables, archsim.sweep.points\n"
        "from archsim import report, sweep\n"
        "print(type(report(sys.argv[1])).__name__, callable(sweep), archsim.report.tables.TABLES is not None)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(result.folder)], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["Report", "True", "True"], done.stderr


def test_importing_the_package_alone_is_light():
    code = "import archsim, sys; print({'numba', 'pandas', 'matplotlib', 'pydantic'} & set(sys.modules) or 'light')"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "light"


def test_a_result_prints_its_headline(result):
    text = str(result)
    assert text == repr(result)
    assert "chain_sd on oneplus_12" in text
    assert "decode_tokens_per_s" in text
    assert "1/s" in text
    assert len(text.splitlines()) < 40
    assert "<table" in result._repr_html_()


@pytest.mark.parametrize("name", ["rows", "blocks", "ops", "counts", "notes", "pool_log", "latency", "energy", "units"])
def test_a_result_gives_frames_with_units(result, name):
    frame = result.frame(name)
    assert len(frame)
    assert all(column in frame.columns for column in frame.attrs["units"])
    if name == "rows":
        assert frame.attrs["units"]["start_ps"] == "ps"
        assert frame.attrs["units"]["work"] == "2**-28 B"
        assert np.array_equal(frame["end_ps"], result.trace.rows["end_ps"])
    if name == "energy":
        assert frame.attrs["units"]["energy_j"] == "J"
        assert frame["energy_j"].sum() == pytest.approx(result.summary["energy_j"])


def test_an_unknown_table_is_named(result):
    for answer in (result, archsim.report(result.folder), archsim.explain(result)):
        with pytest.raises(InputError, match="no table 'rosw'"):
            answer.frame("rosw")


def test_a_report_reads_like_its_document(result):
    report = archsim.report(result.folder)
    assert isinstance(report, archsim.Report)
    assert {"title", "summary", "tables", "insight", "notes", "files"} <= set(report)
    assert report["summary"]["digest"] == report.summary["digest"] == result.summary["digest"]
    assert report == report.to_json()
    assert report.frame("latency").equals(report.frame("Latency by phase and unit"))
    assert len(report.frame("Energy by device and action")) == len(report["tables"]["Energy by device and action"])
    assert report.title in str(report)
    assert "<table" in report._repr_html_()


def test_an_explanation_takes_a_result_a_trace_or_a_folder(result):
    answers = [archsim.explain(given) for given in (result, result.trace, result.folder, str(result.folder))]
    assert all(answer == answers[0] for answer in answers)
    frame = answers[0].frame("path")
    assert frame["time_s"].sum() == pytest.approx(result.trace.duration_ps * 1e-12)
    assert answers[0]["insight"][0] in str(answers[0])
    slopes = archsim.explain(result, params=["system.flash.stream_bytes_per_s"]).frame("sensitivity")
    assert slopes["latency"][0] < 0


def test_a_difference_and_a_replay(result, tmp_path):
    other = archsim.run(archsim.load(system="oneplus_12", schedule="flash_ar", job=JOB), output=tmp_path / "other")
    difference = archsim.diff(result, other)
    assert set(difference.frame("summary").columns) >= {"what", "a", "b"}
    assert "per token" in str(difference)
    replayed = archsim.replay(result.folder)
    assert replayed.identical
    assert replayed["identical"] is True
    assert str(replayed).startswith("identical: ")


def test_a_sweep_gives_frames_with_the_units_of_its_axes(tmp_path):
    swept = archsim.sweep(SWEEP, output=tmp_path / "out")
    frame = swept.frame()
    assert len(frame) == 4
    assert frame.attrs["units"]["system.flash.stream_bytes_per_s"] == "B/s"
    assert frame.attrs["units"]["energy_per_token_j"] == "J"
    assert sorted(set(frame["system.flash.stream_bytes_per_s"])) == [3e9, 4e9]
    assert "4 points ran" in str(swept)
    assert len(swept.shown) < 4
    with pytest.raises(InputError, match="no table 'front'"):
        swept.frame("front")
    assert len(swept.frame("means")) == 0


def test_results_cannot_be_changed(result):
    with pytest.raises(AttributeError):
        result.title = "another"
    with pytest.raises(AttributeError):
        archsim.report(result.folder).document = {}


def test_the_package_says_that_it_is_typed():
    from importlib.resources import files

    assert files("archsim").joinpath("py.typed").is_file()
