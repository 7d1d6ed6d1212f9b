"""From a walk to rows: the chain of rows that takes as long as the walk at any share of DRAM.

A walk in which bytes flow at a rate r lasts T(x), x = full rate / r; it is a path through maxima and sums of stage
times, so T is convex and piecewise linear, and its last slope is the time of all bytes. A chain of rows with bytes
B_j and caps r / x_j lasts ``sum B_j max(x, x_j)`` plus time rows: any such T is one. The walk runs at 1, 3/4, 1/2 and
1/4 of the rate, the slopes between these points are the B_j, and what is left flows so that the duration alone is
exact.
"""

from __future__ import annotations

from archsim.jit import callee

#: Rows of one operator: at most four that stream, one of time, one of side traffic.
PHASES = 6
#: Shares of the rate at which a walk runs, as (numerator, denominator).
SHARES = ((1, 1), (3, 4), (1, 2), (1, 4))
#: A phase below this part of all bytes joins the next.
LEAST = 256


@callee
def part_of(amount, total):
    """``amount / total`` in 2**-20, rounded down and at most 1."""
    if total < 1 << 42:
        return (amount << 20) // total
    return min(amount // (total >> 20), 1 << 20)


@callee
def scaled(count, part):
    """``count * part / 2**20`` rounded down, for counts up to 2**62."""
    return (count >> 20) * part + ((count & ((1 << 20) - 1)) * part >> 20)


@callee
def is_roofline(base_ps, t1, t43, t2, t4):
    """Whether the longer of one duration and the time of all bytes gives all four durations, to a thousandth."""
    third, half, quarter = max(t1, base_ps * 4 // 3), max(t1, base_ps * 2), max(t1, base_ps * 4)
    return 1000 * abs(third - t43) <= t43 and 1000 * abs(half - t2) <= t2 and 1000 * abs(quarter - t4) <= t4


@callee
def segments(total_bytes, base_ps, t1, t43, t2, t4, phase_bytes, phase_ps):
    """Fill the phases of a walk; returns how many.

    Parameters
    ----------
    total_bytes, base_ps : int
        Bytes that flow, and their time at the full rate.
    t1, t43, t2, t4 : int
        Duration (ps) at 1, 3/4, 1/2 and 1/4 of the rate.
    phase_bytes, phase_ps : int64[PHASES]
        Out: bytes of each phase and its duration alone; durations add up to `t1`.
    """
    if total_bytes == 0 or is_roofline(base_ps, t1, t43, t2, t4):
        phase_bytes[0], phase_ps[0] = total_bytes, t1
        return 1
    s1 = min(max(3 * (t43 - t1), 0), base_ps)
    s2 = min(max(3 * (t2 - t43) // 2, s1), base_ps)
    s3 = min(max((t4 - t2) // 2, s2), base_ps)
    # slope and duration of the pieces: at x = 1, 4/3, 2, and the rest
    steps = (s1, s2 - s1, s3 - s2)
    count, spent, moved, carried = 0, 0, 0, 0
    for j in range(3):
        slope = steps[j] + carried
        duration = slope if j == 0 else slope * 4 // 3 if j == 1 else slope * 2
        if slope < max(base_ps // LEAST, 1) or spent + duration > t1:
            carried = slope
            continue
        nbytes = min(scaled(total_bytes, part_of(slope, base_ps)), total_bytes - moved)
        if nbytes <= 0:
            carried = slope
            continue
        phase_bytes[count], phase_ps[count] = nbytes, duration
        count, spent, moved, carried = count + 1, spent + duration, moved + nbytes, 0
    rest_bytes, rest_ps = total_bytes - moved, t1 - spent
    if rest_bytes * LEAST < total_bytes and count > 0:
        phase_bytes[count - 1] += rest_bytes
        if rest_ps * 1000 < t1:
            phase_ps[count - 1] += rest_ps
            return count
        rest_bytes = 0
    phase_bytes[count], phase_ps[count] = rest_bytes, rest_ps
    return count + 1


@callee
def spread(phases, phase_bytes, phase_ps, parts, out_bytes, out_ps, out_share, first):
    """Cut the phases of one operator into `parts` and write them from row `first`, part by part.

    ``out_share`` receives the cumulated duration in 2**-20 of the operator, by which counts are shared out.
    """
    total = 0
    for p in range(phases):
        total += phase_ps[p]
    row, done, total = first, 0, max(total, 1)
    for part in range(parts):
        for p in range(phases):
            out_bytes[row] = phase_bytes[p] * (part + 1) // parts - phase_bytes[p] * part // parts
            out_ps[row] = phase_ps[p] * (part + 1) // parts - phase_ps[p] * part // parts
            done += out_ps[row]
            out_share[row] = part_of(done, total)
            row += 1
    out_share[row - 1] = 1 << 20
    return row


@callee
def share_counts(counts, i, before, after, out, row):
    """Counts of operator i that fall between two cumulated shares (2**-20)."""
    for a in range(counts.shape[1]):
        count = counts[i, a]
        out[row, a] = scaled(count, after) - scaled(count, before)
