"""Vector threads of the NPU: context cycles of operators on HVX.

Context cycles are cycles of one HVX context (a 128-byte vector unit), in thousandths; an operator spread over c
contexts takes the c-th part of the time.

* A quantised weight vector is 128 weights. One row costs ``gemv`` cycles per vector (unpack and multiply in registers).
  Several rows cost ``unpack`` once per pass of at most ``pass_rows`` rows, staged through VTCM, plus ``mac`` per row.
  Every vector that a batch takes from VTCM passes its ports, which all contexts share: more contexts do not help
  a kernel that waits there.
* A batch holds its activations as INT8 blocks with a scale in one area on chip. What does not fit there is fetched
  again for every group of weight rows that the contexts work on.
* Float weights and attention run at the FP16 rate measured for one thread (32.93 GFLOP/s, EuroSys'26).
* Softmax, norms, rotations and element-wise operators cost cycles per vector of 64 FP16 elements.
"""

from __future__ import annotations

from archsim.jit import callee

WEIGHTS_PER_VECTOR = 128
ELEMENTS_PER_VECTOR = 64


@callee
def weight_vectors(k, n):
    """Vectors of 128 weights along k for n outputs; a rest counts as a whole vector."""
    return -(-k // WEIGHTS_PER_VECTOR) * n


@callee
def vector_gemv(m, k, n, one_row):
    """Context cycles (thousandths) of m separate rows at `one_row` per weight vector."""
    return weight_vectors(k, n) * one_row * m


@callee
def vector_batch(m, k, n, pass_rows, unpack, mac):
    """Context cycles (thousandths) of m rows in passes: every pass unpacks each weight once."""
    passes = -(-m // pass_rows)
    return weight_vectors(k, n) * (passes * unpack + m * mac)


#: Vectors through VTCM's ports per unpacked weight vector: packed in, unpacked out (two of FP16 or one of INT8), back.
STAGED_VECTORS = 3


@callee
def batch_port(m, k, n, pass_rows, ports):
    """Cycles (thousandths) that the ports of VTCM need for a batch; `ports` in thousandths of a vector per cycle."""
    passes = -(-m // pass_rows)
    return -(-weight_vectors(k, n) * (m + STAGED_VECTORS * passes) * 1_000_000 // ports)


#: Vectors through VTCM's ports per weight vector of one row: packed in, back, and the activations.
ROW_VECTORS = 3


@callee
def gemv_port(m, k, n, ports):
    """Cycles (thousandths) that the ports of VTCM need for m separate rows."""
    return -(-weight_vectors(k, n) * m * ROW_VECTORS * 1_000_000 // ports)


@callee
def spilled_bytes(m, k, n, area_bytes, group):
    """Bytes of quantised activations fetched again: all of them once per `group` of weight rows when they overflow.

    The rows are used in a cycle, so an area replaced by age holds none of them when they exceed it.
    """
    held = m * -(-k // 32) * 34
    return 0 if held <= area_bytes else held * -(-n // group)


@callee
def vector_attention(macs, pairs, fp16_mac, softmax):
    """Context cycles (thousandths) of attention: `macs` at the FP16 rate, `pairs` scores through softmax."""
    return -(-macs // WEIGHTS_PER_VECTOR) * fp16_mac + -(-pairs // ELEMENTS_PER_VECTOR) * softmax


@callee
def vector_elements(count, per_vector):
    """Context cycles (thousandths) of `count` elements at `per_vector` per 64."""
    return -(-count // ELEMENTS_PER_VECTOR) * per_vector
