"""Registering, finding and discovering plug-ins."""

from __future__ import annotations

import sys

import pytest

from archsim import registry
from archsim.config import InputError


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of plug-ins as the registry's only home, which writes a line for each module imported."""
    root = tmp_path / "plugs"
    (root / "npu").mkdir(parents=True)
    (root / "pim").mkdir()
    head = "import sys\nfrom archsim.registry import {0}\nsys.modules.setdefault('seen', []).append(__name__)\n"
    body = "@{0}('{1}')\nclass {2}:\n    pass\n"
    device = head.format("device")
    (root / "__init__.py").write_text("")
    (root / "flash.py").write_text(device + body.format("device", "flash", "Flash"))
    (root / "cpu.py").write_text(device + body.format("device", "cpu", "Cpu"))
    (root / "npu" / "__init__.py").write_text("")
    (root / "npu" / "layout.py").write_text("import sys\nsys.modules.setdefault('seen', []).append(__name__)\n")
    (root / "npu" / "unit.py").write_text(device + body.format("device", "npu", "Npu"))
    (root / "pim" / "__init__.py").write_text(device + body.format("device", "pim", "Pim"))
    (root / "pim" / "banks.py").write_text(device + body.format("device", "banks", "Banks"))
    (root / "odd.py").write_text(device + body.format("device", "even", "Even"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "seen", [])
    monkeypatch.setattr(registry, "_items", {})
    monkeypatch.setattr(registry, "_scanned", set())
    monkeypatch.setattr(registry, "_HOMES", {"device": ("plugs", "devices")})
    monkeypatch.delenv("ARCHSIM_PATH", raising=False)
    yield root
    for name in [name for name in sys.modules if name == "plugs" or name.startswith(("plugs.", "archsim_user_"))]:
        del sys.modules[name]


def seen() -> list[str]:
    return sys.modules["seen"]


def test_get_imports_only_the_module_of_the_name(package):
    assert registry.get("device", "flash").__name__ == "Flash"
    assert registry.get("device", "flash").kind == "flash"
    assert seen() == ["plugs.flash"]


def test_get_looks_inside_a_folder_of_the_name(package):
    assert registry.get("device", "npu").__name__ == "Npu"
    assert seen() == ["plugs.npu.layout", "plugs.npu.unit"]


def test_get_stops_when_the_folder_itself_registers(package):
    assert registry.get("device", "pim").__name__ == "Pim"
    assert seen() == ["plugs.pim"]


def test_get_finds_a_module_inside_another_folder(package):
    assert registry.get("device", "banks").__name__ == "Banks"
    assert "plugs.flash" not in seen()


def test_get_imports_everything_when_no_module_bears_the_name(package):
    assert registry.get("device", "even").__name__ == "Even"
    assert "plugs.flash" in seen()


def test_names_are_sorted_and_complete(package):
    assert registry.names("device") == ["banks", "cpu", "even", "flash", "npu", "pim"]
    assert len(seen()) == len(set(seen())) == 7


def test_discover_a_package_returns_its_modules(package):
    assert registry.discover("plugs") == [
        "plugs.cpu", "plugs.flash", "plugs.npu", "plugs.npu.layout", "plugs.npu.unit", "plugs.odd", "plugs.pim",
        "plugs.pim.banks",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("device", "flsh", "unknown device 'flsh'; did you mean 'flash'?"),
        ("device", "zzz", "unknown device 'zzz'; known: banks, cpu, even, flash, npu, pim"),
        ("device", "../flash", "unknown device '../flash'; did you mean 'flash'?"),
        ("devise", "flash", "unknown kind 'devise'; did you mean 'device'?"),
    ],
)
def test_unknown_names(package, kind, name, message):
    with pytest.raises(InputError) as caught:
        registry.get(kind, name)
    assert str(caught.value) == message


def test_names_of_an_unknown_kind(package):
    with pytest.raises(InputError, match="unknown kind 'devise'; did you mean 'device'"):
        registry.names("devise")


def test_other_kinds_need_no_home(package):
    registry.register("stream", "coin")(dict)
    assert registry.get("stream", "coin") is dict
    assert registry.names("stream") == ["coin"]
    with pytest.raises(InputError, match="unknown stream 'dice'; known: coin"):
        registry.get("stream", "dice")


def test_duplicates_name_both_modules(package):
    registry.get("device", "flash")

    class Flash:
        pass

    with pytest.raises(InputError) as caught:
        registry.device("flash")(Flash)
    assert str(caught.value) == (
        f"device 'flash' is registered twice, by plugs.flash.Flash and {__name__}."
        "test_duplicates_name_both_modules.<locals>.Flash"
    )
    assert registry.get("device", "flash").__module__ == "plugs.flash"


def test_the_same_class_may_be_defined_again(package):
    registry.get("device", "flash")
    del sys.modules["plugs.flash"]
    __import__("plugs.flash")
    assert registry.get("device", "flash") is sys.modules["plugs.flash"].Flash


USER = "from archsim.registry import device\n@device('{0}')\nclass Mine:\n    pass\n"


def test_user_folders_are_asked_last(package, tmp_path, monkeypatch):
    devices = tmp_path / "mine" / "devices"
    (devices / "pack").mkdir(parents=True)
    (devices / "radio.py").write_text(USER.format("radio"))
    (devices / "pack" / "__init__.py").write_text("from . import inner\n")
    (devices / "pack" / "inner.py").write_text(USER.format("pack"))
    (devices / "_private.py").write_text("raise SystemError\n")
    (devices / "notes.txt").write_text("no module")
    monkeypatch.setenv("ARCHSIM_PATH", str(tmp_path / "mine"))
    assert registry.get("device", "flash").__name__ == "Flash"
    assert not [name for name in sys.modules if name.startswith("archsim_user_")]
    assert registry.get("device", "radio").__name__ == "Mine"
    assert registry.get("device", "pack").__module__.endswith("_pack.inner")
    assert {"radio", "pack", "flash"} <= set(registry.names("device"))


def test_a_broken_user_file_is_named(package, tmp_path, monkeypatch):
    path = tmp_path / "mine" / "devices" / "radio.py"
    path.parent.mkdir(parents=True)
    path.write_text("1 / 0\n")
    monkeypatch.setenv("ARCHSIM_PATH", str(tmp_path / "mine"))
    for _ in range(2):
        with pytest.raises(InputError) as caught:
            registry.get("device", "radio")
        assert str(caught.value) == f"{path}: cannot be imported: ZeroDivisionError: division by zero"


def test_a_user_file_cannot_take_a_packed_name(package, tmp_path, monkeypatch):
    path = tmp_path / "mine" / "devices" / "flash.py"
    path.parent.mkdir(parents=True)
    path.write_text(USER.format("flash"))
    monkeypatch.setenv("ARCHSIM_PATH", str(tmp_path / "mine"))
    with pytest.raises(
        InputError, match=r"device 'flash' is registered twice, by plugs\.flash\.Flash and archsim_user_"
    ):
        registry.names("device")


def test_discover_a_folder(package, tmp_path):
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra" / "radio.py").write_text(USER.format("radio"))
    (name,) = registry.discover(tmp_path / "extra")
    assert sys.modules[name].Mine is registry.get("device", "radio")
    assert registry.discover(tmp_path / "nowhere") == []
