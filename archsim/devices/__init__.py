"""Devices: one file or folder per part of a machine; each registers itself by name."""
