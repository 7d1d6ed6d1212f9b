"""A plain table: CSV with the columns ``operator,shape,dtype,value,unit``.

Further columns, where wanted: ``device``, ``kernel``, ``model``, ``group``, ``tolerance``, ``hold_out``. Lines that
start with ``#`` are comments. Units are us, ms, tok/s (or t/s), MB/s, GB/s, or others of these dimensions.

==============  ================================  =============================================================
operator        shape                             what
==============  ================================  =============================================================
``matmul``      ``MxKxN``                         product [M, K] x [K, N] with weights of ``dtype``
``attention``   ``MxKVxHEADSxKVHEADSxWIDTH``      M rows after KV cached ones
``norm rope``   ``MxK``                           also ``softmax``, ``swiglu``
``matrices``    ``M``                             mean over the products of one layer of ``model``
``layers``      ``M`` or ``M@KV``                 all operators of all layers of ``model`` on M rows, summed
``prefill``     ``TOKENS`` or ``TOKENS@DEPTH``    a prompt of ``model``, in batches of 512
``decode``      ``TOKENS`` or ``TOKENS@DEPTH``    tokens of ``model``, one by one
``seq_read``    ``SIZE``, as ``512 KiB``          flash; ``kernel`` is the class of the issuing core
``rand_read``   ``SIZE@SPAN`` or                  flash, over a span; 32 outstanding where no depth is given
                ``SIZE@SPAN@DEPTH``
==============  ================================  =============================================================

``device`` is ``npu`` (default) or another device of the system; for flash reads ``row`` (default) or ``event``.
Operator times hold the call. ``tolerance`` is a share (0.05); ``hold_out`` is yes or no.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping

from archsim.measurements.names import dtype_of
from archsim.measurements.readers import Format, Hints, Source
from archsim.measurements.rows import FlashCase, Measurement, ModelCase, OperatorCase, dimension_of, group_of
from archsim.units import InputError, parse, quote, suggest

NEEDED = ("operator", "shape", "dtype", "value", "unit")
OPTIONAL = ("device", "kernel", "model", "group", "tolerance", "hold_out")
SIZES = {"matmul": 3, "attention": 5, "norm": 2, "rope": 2, "softmax": 2, "swiglu": 2}
OPERATORS = (*SIZES, "matrices", "layers", "prefill", "decode", "seq_read", "rand_read")
CORES = ("", "prime", "performance", "efficiency")
DEPTH = 32
#: Other spellings of units.
_UNITS = {"t/s": "tok/s", "tokens/s": "tok/s"}
_WORDS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False, "": None}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def recognise(text: str) -> bool:
    """Whether the first line that is no comment names the columns."""
    line = next((line for line in text.split("\n") if line.strip() and not line.startswith("#")), "")
    return {"operator", "shape", "value", "unit"} <= {part.strip() for part in line.split(",")}


def read(text: str, source: Source, hints: Hints) -> Iterator[Measurement]:
    """Rows of the file."""
    lines = [(i, line) for i, line in enumerate(text.split("\n"), 1) if line.strip() and not line.startswith("#")]
    header: list[str] = []
    for number, line in lines:
        place = f"line {number}"
        try:
            cells = [cell.strip() for cell in next(csv.reader(io.StringIO(line), strict=True))]
        except (csv.Error, StopIteration) as error:
            source.fail(place, f"is no line of a table: {error}")
        if not header:
            header = _header(cells, place, source)
        elif len(cells) != len(header):
            source.fail(place, f"has {len(cells)} fields, the header {len(header)}")
        else:
            yield _row(dict(zip(header, cells)), place, source, hints)


def _header(cells: list[str], place: str, source: Source) -> list[str]:
    for name in cells:
        if name not in NEEDED + OPTIONAL:
            source.fail(place, f"unknown column {quote(name)}; {suggest(name, NEEDED + OPTIONAL)}")
    missing = [name for name in NEEDED if name not in cells]
    if missing or len(set(cells)) != len(cells):
        source.fail(place, f"the column {missing[0]} is missing" if missing else "a column is there twice")
    return cells


def _row(cells: Mapping[str, str], place: str, source: Source, hints: Hints) -> Measurement:
    operator = cells["operator"]
    if operator not in OPERATORS:
        source.fail(place, f"no operator {quote(operator)}; {suggest(operator, OPERATORS)}")
    cells = {**cells, "unit": _UNITS.get(cells["unit"], cells["unit"])}
    try:
        dimension = dimension_of(cells["unit"])
        parse(f"{cells['value']} {cells['unit']}", dimension)
        value = float(cells["value"])
    except (InputError, ValueError) as error:
        source.fail(place, f"value: {error}")
    if not value > 0:
        source.fail(place, f"value {quote(cells['value'])} must be above 0")
    case = _flash(cells, place, source) if operator.endswith("_read") else _computed(cells, place, source, hints)
    if isinstance(case, FlashCase) and dimension == "tok/s":
        source.fail(place, f"unit {quote(cells['unit'])}: a read has no tokens")
    word = cells.get("hold_out", "").lower()
    if word not in _WORDS:
        source.fail(place, f"hold_out is {quote(word)}; yes or no")
    label = " ".join(filter(None, (operator, cells["shape"], cells["dtype"], cells.get("model"), cells.get("kernel"))))
    return Measurement(
        place,
        label,
        cells.get("group") or group_of(case),
        value,
        cells["unit"],
        case,
        tolerance=_share(cells.get("tolerance", ""), place, source),
        held_out=_WORDS[word],
    )


def _share(text: str, place: str, source: Source) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 10:
        source.fail(place, f"tolerance {quote(text)} is not a share such as 0.05")
    return value


def _flash(cells: Mapping[str, str], place: str, source: Source) -> FlashCase:
    parts = [part.strip() for part in cells["shape"].split("@")]
    scattered = cells["operator"] == "rand_read"
    if len(parts) not in ((2, 3) if scattered else (1,)):
        source.fail(place, f"shape {quote(cells['shape'])}: {'SIZE@SPAN or SIZE@SPAN@DEPTH' if scattered else 'SIZE'}")
    try:
        sizes = [int(parse(part, "B")) for part in parts[:2]]
    except InputError as error:
        source.fail(place, f"shape: {error}")
    if min(sizes) < 1:
        source.fail(place, f"shape {quote(cells['shape'])} reads nothing")
    core, level = cells.get("kernel", ""), cells.get("device", "") or "row"
    if core not in CORES:
        source.fail(place, f"kernel {quote(core)}: a core issues reads; {suggest(core, CORES[1:])}")
    if level not in ("row", "event"):
        source.fail(place, f"device {quote(level)}: a read has row or event")
    depth = source.whole(place, "depth", parts[2], least=1) if len(parts) == 3 else DEPTH if scattered else 1
    return FlashCase(cells["operator"], sizes[0], depth, sizes[1] if scattered else 0, core, level)


def _computed(cells: Mapping[str, str], place: str, source: Source, hints: Hints) -> OperatorCase | ModelCase:
    operator, device = cells["operator"], cells.get("device", "") or "npu"
    if not _NAME.fullmatch(device):
        source.fail(place, f"device {quote(device)} is not the name of a device")
    dtype = "" if cells["dtype"] in ("", "-") else dtype_of(cells["dtype"])
    if not dtype and cells["dtype"] not in ("", "-"):
        source.fail(place, f"dtype {quote(cells['dtype'])} is not among archsim's")
    if operator in SIZES:
        sizes = _sizes(cells["shape"], "x", SIZES[operator], place, source)
        if operator == "attention" and (not sizes[3] or sizes[2] % sizes[3]):
            source.fail(place, f"shape {quote(cells['shape'])}: heads are no multiple of KV heads")
        if operator == "matmul" and not dtype:
            source.fail(place, "a product needs the dtype of its weights")
        return OperatorCase(device, operator, sizes, dtype.lower(), cells.get("kernel", ""))
    model = cells.get("model", "") or hints.target
    if not model:
        source.fail(place, f"{operator} needs a model: the column 'model', or --target")
    if operator == "matrices":
        sizes = _sizes(cells["shape"], "@", 1, place, source)
        return OperatorCase(device, operator, sizes, dtype.lower(), cells.get("kernel", ""), model)
    shape = cells["shape"] if "@" in cells["shape"] else f"{cells['shape']}@0"
    tokens, depth = _sizes(shape, "@", 2, place, source)
    if operator == "layers":
        return OperatorCase(device, operator, (tokens, depth), dtype.lower(), cells.get("kernel", ""), model)
    prompt, generated = (tokens, 0) if operator == "prefill" else (0, tokens)
    return ModelCase(device, model, prompt, generated, depth, dtype=dtype)


def _sizes(text: str, sign: str, count: int, place: str, source: Source) -> tuple[int, ...]:
    parts = text.split(sign)
    if len(parts) != count:
        source.fail(place, f"shape {quote(text)}: {count} sizes with {quote(sign)} between are needed")
    least = [0 if number == 1 and (sign == "@" or count == 5) else 1 for number in range(count)]
    return tuple(source.whole(place, "shape", part.strip(), least=low) for part, low in zip(parts, least))


FORMAT = Format("table", "CSV: operator,shape,dtype,value,unit", recognise, read)
