"""``archsim trace ...``: one device alone, fed by a trace of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from archsim.cli import print_json
from archsim.commands.options import Json, check_outputs, integer, path, text


def dram(
    file: Annotated[Path, typer.Argument(parser=path, metavar="FILE", help="Requests, plain or gzip.")],
    standard: Annotated[
        str, typer.Option(parser=text, metavar="TEXT", help="archsim list standards, or a file.")
    ] = "lpddr5x-9600",
    controller: Annotated[
        str, typer.Option(parser=text, metavar="TEXT", help="archsim list controllers, or a file.")
    ] = "mobile",
    channels: Annotated[int, integer("Channels.")] = 1,
    injection: Annotated[
        str, typer.Option(parser=text, metavar="TEXT", help="greedy | chain | chain:1 | paced:N | recorded")
    ] = "greedy",
    style: Annotated[
        str | None,
        typer.Option("--format", parser=text, metavar="TEXT", help="rw-hex | ldst | dramsim3; recognised by default."),
    ] = None,
    commands: Annotated[
        Path | None, typer.Option(parser=path, metavar="FILE", help="Write the DRAM commands to this CSV file.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(parser=path, metavar="FILE", help="Draw the read latencies into this file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Replay requests on the command-level DRAM model.

    Every request is served before the run ends; cycles are those of the standard's clock. Greedy, paced and recorded
    traces offer at most one request a cycle over all channels.
    """
    from archsim.devices.dram.controller import load_memory
    from archsim.devices.dram.replay import replay

    inputs = {"the trace": file, "--standard": standard, "--controller": controller}
    check_outputs({"--commands": commands, "--figure": figure}, inputs)
    memory = load_memory(standard, controller, channels=channels)
    result = replay(memory, file, injection=injection, style=style, command_trace=commands)
    if figure is not None:
        from archsim.report.figures import latency_histogram_figure
        from archsim.report.style import save

        save(latency_histogram_figure(result.histogram, result.tck_ns), figure)
    _show(result.to_json(), str(file), as_json)


def pim(
    file: Annotated[
        Path | None, typer.Argument(parser=path, metavar="[FILE]", help="An AiM instruction trace.")
    ] = None,
    gemv: Annotated[
        str | None, typer.Option(parser=text, metavar="OUTxIN", help="A matrix-vector product instead.")
    ] = None,
    device: Annotated[
        str, typer.Option(parser=text, metavar="TEXT", help="gddr6_aim, lpddr5_pim, ... or a file.")
    ] = "lpddr5x_pim",
    dtype: Annotated[
        str | None, typer.Option(parser=text, metavar="TEXT", help="Data type of the product, such as W8A8.")
    ] = None,
    tokens: Annotated[int, integer("Vectors that meet the same weights.")] = 1,
    fence: Annotated[bool, typer.Option("--fence", help="A memory fence after each vector load.")] = False,
    baseline: Annotated[bool, typer.Option("--baseline", help="Also the same weights streamed without PIM.")] = False,
    commands: Annotated[
        Path | None, typer.Option(parser=path, metavar="FILE", help="Write channel 0's commands to this CSV file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Replay PIM instructions, or lower one matrix-vector product, on the command-level PIM model."""
    from archsim.devices.pim.gemv import gemv as product
    from archsim.devices.pim.gemv import parse_shape
    from archsim.devices.pim.replay import replay
    from archsim.units import InputError

    if (file is None) == (gemv is None):
        raise InputError("give an instruction trace or --gemv OUTxIN, one of the two")
    if gemv is not None:
        if commands is not None:
            raise InputError("--commands belongs to a trace; --gemv gives counts only")
        shape = parse_shape(gemv)
        result = product(device, *shape, dtype=dtype, tokens=tokens, fence=fence, baseline=baseline)
    else:
        if (dtype, tokens, fence) != (None, 1, False):
            raise InputError("--dtype, --tokens and --fence belong to --gemv; a trace says itself what it does")
        check_outputs({"--commands": commands}, {"the trace": file, "--device": device})
        result = replay(device, file, baseline=baseline, command_trace=commands)
    _show(result.to_json(), gemv or str(file), as_json)


def flash(
    file: Annotated[Path | None, typer.Argument(parser=path, metavar="[FILE]", help="A block trace.")] = None,
    device: Annotated[
        str, typer.Option(parser=text, metavar="TEXT", help="ufs_4_0, ufs_2ch_1chip_2die_4pl, ... or a file.")
    ] = "ufs_4_0",
    pattern: Annotated[
        str | None,
        typer.Option(
            parser=text,
            metavar="TEXT",
            help="rand_read | seq_read | rand_write | seq_write | mixed:READSHARE, instead.",
        ),
    ] = None,
    size: Annotated[
        str | None, typer.Option(parser=text, metavar="TEXT", help="Size of a pattern's requests; 16 KiB.")
    ] = None,
    qd: Annotated[
        int,
        integer("Requests outstanding; a trace without one keeps its own times."),
    ] = 0,
    requests: Annotated[int | None, integer("Requests of a pattern; 10000.")] = None,
    seed: Annotated[int | None, integer("Seed of a pattern; 123.")] = None,
    span: Annotated[
        str | None,
        typer.Option(parser=text, metavar="TEXT", help="Range that a pattern addresses; half of the device."),
    ] = None,
    core: Annotated[
        str, typer.Option(parser=text, metavar="TEXT", help="prime | performance | efficiency: who issues.")
    ] = "prime",
    hot: Annotated[bool, typer.Option("--hot", help="The device is throttled.")] = False,
    style: Annotated[
        str | None,
        typer.Option("--format", parser=text, metavar="TEXT", help="mqsim | fio | blkparse; recognised by default."),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(parser=text, metavar="TEXT", help="Unit of a fio trace's times, where it cannot be told."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Replay a block trace, or run a pattern, on the event-level flash model."""
    from archsim.devices.flash.replay import device_spec, result, run_pattern, run_trace
    from archsim.units import InputError, parse, quote

    if (file is None) == (pattern is None):
        raise InputError("give a block trace or --pattern, one of the two")
    spec = device_spec(device)
    if pattern is not None:
        _refuse({"--format": style, "--unit": unit}, "a trace")
        span_bytes = int(parse(span, "B")) if span else 0
        if span and not span_bytes:
            raise InputError(f"a span of {quote(span)} holds nothing")
        drawn = 123 if seed is None else seed
        depth = {"depth": qd or 1, "seed": drawn, "span_bytes": span_bytes, "core": core, "hot": hot}
        count = 10_000 if requests is None else requests
        done = run_pattern(spec, pattern, int(parse(size or "16 KiB", "B")), count, **depth)
        document = result(spec, done)
    else:
        _refuse({"--size": size, "--requests": requests, "--seed": seed, "--span": span}, "--pattern")
        done, info = run_trace(spec, file, format=style or "", unit=unit or "", depth=qd, core=core, hot=hot)
        document = {**result(spec, done), "trace": info}
    _show(document, pattern or str(file), as_json)


def npu(
    op: Annotated[
        str, typer.Option(parser=text, metavar="TEXT", help="matmul | attention | norm | rope | softmax | swiglu")
    ] = "matmul",
    m: Annotated[int | None, integer("Rows (tokens).")] = None,
    k: Annotated[int | None, integer("Inner size, or width of a row.")] = None,
    n: Annotated[int | None, integer("Outer size.")] = None,
    kv: Annotated[int | None, integer("Cached rows (attention).")] = None,
    heads: Annotated[int | None, integer("Query heads (attention).")] = None,
    kv_heads: Annotated[int | None, integer("KV heads (attention); as many as query heads.")] = None,
    head_dim: Annotated[int | None, integer("Width of a head (attention).")] = None,
    dtype: Annotated[
        str | None,
        typer.Option(parser=text, metavar="TEXT", help="Weights (fp16, q4_0, ...), or the array's words (int8)."),
    ] = None,
    system: Annotated[
        str | None, typer.Option(parser=text, metavar="TEXT", help="archsim list systems, or a file: run on its NPU.")
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(parser=text, metavar="TEXT", help="Kernel policy; the system's own by default.")
    ] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", help="system.npu.<field>=value")] = None,
    array: Annotated[
        str | None, typer.Option(parser=text, metavar="ROWSxCOLS", help="Run on a systolic array instead.")
    ] = None,
    dataflow: Annotated[
        str | None, typer.Option(parser=text, metavar="TEXT", help="ws | os | is: what stays in the array.")
    ] = None,
    sram: Annotated[
        str | None,
        typer.Option(
            parser=text, metavar="TEXT", help="SRAM of input, weights, results: '512 KiB,512 KiB,256 KiB', or one size."
        ),
    ] = None,
    link: Annotated[
        int | None,
        integer("Words a cycle between DRAM and each SRAM; no limit."),
    ] = None,
    clock: Annotated[str | None, typer.Option(parser=text, metavar="TEXT", help="Clock of the array, 1 GHz.")] = None,
    perfetto: Annotated[
        Path | None, typer.Option(parser=path, metavar="FILE", help="Write the stages as a Perfetto trace.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(parser=path, metavar="FILE", help="Draw the stages into this file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run one operator alone on an NPU's kernels, or a matrix product on a systolic array."""
    from archsim import npu_trace
    from archsim.units import InputError

    check_outputs({"--perfetto": perfetto, "--figure": figure}, {"--system": system})
    sizes = {"m": m, "k": k, "n": n, "kv": kv, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
    request = npu_trace.Request(op, sizes, dtype)
    draw = perfetto is not None or figure is not None
    if (system is None) == (array is None):
        raise InputError("give --system NAME or --array ROWSxCOLS, one of the two")
    if system is not None:
        only = {"--dataflow": dataflow, "--sram": sram, "--link": link, "--clock": clock}
        _refuse(only, "--array")
        traced = npu_trace.on_system(request, system, kernel, sets or (), draw=draw)
    else:
        _refuse({"--kernel": kernel, "--set": sets or None}, "--system")
        if dataflow is None:
            raise InputError("--array needs --dataflow ws, os or is")
        memory = {"sram": sram or "512 KiB,512 KiB,256 KiB", "link": link or 0, "clock": clock or "1 GHz"}
        traced = npu_trace.on_array(request, array or "", dataflow, **memory, draw=draw)
    npu_trace.write(traced, perfetto, figure)
    _show(traced.document, traced.title, as_json)


def _refuse(options: dict[str, Any], other: str) -> None:
    """Refuse options that belong to another way of running."""
    from archsim.units import InputError

    for option, value in options.items():
        if value is not None:
            raise InputError(f"{option} belongs to {other}")


def _show(document: dict[str, Any], title: str, as_json: bool) -> None:
    if as_json:
        print_json(document)
        return
    from archsim.report import terminal
    from archsim.report.tables import flat

    rows = [{"what": key, "value": value} for key, value in flat(document).items() if value != 0 or "." not in key]
    terminal.show_rows(rows, title=title)
