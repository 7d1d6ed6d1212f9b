"""Asynchronous drafting on PIM with verification on the NPU, its controls and its baselines."""
