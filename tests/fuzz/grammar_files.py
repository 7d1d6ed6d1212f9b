"""Configuration files and decision streams with something changed."""

from __future__ import annotations

import json
from typing import Any

import material
from changes import changed_bytes, changed_data
from harness import Case
from hypothesis import strategies as st


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
