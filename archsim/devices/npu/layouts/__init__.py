"""Memory layouts of matrices on a Hexagon-class NPU: address maps, runs of bytes, and what both cost.

``find(name)`` gives a :class:`Layout`; ``locate`` and ``element`` map elements to places and back; ``runs(layout,
region)`` are the contiguous bytes of a rectangle; ``conversion_cycles``, ``scatter_penalty``, ``cpu_read`` and
``sparse_row_update`` price what is done with them; ``pack``, ``unpack`` and ``tile_product`` do it with real numbers.
"""

from archsim.devices.npu.layouts.costs import (
    NUMBERS,
    Conversion,
    CpuAccess,
    Update,
    conversion_cycles,
    cpu_read,
    scatter_penalty,
    sparse_row_update,
)
from archsim.devices.npu.layouts.formats import LAYOUTS, Layout, Place, element, find, locate, locate_scale
from archsim.devices.npu.layouts.packing import dequantise, pack, quantise, tile_product, unpack
from archsim.devices.npu.layouts.regions import Region, Runs, runs, whole

__all__ = [
    "LAYOUTS",
    "NUMBERS",
    "Conversion",
    "CpuAccess",
    "Layout",
    "Place",
    "Region",
    "Runs",
    "Update",
    "conversion_cycles",
    "cpu_read",
    "dequantise",
    "element",
    "find",
    "locate",
    "locate_scale",
    "pack",
    "quantise",
    "runs",
    "scatter_penalty",
    "sparse_row_update",
    "tile_product",
    "unpack",
    "whole",
]
