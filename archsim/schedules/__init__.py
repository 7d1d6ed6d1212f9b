"""Decoding schedules: one file (or folder) per system; each emits blocks and waits."""
