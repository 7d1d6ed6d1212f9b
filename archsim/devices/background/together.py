"""What all streams of a run ask for together, against what the machine serves."""

from __future__ import annotations

from collections.abc import Mapping

from archsim.device import Device
from archsim.devices.background.cpu_stream import CpuStream
from archsim.devices.background.dram_stream import DramStream
from archsim.devices.background.flash_stream import FlashStream
from archsim.units import InputError, show


def check_together(devices: Mapping[str, Device]) -> None:
    """Refuse streams whose mean rates add up to more than a memory, a flash device or a CPU can ever serve.

    Streams of disjoint times are added too: the check knows no time.

    Raises
    ------
    InputError
        Naming the device and the streams.
    """
    memory: dict[str, dict[str, float]] = {}
    queue: dict[str, dict[str, float]] = {}
    cores: dict[str, dict[str, float]] = {}
    for name, device in devices.items():
        if isinstance(device, DramStream):
            memory.setdefault(device.spec.memory, {})[name] = device.spec.mean_bytes_per_s
        elif isinstance(device, FlashStream):
            queue.setdefault(device.spec.flash, {})[name] = device.queue_share
            into = device.memory
            memory.setdefault(into, {})[name] = device.spec.read_bytes_per_s
        elif isinstance(device, CpuStream):
            cores.setdefault(device.spec.cpu, {})[name] = device.spec.core_share
    for name, asked in memory.items():
        _refuse(asked, devices[name].bandwidth_bytes_per_s(), "B/s", f"what {name} serves")
    for name, asked in queue.items():
        _refuse(asked, 1.0, "", f"the time of the queue of {name}")
    for name, asked in cores.items():
        _refuse(asked, float(len(devices[name].spec.core_hz)), "", f"the cores of {name}")


def _refuse(asked: Mapping[str, float], most: float, unit: str, what: str) -> None:
    total = sum(asked.values())
    if total > most:
        text = f"{show(total, unit)} of {show(most, unit)}" if unit else f"{total:.3g} of {most:.3g}"
        raise InputError(f"background: {', '.join(asked)} together ask for {text}, {what}; lower their rates")
