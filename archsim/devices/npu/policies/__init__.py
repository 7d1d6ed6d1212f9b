"""Kernel policies: how the NPU runs an operator, one module each.

``gemv``
    Rows one by one. Weights by DMA, unpacked and multiplied by HVX in registers (:mod:`.vector`).
``ggml_hvx``
    Rows in passes of at most ``pass_rows`` on HVX: each pass streams and unpacks every weight once (:mod:`.vector`).
``ggml_hmx``
    HVX below ``hmx_rows``, HMX from there on: synchronous up to ``pipeline_rows``, above in four overlapped stages
    DMA, dequantise, multiply, store; chunks by a search under the VTCM budget (:mod:`.chunks`, :mod:`.flash`).
``static_graph``
    Fixed shapes, no call, activations resident, scales per tensor: tile walk (:mod:`.graph`).
``sequential``
    One stage after the other, but the next DMA beside the dequantisation; weights again per row chunk (:mod:`.areas`).
``table``
    The user's measurements, interpolated (:mod:`.measured`).
"""
