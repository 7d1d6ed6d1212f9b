"""llada.cpp (arXiv 2606.13740): diffusion decoding on a phone's NPU, its baselines, and autoregressive counterparts."""
