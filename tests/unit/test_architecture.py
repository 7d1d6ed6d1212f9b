"""The house rules that a machine can check: who imports whom, what kernels may use, what a device file must say."""

from __future__ import annotations

import ast
import builtins
import functools
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "archsim"
MODULES = sorted(ROOT.rglob("*.py"))

#: Package (or module) below archsim -> the others it may import. `config` reaches upwards only by name, when needed.
ALLOWED = {
    "units": set(),
    "authored": {"units"},
    "sharing": set(),
    "config": {"units", "sharing"},
    "registry": {"config", "units"},
    "device": {"units"},
    "lowering": {"device", "jit", "units"},
    "technology": {"device", "units"},
    "devices": {"device", "jit", "lowering", "registry", "technology", "units", "config", "sharing"},
    "system": {"authored", "device", "registry", "units", "config"},
    "engine": {"jit"},
    "streams": {"config", "units", "registry", "device", "sharing"},
    "workload": {
        *("authored", "device", "system", "config", "units", "registry", "engine", "streams", "schedules", "sharing"),
    },
    "schedules": {"engine", "workload", "streams", "registry", "config", "units", "device"},
    "trace": {"device", "units", "config"},
    "verb": set(),
    "jit": set(),
    "report": {"jit", "verb", "trace", "device", "technology", "units", "config", "system"},
    "results": {"config"},
    "reproduce": {
        *("trace", "technology", "device", "devices", "system", "streams", "units", "config", "registry"),
        *("engine", "lowering", "report", "results", "session", "sweep", "workload"),
    },
    "sweep": {
        "authored",
        "verb",
        "trace",
        "units",
        "config",
        "engine",
        "report",
        "results",
        "session",
        "sharing",
        "streams",
        "system",
    },
    "measurements": {
        *("config", "units", "registry", "device", "devices", "system", "engine", "workload", "session", "npu_trace"),
        "report",
    },
    "datafiles": {"devices", "units", "config"},
    "recorder": {"config", "streams", "workload"},
    "npu_trace": {"device", "devices", "system", "units", "config", "report", "registry"},
}
#: Verbs and doors: they may import whatever is below. Commands are imported by the door alone.
FREE = {
    *("", "__main__", "cli", "commands", "session", "catalogue", "demo", "bench", "schema", "scaffold"),
}
#: Imports that exist for type checkers only.
TYPE_ONLY = {("workload", "schedules"), ("workload", "streams")}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file, parsed once."""
    return ast.parse(path.read_text())


def layer(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


@functools.cache
def imports(tree: ast.Module) -> list[tuple[str, bool]]:
    """Modules imported, each with whether it stands under ``if TYPE_CHECKING``."""
    nodes = list(ast.walk(tree))
    guarded = {
        id(inner)
        for node in nodes
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = []
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) in guarded) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "no relative imports"
            found.append((node.module, id(node) in guarded))
            if node.module == "archsim":
                found += [(f"archsim.{alias.name}", id(node) in guarded) for alias in node.names]
    return found


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_import_direction(path):
    own = layer(name_of(path))
    assert own in ALLOWED or own in FREE, f"say in ALLOWED what {own} may import"
    for module, type_only in imports(tree_of(path)):
        other = layer(module) if module.startswith("archsim.") else ""
        if not other or other == own:
            continue
        assert other != "commands" or own == "cli", f"{name_of(path)} imports {module}"
        if own in FREE:
            continue
        if (own, other) in TYPE_ONLY:
            assert type_only, f"{name_of(path)} imports {module} at run time"
            continue
        assert other in ALLOWED[own], f"{name_of(path)} ({own}) imports {module}"


def test_core_imports_only_numpy_and_numba():
    tree = tree_of(ROOT / "engine" / "core.py")
    assert {module for module, _ in imports(tree)} <= {"numpy", "numba", "__future__", "archsim.jit"}


#: Marks of functions that kernels call.
CALLED = ("callee", "borrower")


@functools.cache
def kernels(tree: ast.Module) -> list[ast.FunctionDef]:
    """Kernels of a file, and the functions that kernels call."""

    def compiled(node: ast.expr) -> bool:
        called = node.func if isinstance(node, ast.Call) else node
        return isinstance(called, ast.Name) and called.id in ("njit", *CALLED)

    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and any(map(compiled, n.decorator_list))]


def constant_names(tree: ast.Module) -> set[str]:
    """Module-level names in capitals, NamedTuples, and what is imported (kernels and constants of other files)."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any(isinstance(b, ast.Name) and b.id == "NamedTuple" for b in node.bases):
            names.add(node.name)
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            names |= {leaf.id for leaf in ast.walk(target) if isinstance(leaf, ast.Name) and leaf.id.isupper()}
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


WITH_KERNELS = [path for path in MODULES if kernels(tree_of(path))]


@pytest.mark.parametrize("path", WITH_KERNELS, ids=name_of)
def test_kernels_use_only_numpy_kernels_arguments_and_constants(path):
    tree = tree_of(path)
    known = constant_names(tree) | {kernel.name for kernel in kernels(tree)} | {"np", "numba"} | set(dir(builtins))
    for kernel in kernels(tree):
        arguments = {a.arg for a in kernel.args.args}
        stored = {n.id for n in ast.walk(kernel) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        used = {
            n.id
            for statement in kernel.body
            for n in ast.walk(statement)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
        }
        foreign = used - arguments - stored - known
        assert not foreign, f"{name_of(path)}.{kernel.name} uses {sorted(foreign)}"


@pytest.mark.parametrize("path", WITH_KERNELS, ids=name_of)
def test_kernels_are_cached_and_nothing_else(path):
    for kernel in kernels(tree_of(path)):
        for decorator in kernel.decorator_list:
            if isinstance(decorator, ast.Name) and decorator.id in CALLED:
                continue
            assert isinstance(decorator, ast.Call), f"{kernel.name}: write @njit(cache=True)"
            options = {k.arg: ast.literal_eval(k.value) for k in decorator.keywords}
            assert options == {"cache": True}, f"{name_of(path)}.{kernel.name}: {options}"


#: What of NumPy makes no array of numbers.
OF_NUMBERS = {"int64", "uint64", "float64", "ceil", "floor", "sqrt", "log", "exp"}


@pytest.mark.parametrize("path", WITH_KERNELS, ids=name_of)
def test_borrowers_neither_make_nor_return_arrays(path):
    """Their references are not counted, so an array that one gives back would be freed while it is in use."""
    for kernel in kernels(tree_of(path)):
        if not any(isinstance(mark, ast.Name) and mark.id == "borrower" for mark in kernel.decorator_list):
            continue
        nodes = list(ast.walk(kernel))
        of_numpy = {n.attr for n in nodes if isinstance(n, ast.Attribute) and getattr(n.value, "id", "") == "np"}
        assert of_numpy <= OF_NUMBERS, f"{kernel.name} calls np.{of_numpy - OF_NUMBERS}"
        assert not [n for n in nodes if isinstance(n, ast.Slice)], f"{kernel.name} takes a part of an array"
        arrays = {n.value.id for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name)}
        arrays |= {argument.arg for argument in kernel.args.args if argument.arg == "m"}
        returned = [n.value for n in nodes if isinstance(n, ast.Return) and n.value is not None]
        for value in returned:
            parts = value.elts if isinstance(value, ast.Tuple) else [value]
            assert not {part.id for part in parts if isinstance(part, ast.Name)} & arrays, f"{kernel.name} returns one"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_unpickles_or_evaluates(path):
    tree = tree_of(path)
    assert not {module.split(".")[0] for module, _ in imports(tree)} & {"pickle", "marshal", "shelve", "dill"}
    called = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    assert not called & {"eval", "exec"}
