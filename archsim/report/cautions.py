"""What a reader of a run's numbers should know: borrowed acceptance, early ends, mixes nobody measured."""

from __future__ import annotations

from collections.abc import Iterator

from archsim.report.background import background
from archsim.report.summary import TABLE_ACTIONS, table_share
from archsim.trace import Trace
from archsim.units import PS_PER_S

#: Simulated time above which a run without a thermal model is doubtful.
LONG_PS = 60 * PS_PER_S


def cautions(trace: Trace) -> Iterator[str]:
    """One sentence for each thing to distrust in a run."""
    manifest = trace.manifest
    stream, counts = manifest["stream"], manifest["warnings"]
    origin, _, whose = stream["label"].partition(":")
    target = manifest["config"]["job"]["target"] if "job" in manifest["config"] else "the simulated model"
    if origin == "recorded-proxy":
        yield (
            f"acceptance is a proxy, recorded from {whose} and not from {target} and its draft ({stream['label']}); "
            "for a published level take a synthetic stream of the pair"
        )
    elif origin == "synthetic-proxy":
        yield f"acceptance is a proxy: it is that of {whose}, not of {target} and its draft ({stream['label']})"
    elif origin == "synthetic":
        yield "acceptance is drawn from a labelled generator, not recorded (synthetic)"
    if counts.get("ended_early"):
        yield f"{counts['ended_early']} request(s) ended early, where the recording ends"
    if counts.get("off_trace_nodes"):
        yield f"{counts['off_trace_nodes']} recorded leaves were wanted for expansion and could not be (off trace)"
    measured, far = table_share(trace), table_share(trace, TABLE_ACTIONS[1:])
    if measured:
        yield f"{measured:.0%} of the run rests on a table of measured kernels, {far:.0%} on sizes outside that table"
    if trace.duration_ps > LONG_PS and not manifest.get("thermal"):
        yield (
            f"{trace.duration_ps / PS_PER_S:.0f} s were simulated without a thermal model, and a phone may throttle by "
            "then: give --thermal phone_passive (job.thermal)"
        )
    for name, stream in background(trace).items():
        if stream["late_bursts"]:
            unit = "core_s" if stream["kind"] == "cpu" else "bytes"
            yield (
                f"background stream {name} could not keep up: {stream['late_bursts']} of {stream['bursts']} bursts "
                f"were late, by up to {stream['late_max_s']:.3g} s, and {stream[f'backlog_{unit}']:.3g} of "
                f"{stream[f'due_{unit}']:.3g} {unit} due were not served"
            )
    share = uncalibrated_share(trace)
    if share:
        worst = max(share, key=lambda pool: share[pool])
        part = "less than 1%" if share[worst] < 0.005 else f"{share[worst]:.0%}"
        yield f"{part} of the busy time of {worst} was spent in stream mixes without a measured capacity"


def uncalibrated_share(trace: Trace) -> dict[str, float]:
    """Share of each bandwidth pool's busy time in mixes of two or more streams that its table does not list."""
    mix = trace.tables["mix"]
    found = {}
    for index, pool in enumerate(trace.manifest["pools"]):
        known = {mask for mask, _ in pool["mix"]}
        here = (mix["pool"] == index) & (mix["mask"] != 0)
        several = here & ((mix["mask"] & (mix["mask"] - 1)) != 0)
        lost = sum(int(t) for mask, t in zip(mix["mask"][several], mix["time_ps"][several]) if int(mask) not in known)
        if lost and pool["unit"] == "bytes/s":
            found[pool["name"]] = lost / int(mix["time_ps"][here].sum())
    return found
