"""Reader of AiM instruction traces: text in, program out.

One instruction a line, fields separated by blanks or commas; empty lines and lines that start with ``#`` are skipped::

    AiM OPCODE FIELD...        R|W MEM CHANNEL BANK ROW        R|W GPR REGISTER        W CFR REGISTER DATA

Fields by opcode are those of :data:`archsim.devices.pim.isa.INSTRUCTIONS`. Numbers are decimal or hexadecimal with
``0x``. Bit ``i`` of a channel mask is channel ``channels - 1 - i``.
"""

from __future__ import annotations

import re
from pathlib import Path

from archsim.config.finding import shipped
from archsim.config.regular import read_regular
from archsim.devices.pim.isa import AF_ROW, INSTRUCTIONS, Cmd, Instruction, Kind, Program, Steps
from archsim.devices.pim.standard import PimStandard
from archsim.units import InputError, quote, suggest

#: Columns one instruction may touch: the host's limit on requests of one line.
MAX_OPSIZE = 1 << 20
#: Largest trace, bytes: instructions are held in memory, about 150 bytes each.
MAX_BYTES = 1 << 26
MAX_WORDS = 16
CONFIGURATION = ("broadcast", "ewmul_bg", "afm")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,18}")
_SPLIT = re.compile(r"[\s,]+")


def read_trace(path: str | Path, standard: PimStandard) -> Program:
    """Program of a trace file.

    Raises
    ------
    InputError
        No regular file, or one of more than :data:`MAX_BYTES`; a malformed line, an unknown opcode or an operand out of
        range (``file:line``); no ``EOC``.
    """
    raw = read_regular(shipped(Path(path)), MAX_BYTES, "a trace of AiM instructions")
    try:
        text = raw.decode("ascii")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text trace (byte {error.start} is not ASCII)") from error
    return parse_trace(text, standard, str(path))


def parse_trace(text: str, standard: PimStandard, where: str = "trace") -> Program:
    """Program of the text of a trace; `where` names it in errors.

    Raises
    ------
    InputError
        As :func:`read_trace`.
    """
    parser = _Parser(standard)
    for number, line in enumerate(text.split("\n"), 1):
        words = [w for w in _SPLIT.split(line) if w]
        if not words or words[0].startswith("#"):
            continue
        if len(words) > MAX_WORDS:
            raise InputError(f"{where}:{number}: {len(words)} fields in one line; the longest instruction has 5")
        try:
            parser.take(words, number)
        except InputError as error:
            raise InputError(f"{where}:{number}: {error}") from None
    if not parser.ended:
        raise InputError(f"{where}: no 'AiM EOC' at the end; add it, the run ends there")
    return parser.steps.program()


class _Parser:
    """Turns lines into instructions; carries the configuration registers."""

    def __init__(self, standard: PimStandard) -> None:
        self.standard = standard
        self.steps = Steps(standard.organisation["channels"])
        self.function = 0
        self.ended = False
        self.limits = {
            "bank": standard.banks,
            "row": standard.organisation["rows"],
            "channel": standard.organisation["channels"],
            "opsize": MAX_OPSIZE + 1,
            "mask": 1 << standard.organisation["channels"],
            "gpr": 1 << 32,
            "CFR": len(CONFIGURATION),
            "data": 1 << 16,
        }

    def take(self, words: list[str], line: int) -> None:
        """One line."""
        if self.ended:
            raise InputError("an instruction after EOC; EOC ends the run")
        if words[0] == "AiM":
            self._instruction(words[1:], line)
        elif words[0] in ("R", "W"):
            self._plain(words, line)
        else:
            hint = suggest(words[0], ("AiM", "R", "W"))
            raise InputError(f"{quote(words[0])} starts no line of an AiM trace (AiM, R or W); {hint}")

    def _instruction(self, words: list[str], line: int) -> None:
        if not words:
            raise InputError("AiM without an opcode")
        name = words[0].removeprefix("ISR_")
        if name not in INSTRUCTIONS:
            raise InputError(f"unknown opcode {quote(words[0])}; {suggest(name, INSTRUCTIONS)}")
        what = INSTRUCTIONS[name]
        values = self._numbers(name, what.fields, words[1:])
        if name in ("SYNC", "EOC"):
            self.steps.barrier(line=line)
            self.ended = name == "EOC"
        elif what.command is None:
            self.steps.add(Kind.HOST, 0, line=line)
        else:
            self._requests(name, what, values, line)

    def _requests(self, name: str, what: Instruction, values: dict[str, int], line: int) -> None:
        mask = self._channels(values["mask"])
        if what.one_channel and mask & (mask - 1):
            raise InputError(f"{name} takes one channel; mask 0x{values['mask']:x} names {mask.bit_count()}")
        kind = {Cmd.RD: Kind.READ, Cmd.WR: Kind.WRITE}.get(what.command, Kind.PIM)
        self.steps.add(
            kind,
            mask,
            what.command,
            count=values.get("opsize", 1),
            bank=values.get("bank", -1),
            row=AF_ROW + self.function if what.command == Cmd.AF16 else values.get("row", -1),
            blocking=what.blocking,
            line=line,
        )

    def _plain(self, words: list[str], line: int) -> None:
        region = words[1] if len(words) > 1 else ""
        fields = {"MEM": ("channel", "bank", "row"), "GPR": ("gpr",), "CFR": ("CFR", "data")}
        if region not in fields:
            raise InputError(f"{quote(region)} is no memory region; {suggest(region, fields)}")
        expected = ("CFR",) if (region, words[0]) == ("CFR", "R") else fields[region]
        values = self._numbers(f"{words[0]} {region}", expected, words[2:])
        if region == "MEM":
            kind, command = (Kind.READ, Cmd.RD) if words[0] == "R" else (Kind.WRITE, Cmd.WR)
            mask = 1 << values["channel"]
            self.steps.add(kind, mask, command, bank=values["bank"], row=values["row"], line=line)
            return
        if words[0] == "W" and region == "CFR" and CONFIGURATION[values["CFR"]] == "afm":
            self.function = values["data"]
        self.steps.add(Kind.HOST, 0, line=line)

    def _numbers(self, name: str, fields: tuple[str, ...], words: list[str]) -> dict[str, int]:
        if len(words) != len(fields):
            shown = " ".join(fields) or "no fields"
            raise InputError(f"{name} has {len(words)} fields; expected {len(fields)}: {shown}")
        values = {}
        for field, word in zip(fields, words, strict=True):
            if not _NUMBER.fullmatch(word):
                raise InputError(f"{name}: {field} {quote(word)} is not a whole number of 0 or more")
            value = int(word, 16) if word[:2].lower() == "0x" else int(word)
            least = 1 if field in ("opsize", "mask") else 0
            if not least <= value < self.limits[field]:
                raise InputError(
                    f"{name}: {field} {word} is out of range; expected {least} to {self.limits[field] - 1}"
                )
            values[field] = value
        return values

    def _channels(self, mask: int) -> int:
        channels = self.limits["channel"]
        return sum(1 << (channels - 1 - i) for i in range(channels) if mask >> i & 1)
