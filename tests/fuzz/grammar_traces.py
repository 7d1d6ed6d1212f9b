"""Traces of requests and instructions, written by a grammar or changed; plain or gzip."""

from __future__ import annotations

import gzip
from typing import Any

import material
from changes import HUGE, NUMBERS, changed_bytes, mixed
from harness import Case
from hypothesis import strategies as st

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
