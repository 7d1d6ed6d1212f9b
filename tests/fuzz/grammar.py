"""Grammars of cases: one strategy per area, each a valid thing with something wrong about it, or something odd."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import material
from harness import Case
from hypothesis import strategies as st

NUMBERS = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "-1",
    "+2",
    "00",
    "1.5",
    "1e3",
    "-0",
    "0x10",
    "1_000",
    "nan",
    "inf",
    "-inf",
    "1e400",
]
HUGE = [str(2**31), str(2**40), str(2**63), str(-(2**63)), str(2**64 + 1), "9" * 39, "9" * 400, "1e300"]
QUANTITIES = [
    "1 GB",
    "1 TB",
    "1 B/s",
    "4 GB/s",
    "0 GB/s",
    "-4 GB/s",
    "1e30 GB",
    "4 XB/s",
    "GB",
    "5 ns",
    "1 W",
    "1e-30 s",
]
ODD = ["", " ", "-", "--", "...", "../../../etc/passwd", "/etc/passwd", "/dev/null", "/dev/zero", "/proc/self/mem", "."]
ODD += [
    "a\nb",
    "\x1b[31m",
    "\u0664",
    "\udcff",
    "\u202e",
    "x" * 5000,
    "%s%n",
    "{}",
    "[a, b]",
    "!!python/x 1",
    "*a",
    "=",
    "a=b",
]
ODD += [
    "null",
    "true",
    "~",
    "&a [*a]",
    "/",
    "~root",
    "C:\\x",
    "nan GB",
    "recorded:",
    "synthetic::",
    "recorded:../../x:1",
]
SCALARS: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    10**6,
    2**31,
    2**40,
    2**63,
    10**30,
    0.5,
    -0.5,
    1e-300,
    1e300,
    "",
    "x",
]
SCALARS += [
    [],
    {},
    [[]],
    [1, 2],
    {"a": 1},
    {"value": 1},
    {"value": "1 GB"},
    *QUANTITIES,
    "nan",
    "../x",
    "x" * 300,
    "\0",
    "a\nb",
]
#: Arguments that would start work of minutes.
LONG_WORDS = {"devices", "energy", "lever", "llada", "llada_map", "ahasd", "all", "thermal_session"}
FILES_BY_NAME = (
    "run.yaml",
    "sweep.yaml",
    "span.yaml",
    "prices.yaml",
    "part.yaml",
    "rw.txt",
    "ldst.txt",
    "dramsim3.txt",
)
FILES_BY_NAME += (
    "aim.trace",
    "mqsim.txt",
    "config.json",
    "done",
    "table",
    "fifo",
    "loop",
    "zero",
    "dangling",
    "nowhere.yaml",
)
OUTPUTS = (
    "out",
    "out.svg",
    "out.csv",
    "out.json",
    "out.yaml",
    "out.md",
    "a/b",
    "done",
    "run.yaml",
    "fifo",
    "/dev/full",
    "",
)

mixed = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(HUGE), st.sampled_from(QUANTITIES), st.sampled_from(ODD))


@st.composite
def settings(draw: Any) -> str:
    """An argument of ``--set``."""
    known = material.paths()
    path = draw(st.sampled_from(sorted(known)))
    value = draw(
        st.one_of(
            mixed, st.just(known[path]), st.sampled_from(material.names()), st.sampled_from(sorted(known.values()))
        )
    )
    odd = draw(st.integers(0, 9))
    if odd == 0:
        path = draw(
            st.sampled_from([path + ".x", path[:-1], path.rpartition(".")[0], "", ".", "job", path.upper(), "a" * 999])
        )
    return path if odd == 1 else f"{path}={value}"


@st.composite
def word(draw: Any, param: Any) -> str:
    """A value for one parameter of a command."""
    if "--set" in param.opts:
        return draw(settings())
    metavar = str(param.metavar or "")
    usual: list[str] = list(material.names()) + list(FILES_BY_NAME)
    hint = re.findall(r"[a-z][a-z0-9_:-]+", str(param.help or ""))
    if "INTEGER" in metavar:
        usual = ["1", "2", "3", "4", "8"]
    elif metavar in ("FILE", "DIR", "FILE...", "TABLE|DIR") or "FILE" in metavar or "DIR" in metavar:
        usual = list(OUTPUTS if param.opts[0].startswith("-") else FILES_BY_NAME)
    elif hint:
        usual = usual + hint * 8
    usual = [text for text in usual if text not in LONG_WORDS]
    return draw(st.sampled_from(usual) if draw(st.integers(0, 3)) else mixed)


@st.composite
def command_lines(draw: Any) -> Case:
    """Any command of the tree, with some of its options, in any order, with any values."""
    known = material.commands()
    words = draw(st.sampled_from(sorted(known)))
    args: list[str] = list(words)
    command = known[words]
    chosen = [p for p in command.params if p.required or not draw(st.integers(0, 3))]
    for param in draw(st.permutations(chosen)):
        flag = getattr(param, "is_flag", False)
        option = param.opts[0].startswith("-")
        for _ in range(draw(st.sampled_from([1, 1, 1, 1, 2, 0]))):
            if option:
                args.append(draw(st.sampled_from(param.opts)))
            if not flag:
                args.append(draw(word(param)))
    if words == ("run",) and draw(st.integers(0, 3)):
        args = [*material.RUN, "--tokens", "2", *args[1:]]
    if words == ("bench",):
        args += ["--quick", "--only", draw(st.sampled_from(["engine.emit", "pim.512_rows", "dram", "x", ""]))]
    if words == ("demo",):
        args += ["--tokens", draw(st.sampled_from(["2", "3", "x", "0", str(2**40)]))]
    if draw(st.integers(0, 19)) == 0:
        args.insert(draw(st.integers(0, len(args))), draw(mixed))
    if draw(st.integers(0, 39)) == 0:
        args = args[: draw(st.integers(1, len(args)))]
    used = set(args)
    files = {name: data for name, data in material.FILES.items() if name in used or name == "run.yaml"}
    if "done" in used:
        files |= material.run_folder()
    if "table" in used:
        files |= material.sweep_folder()
    specials = tuple(name for name in ("fifo", "loop", "zero", "dangling") if name in used)
    return Case(tuple(args), files, specials, works=True)


# -- configuration files ------------------------------------------------------------------------------


def _spots(data: Any, at: tuple = ()) -> list[tuple]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [spot for key, value in items for spot in [(*at, key), *_spots(value, (*at, key))]]


def _parent(data: Any, spot: tuple) -> Any:
    for key in spot[:-1]:
        data = data[key]
    return data


@st.composite
def changed_data(draw: Any, data: Any, most: int = 3) -> Any:
    """Plain data with up to `most` changes: values replaced, scaled, moved, keys renamed, dropped, added, nested."""
    data = json.loads(json.dumps(data))
    for _ in range(draw(st.integers(1, most))):
        spots = _spots(data)
        if not spots:
            break
        spot = draw(st.sampled_from(spots))
        parent, key = _parent(data, spot), spot[-1]
        match draw(st.integers(0, 9)):
            case 0 | 1 | 2:
                parent[key] = draw(st.sampled_from(SCALARS))
            case 3:
                parent[key] = _scaled(parent[key], draw(st.sampled_from([0, -1, 2, 1e-3, 1e3, 1e9, 1e18, 1 / 3])))
            case 4:
                del parent[key]
            case 5:
                other = draw(st.sampled_from(spots))
                with_other = _parent(data, other)
                parent[key] = json.loads(json.dumps(with_other[other[-1]] if _has(with_other, other[-1]) else None))
            case 6:
                if isinstance(parent, dict):
                    parent[draw(st.sampled_from([str(key) + "s", str(key)[:-1], "x", "<<", "value", "base", ""]))] = (
                        parent.pop(key)
                    )
            case 7:
                if isinstance(parent, dict):
                    parent[draw(st.sampled_from(["value", "range", "source", "base", "spec", "extra", "name"]))] = draw(
                        st.sampled_from(SCALARS)
                    )
            case 8:
                parent[key] = draw(st.sampled_from([[parent[key]], {"value": parent[key]}, {str(key): parent[key]}]))
            case 9:
                parent[key] = draw(mixed)
    return data


def _has(parent: Any, key: Any) -> bool:
    return (
        key in parent
        if isinstance(parent, dict)
        else isinstance(parent, list) and isinstance(key, int) and key < len(parent)
    )


def _scaled(value: Any, factor: float) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return value
    if isinstance(value, str):
        found = re.fullmatch(r"([-+]?[0-9.]+(?:e[-+]?[0-9]+)?)( .*)?", value)
        return value if found is None else f"{float(found[1]) * factor:g}{found[2] or ''}"
    scaled = value * factor
    return int(scaled) if isinstance(value, int) and abs(scaled) < 1e300 else scaled


INSERTS = [
    b"&a ",
    b"*a ",
    b"!!python/object/apply:os.system [x] ",
    b"<<: *a\n",
    b"---\n",
    b"...\n",
    b"\t",
    b"\0",
    b"\xff",
    b"{",
    b"}",
]
INSERTS += [
    b"[",
    b"]",
    b": ",
    b"- ",
    b"'",
    b'"',
    b"|\n",
    b"? ",
    b"# ",
    b"%YAML 9.9\n",
    b"\xef\xbb\xbf",
    b"[" * 60,
    b"!x ",
]


@st.composite
def changed_bytes(draw: Any, data: bytes, inserts: list[bytes] = INSERTS, most: int = 4) -> bytes:
    """Bytes with up to `most` changes: cut, flipped, overwritten, doubled, moved, odd pieces put in."""
    made = bytearray(data)
    for _ in range(draw(st.integers(1, most))):
        at = draw(st.integers(0, len(made)))
        size = draw(st.sampled_from([1, 2, 4, 8, 16, 64, 512]))
        match draw(st.integers(0, 8)):
            case 0:
                del made[at:]
            case 1:
                del made[at : at + size]
            case 2:
                if at < len(made):
                    made[at] ^= 1 << draw(st.integers(0, 7))
            case 3:
                made[at : at + size] = bytes([draw(st.sampled_from([0, 0xFF, 0x7F, 0x80]))]) * size
            case 4:
                made[at:at] = made[at : at + size] * draw(st.sampled_from([1, 2, 30]))
            case 5:
                other = draw(st.integers(0, len(made)))
                made[at : at + size], made[other : other + size] = made[other : other + size], made[at : at + size]
            case 6:
                made[at:at] = draw(st.sampled_from(inserts))
            case 7:
                value = draw(st.sampled_from([0, 1, 2**31 - 1, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1]))
                width = draw(st.sampled_from([4, 8]))
                made[at : at + width] = (value % (1 << 8 * width)).to_bytes(width, "little")
            case 8:
                made[at:at] = draw(st.binary(min_size=1, max_size=12))
    return bytes(made)


def _plain(text: bytes) -> Any:
    from archsim.config.reading import value_of

    return value_of(text.decode(), "material")


@st.composite
def configs(draw: Any) -> Case:
    """A configuration file of any kind with something changed, checked, shown or run."""
    known = material.shipped()
    own = {
        name: (name.removesuffix(".yaml"), material.FILES[name])
        for name in ("run.yaml", "sweep.yaml", "span.yaml", "prices.yaml", "part.yaml")
    }
    own["part.yaml"] = ("part", material.FILES["part.yaml"])
    name = draw(st.sampled_from([*sorted(known), *[n for n in sorted(own) for _ in range(8)]]))
    kind, text = own.get(name) or known[name]
    if draw(st.integers(0, 3)):
        text = json.dumps(draw(changed_data(_plain(text)))).encode()
    else:
        text = draw(changed_bytes(text))
    files = {"run.yaml": material.FILES["run.yaml"], name: text}
    how = draw(st.integers(0, 2))
    args: list[str] = ["check", name]
    if kind in ("system", "part", "model", "run", "standard", "controller", "pim_device", "flash_device") and (
        how == 0 or kind[-6:] in ("andard", "roller", "device")
    ):
        args = ["show", kind, f"./{name}"]
    if kind == "system" and how == 1:
        args = [
            "run",
            "--system",
            f"./{name}",
            "--schedule",
            "flash_ar",
            *material.RUN[5:],
            "--tokens",
            "2",
            "--trace",
            "off",
        ]
    if kind == "model" and how == 1:
        args = [
            "run",
            *material.RUN[1:5],
            "--target",
            f"./{name}",
            *material.RUN[7:],
            "--tokens",
            "2",
            "--trace",
            "off",
        ]
    if kind == "run" and how == 1 and name == "run.yaml":
        args = ["run", f"./{name}", "--trace", "off"]
    if kind == "prices":
        files |= material.run_folder()
        args = ["report", "done", "--tables", name, "--json"]
    if name in ("sweep.yaml", "span.yaml") and how:
        args = ["sweep", name, "-o", "out"] + (["--estimate"] if how == 1 else [])
    if kind == "standard" and how:
        files["rw.txt"] = material.FILES["rw.txt"]
        args = ["trace", "dram", "rw.txt", "--standard", f"./{name}", "--json"]
    if kind == "controller" and how:
        files["rw.txt"] = material.FILES["rw.txt"]
        args = ["trace", "dram", "rw.txt", "--controller", f"./{name}", "--json"]
    if kind == "pim_device" and how:
        args = ["trace", "pim", "--gemv", "64x64", "--device", f"./{name}", "--json"]
    if kind == "flash_device" and how:
        args = ["trace", "flash", "--pattern", "rand_read", "--requests", "10", "--device", f"./{name}", "--json"]
    if name == "part.yaml" and how == 1:
        args = [*material.RUN, "--tokens", "2", "--trace", "off", "--set", f"system.flash=./{name}"]
    return Case(tuple(args), files, works=args[0] in ("run", "sweep", "trace"))


# -- streams ------------------------------------------------------------------------------------------


@st.composite
def streams(draw: Any) -> Case:
    """A recording with something changed, checked or run."""
    known = material.recordings()
    name = draw(st.sampled_from(sorted(known)))
    data = known[name]
    if name.endswith(".jsonl") and draw(st.integers(0, 2)):
        lines = [json.loads(line) for line in data.splitlines()]
        data = b"".join(json.dumps(line).encode() + b"\n" for line in draw(changed_data(lines)))
    else:
        data = draw(changed_bytes(data))
    args = ["check", name]
    if draw(st.booleans()):
        schedule = "dllm_npu" if name.startswith("mdm") else "chain_sd"
        target = "llada-8b" if name.startswith("mdm") else "smollm2-135m"
        args = ["run", "--system", "oneplus_12", "--schedule", schedule, "--target", target, "--stream", f"./{name}"]
        args += ["--tokens", "2", "--trace", "off", "--set", "job.prompt_tokens=4"]
    return Case(tuple(args), {name: data}, works=args[0] == "run")


# -- command traces -----------------------------------------------------------------------------------

_hex = st.sampled_from(
    ["0x0", "0x40", "40", "0x1000", "0xffffffff", "0x" + "f" * 16, "0x" + "f" * 40, "64", "-64", "1e3", "0x", "g"]
)
_dec = st.one_of(st.integers(0, 99).map(str), st.sampled_from([*NUMBERS, *HUGE]))
_cores = st.sampled_from(["R", "W", "LD", "ST", "READ", "WRITE", "r", "X", ""])
_gap = st.sampled_from([" ", "  ", "\t", ",", "", "\r", "\x0b"])
_end = st.sampled_from(["\n", "\n", "\n", "\r\n", "\r", "\n\n", "\n# x\n", "", "\0\n"])


@st.composite
def _joined(draw: Any, *parts: Any) -> str:
    made = [draw(part) for part in parts]
    gap = " " if draw(st.integers(0, 9)) else draw(_gap)
    return gap.join(made) + ("\n" if draw(st.integers(0, 9)) else draw(_end))


_requests = {
    "rw-hex": _joined(st.sampled_from(["R", "W"]), _hex),
    "ldst": _joined(st.sampled_from(["LD", "ST"]), st.one_of(_dec, _hex)),
    "dramsim3": _joined(_hex, st.sampled_from(["READ", "WRITE"]), _dec),
    "any": _joined(_cores, _hex, _dec),
}
_flash = {
    "mqsim": _joined(_dec, _dec, _dec, _dec, st.sampled_from(["0", "1", "2"])),
    "fio": _joined(
        _dec,
        st.sampled_from(["/dev/sda", "x"]),
        st.sampled_from(["read", "write", "add", "open", "trim", "wait"]),
        _dec,
        _dec,
    ),
    "blkparse": _joined(
        st.just("8,0"),
        _dec,
        _dec,
        st.sampled_from(["0.000000001", "0.1", "-0.000000001", "9.999999999"]),
        _dec,
        st.sampled_from(["Q", "D", "C"]),
        st.sampled_from(["R", "W", "RA", "N"]),
        _dec,
        st.just("+"),
        _dec,
    ),
}


@st.composite
def _instructions(draw: Any) -> str:
    from archsim.devices.pim.isa import INSTRUCTIONS

    opcode = draw(st.sampled_from([*(str(getattr(key, "name", key)) for key in INSTRUCTIONS), "EOC", "NOP", "x"]))
    first = draw(st.sampled_from(["AiM", "AiM", "AiM", "R", "W", "aim", "#", ""]))
    where = draw(st.sampled_from([[], ["MEM"], ["GPR"], ["CFR"]])) if first in "RW" else [opcode]
    fields = draw(st.lists(st.one_of(_dec, st.sampled_from(["0x1", "0xffffffff", "broadcast"])), max_size=6))
    return (
        draw(_gap).join([first, *where, *fields])
        if draw(st.integers(0, 19)) == 0
        else " ".join([first, *where, *fields])
    )


@st.composite
def traces(draw: Any) -> Case:
    """A trace of requests or instructions: written by a grammar, or a sample with bytes changed; plain or gzip."""
    device = draw(st.sampled_from(["dram", "dram", "pim", "flash"]))
    options: list[str] = []
    if device == "dram":
        style = draw(st.sampled_from(sorted(_requests)))
        text = "".join(draw(st.lists(_requests[style], max_size=8))).encode("utf-8", "surrogateescape")
        if draw(st.integers(0, 3)) == 0:
            text = draw(changed_bytes(material.FILES[draw(st.sampled_from(["rw.txt", "ldst.txt", "dramsim3.txt"]))]))
        options += ["--format", style] if style != "any" and draw(st.booleans()) else []
        if draw(st.booleans()):
            options += [
                "--injection",
                draw(
                    st.sampled_from(
                        ["greedy", "chain", "chain:1", "paced:3", "recorded", "paced:0", "paced:" + HUGE[2], "x"]
                    )
                ),
            ]
        if draw(st.integers(0, 3)) == 0:
            options += ["--channels", draw(st.one_of(st.sampled_from(["1", "2", "4"]), mixed))]
    elif device == "pim":
        text = "\n".join([*draw(st.lists(_instructions(), max_size=8)), "AiM EOC"]).encode("utf-8", "surrogateescape")
        if draw(st.integers(0, 2)) == 0:
            text = draw(changed_bytes(material.FILES["aim.trace"]))
        options += ["--device", draw(st.sampled_from(["lpddr5_pim", "gddr6_aim", "lpddr5x_pim", "lpddr5_aim_refab"]))]
    else:
        style = draw(st.sampled_from(sorted(_flash)))
        head = (
            draw(st.sampled_from(["fio version 2 iolog\n", "fio version 3 iolog\n", "fio version 9 iolog\n"]))
            if style == "fio"
            else ""
        )
        text = (head + "".join(draw(st.lists(_flash[style], max_size=8)))).encode("utf-8", "surrogateescape")
        if draw(st.integers(0, 1)) == 0:
            samples = material.block_samples()
            text = draw(changed_bytes(samples[draw(st.sampled_from(sorted(samples)))]))
        options += ["--format", style] if draw(st.booleans()) else []
        options += ["--unit", draw(st.sampled_from(["ns", "us", "s", "x"]))] if draw(st.integers(0, 4)) == 0 else []
    if draw(st.integers(0, 5)) == 0:
        text = gzip.compress(text, mtime=0)
        text = draw(changed_bytes(text)) if draw(st.booleans()) else text
    return Case(("trace", device, "t.txt", *options, "--json"), {"t.txt": text}, works=True)


# -- binary files -------------------------------------------------------------------------------------

BINARY = [b"\0" * 8, b"\xff" * 8, b"PAR1", b"GGUF", b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"\x80\x02]."]
READERS = (
    ["report", "done", "--json"],
    ["replay", "done", "--json"],
    ["explain", "done", "--json"],
    ["diff", "done", "done"],
)


@st.composite
def run_folders(draw: Any) -> Case:
    """A run folder in which files were changed, swapped or are missing."""
    files = dict(material.run_folder())
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(sorted(files)))
        match draw(st.integers(0, 5)):
            case 0:
                del files[name]
            case 1:
                files[name] = files[draw(st.sampled_from(sorted(files)))]
            case 2:
                files[name] = b""
            case _:
                files[name] = draw(changed_bytes(files[name], BINARY))
    return Case(tuple(draw(st.sampled_from(READERS))), files)


EXTREME = [0, 1, -1, 2, 7, 2**31, 2**40, 2**62, -(2**63), 2**63 - 1]


@st.composite
def resealed_folders(draw: Any) -> Case:
    """A run folder whose tables or manifest say something else, with digests and seal made anew: whole, and wrong."""
    tables, manifest = material.run_tables()
    for _ in range(draw(st.integers(1, 3))):
        table = draw(st.sampled_from(sorted(tables)))
        columns = tables[table]
        name = draw(st.sampled_from(sorted(columns)))
        values = columns[name]
        size = len(values)
        at = draw(st.integers(0, max(size - 1, 0)))
        match draw(st.integers(0, 7)):
            case 0 | 1 | 2 if size and values.dtype.kind == "i":
                values[at] = draw(st.sampled_from(EXTREME))
            case 0 | 1 if size and values.dtype.kind == "f":
                values[at] = draw(st.sampled_from([0.0, -1.0, 1e300, 1e-300, float("inf"), float("nan")]))
            case 2 | 3 if size and values.dtype.kind == "U":
                columns[name] = values.astype(object)
                columns[name][at] = draw(st.sampled_from(["", "x", "$x$", "a.b", "\n", "x" * 300, "\u202e"]))
                columns[name] = columns[name].astype(str)
            case 3 | 4 if size:
                other = draw(st.integers(0, size - 1))
                values[[at, other]] = values[[other, at]]
            case 5:
                tables[table] = {key: column[:at] for key, column in columns.items()}
            case 6:
                tables[table] = {key: column[::-1].copy() for key, column in columns.items()}
            case 7:
                other_name = draw(st.sampled_from(sorted(columns)))
                columns[name], columns[other_name] = columns[other_name], columns[name]
            case _:
                manifest = draw(changed_data(manifest, 1))
    if draw(st.integers(0, 3)) == 0:
        manifest = draw(changed_data(manifest, 2))
    return Case(tuple(draw(st.sampled_from(READERS))), material.resealed(tables, manifest))


@st.composite
def model_files(draw: Any) -> Case:
    """A GGUF file or a ``config.json`` with something changed, imported."""
    if draw(st.booleans()):
        return Case(
            ("import", "model", "m.gguf", "-o", "m.yaml"), {"m.gguf": draw(changed_bytes(material.gguf_file(), BINARY))}
        )
    data = material.FILES["config.json"]
    if draw(st.integers(0, 3)):
        data = json.dumps(draw(changed_data(json.loads(data)))).encode()
    else:
        data = draw(changed_bytes(data))
    return Case(("import", "model", "config.json", "-o", "m.yaml"), {"config.json": data})


@st.composite
def sweep_folders(draw: Any) -> Case:
    """The folder of a sweep in which files were changed: gone on with, or plotted."""
    files = dict(material.sweep_folder())
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(sorted(files)))
        match draw(st.integers(0, 4)):
            case 0:
                del files[name]
            case 1:
                files[name] = files[draw(st.sampled_from(sorted(files)))]
            case _:
                files[name] = draw(changed_bytes(files[name], BINARY))
    files |= {name: material.FILES[name] for name in ("run.yaml", "sweep.yaml")}
    plot = ["--kind", draw(st.sampled_from(["lines", "pareto", "heat", "bars", "tornado"])), "-o", "f.svg"]
    plot += ["--x", "job.seed", "--y", "decode_tokens_per_s"]
    source = draw(st.sampled_from(["table", "table/table.csv", "table/table.parquet"]))
    args = draw(st.sampled_from([["sweep", "sweep.yaml", "-o", "table"], ["plot", source, *plot]]))
    return Case(tuple(args), files, works=True)


#: Areas by name.
AREAS = {
    "command lines": command_lines(),
    "configuration": configs(),
    "streams": streams(),
    "traces": traces(),
    "run folders": run_folders(),
    "resealed run folders": resealed_folders(),
    "model files": model_files(),
    "sweep folders": sweep_folders(),
}
