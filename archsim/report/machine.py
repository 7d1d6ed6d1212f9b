"""A machine as a picture: blocks with what they hold, and the links between them, as data, as text and as a figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from archsim.device import Device
from archsim.report.style import blank, house
from archsim.system import System
from archsim.units import show

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Field of a device's numbers that names where its data come from and go to.
MEMORY = "memory"
_BINARY = ((1 << 30, "GiB"), (1 << 20, "MiB"))
_MARGIN = 0.1  # above the first box, in lines of text: half of its border lies outside it
_LEFT, _LINK, _RIGHT = 42, 24, 32
_ROUND = {"corners": "╭╮╰╯", "across": "─", "down": "│", "left": "┤", "right": "├", "wire": "━"}
_PLAIN = {"corners": "++++", "across": "-", "down": "|", "left": "|", "right": "|", "wire": "="}


def drawing(system: System, parts: Mapping[str, str]) -> dict[str, Any]:
    """Blocks and links of a machine as plain data.

    Parameters
    ----------
    system : System
        The machine.
    parts : Mapping[str, str]
        Part by device.

    Returns
    -------
    dict
        ``blocks``: ``name``, ``kind``, ``part``, ``units``, ``pools`` and ``stores`` (``name``, ``capacity``,
        ``unit``), ``peak_ops_per_s``. ``links``: ``from``, ``to``, ``as`` (the field that names the other device),
        ``through`` (the pool that bounds it) and ``bytes_per_s`` (None for links that carry no data).
    """
    blocks = [
        {
            "name": device.name,
            "kind": device.kind,
            "part": parts.get(device.name, ""),
            "units": [unit.name for unit in device.units()],
            "pools": [{"name": p.name, "capacity": p.capacity, "unit": p.unit} for p in device.pools()],
            "stores": [{"name": s.name, "capacity": s.capacity, "unit": s.unit} for s in device.stores()],
            "peak_ops_per_s": device.peak_ops_per_s(),
        }
        for device in system.devices.values()
    ]
    links = [link for device in system.devices.values() for link in _links(device, system.devices)]
    return {"blocks": blocks, "links": links}


def _links(device: Device, devices: Iterable[str]) -> list[dict[str, Any]]:
    """Links of one device: fields of its numbers that name another device, or a unit of one."""
    found = []
    for field, value in device.spec.model_dump().items():
        other = value.partition(".")[0] if isinstance(value, str) else ""
        if other not in devices or other == device.name:
            continue
        through, rate = _data_path(device) if field == MEMORY else ("", None)
        found.append({"from": device.name, "to": other, "as": field, "through": through, "bytes_per_s": rate})
    return found


def _data_path(device: Device) -> tuple[str, float | None]:
    """Pool that bounds a device's data, and its rate; the rate it serves where it has no such pool."""
    pools = [pool for pool in device.pools() if pool.unit == "bytes/s"]
    if pools:
        least = min(pools, key=lambda pool: pool.capacity)
        return least.name, least.capacity
    return "", device.bandwidth_bytes_per_s() or None


def _amount(entry: Mapping[str, Any]) -> str:
    """Capacity of a pool or store with its name, in binary units where it is a whole number of them."""
    amount, name = entry["capacity"], _short(entry["name"])
    if entry["unit"] == "bytes":
        binary = next(((size, unit) for size, unit in _BINARY if amount >= size and amount % (1 << 20) == 0), None)
        return f"{name} {amount / binary[0]:g} {binary[1]}" if binary else f"{name} {show(amount, 'B')}"
    if entry["unit"] == "bytes/s":
        return f"{name} {show(amount, 'B/s')}"
    return f"{amount:g} {entry['unit']}" if name == entry["unit"] else f"{name} {amount:g} {entry['unit']}"


def _short(name: str) -> str:
    return name.partition(".")[2] or name


def _lines(block: Mapping[str, Any], links: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a block says inside."""
    lines = [", ".join(_short(unit) for unit in block["units"])] if block["units"] else []
    if block["peak_ops_per_s"]:
        lines.append(f"peak {block['peak_ops_per_s'] / 1e12:.3g} TOP/s")
    through = {link["through"] for link in links if link["from"] == block["name"]}
    lines += [_amount(pool) for pool in block["pools"] if pool["name"] not in through]
    lines += [_amount(store) for store in block["stores"]]
    others = [x for x in links if x["from"] == block["name"] and x["as"] != MEMORY]
    lines += [f"uses {x['to']}" if x["as"] == x["to"] else f"{x['as'].replace('_', ' ')}: {x['to']}" for x in others]
    return lines or [f"({block['kind']})"]


def _label(link: Mapping[str, Any]) -> str:
    rate = "" if link["bytes_per_s"] is None else show(link["bytes_per_s"], "B/s")
    return f"{_short(link['through'])} {rate}".strip()


def _groups(document: Mapping[str, Any]) -> list[tuple[Mapping[str, Any] | None, list[tuple[Any, str | None]]]]:
    """Memories, each with the blocks linked to it and their labels; last, the blocks that are linked to none."""
    blocks = {block["name"]: block for block in document["blocks"]}
    to = {link["from"]: link for link in document["links"] if link["as"] == MEMORY}
    memories = [name for name in blocks if any(link["to"] == name for link in to.values())]
    found: list[Any] = [
        (blocks[m], [(blocks[name], _label(link)) for name, link in to.items() if link["to"] == m]) for m in memories
    ]
    alone = [(block, None) for name, block in blocks.items() if name not in memories and name not in to]
    return [*found, (None, alone)] if alone else found


def text(document: Mapping[str, Any], *, plain: bool = False) -> str:
    """Drawing as text, about a hundred columns wide; `plain` keeps to ASCII."""
    marks = _PLAIN if plain else _ROUND
    lines: list[str] = []
    for memory, members in _groups(document):
        left: list[str] = []
        for block, label in members:
            box = _box(block, document["links"], _LEFT, marks)
            middle = len(box) // 2
            for i, line in enumerate(box):
                wired = i == middle and label is not None
                line = line[:-1] + marks["right"] if wired else line
                wire = f" {label} ".center(_LINK, marks["wire"]) if wired else " " * _LINK
                left.append((line + wire, wired))  # type: ignore[arg-type]
        if memory is None:
            lines += [line.rstrip() for line, _ in left]  # type: ignore[misc]
            continue
        right = _box(memory, document["links"], _RIGHT, marks, len(left))
        for (line, wired), other in zip(left, right):  # type: ignore[misc]
            lines.append(line + (marks["left"] + other[1:] if wired else other))
    return "\n".join(lines)


def _box(
    block: Mapping[str, Any], links: Sequence[Mapping[str, Any]], width: int, marks: Mapping[str, str], height: int = 0
) -> list[str]:
    """A block as lines of equal width, at least `height` of them."""
    inside = width - 4
    title = f" {block['name']}: {block['part']} "[: width - 4]
    content = [line if len(line) <= inside else line[: inside - 3] + "..." for line in _lines(block, links)]
    content += [""] * (height - 2 - len(content))
    a, b, c, d = marks["corners"]
    top = a + marks["across"] + title + marks["across"] * (width - 3 - len(title)) + b
    body = [f"{marks['down']} {line:<{inside}} {marks['down']}" for line in content]
    return [top, *body, c + marks["across"] * (width - 2) + d]


def machine_figure(document: Mapping[str, Any]) -> Figure:
    """Drawing as a figure: boxes, and lines whose width grows with the bytes a second that they carry."""
    groups = _groups(document)
    gap, row, head = 0.6, 0.62, 0.9  # heights in lines of text
    tall = {block["name"]: head + row * len(_lines(block, document["links"])) for block in document["blocks"]}
    columns = [sum(tall[block["name"]] + gap for block, _ in members) for memory, members in groups]
    total = sum(max(c, tall[m["name"]] + gap if m else 0) for c, (m, _) in zip(columns, groups))
    most = max((link["bytes_per_s"] or 0.0 for link in document["links"]), default=0.0)
    rates = {link["from"]: link["bytes_per_s"] for link in document["links"] if link["as"] == MEMORY}
    with house():
        figure, axes = blank(0.3 + 0.2 * total)
        axes.set_axis_off()
        axes.set_xlim(0, 100)
        axes.set_ylim(-total, _MARGIN)
        y = 0.0
        for (memory, members), column in zip(groups, columns):
            below = y - max(column, tall[memory["name"]] + gap if memory else 0)
            if memory is not None:
                _draw_box(axes, memory, document, 72, y, 27, y - below - gap, "#E4E4E4")
            for block, label in members:
                height = tall[block["name"]]
                _draw_box(axes, block, document, 1, y, 42, height, "white")
                if label is not None:
                    rate = rates[block["name"]]
                    width = 1.0 if not rate else 1.0 + 4.0 * rate / most
                    at = y - height / 2
                    axes.plot([43, 72], [at, at], color="black", linewidth=width, solid_capstyle="butt")
                    axes.text(57.5, at + 0.22, label, ha="center", va="bottom")
                y -= height + gap
            y = below
    return figure


def _draw_box(
    axes: Any, block: Mapping[str, Any], document: Mapping[str, Any], x: float, y: float, width: float, height: float,
    colour: str,
) -> None:  # fmt: skip
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((x, y - height), width, height, facecolor=colour, edgecolor="black", linewidth=0.8))
    axes.text(x + 1, y - 0.15, f"{block['name']}: {block['part']}", va="top", weight="bold")
    for i, line in enumerate(_lines(block, document["links"])):
        axes.text(x + 1, y - 0.8 - 0.62 * i, line, va="top")
