"""How a run served its requests: time to the first token, gaps between tokens, waiting in the queue.

**Inter-token time.** Tokens become visible when they are committed (the ``commit`` marks). A commit of n tokens that
comes g after the request's commit before it gives each of its n tokens the same gap g / n: the tokens of one
verification share the time since the last one, so the mean over a request is its decoding time per token whatever the
schedule, and a percentile is one over tokens. Tokens of a request's first commit have no gap (their time is that to the
first token). A reader of a stream sees a speculative schedule's tokens arrive together: the gaps between commits as
they are, one per commit, are ``commit_gap`` (what serving benchmarks that count chunks report).

Percentiles are interpolated linearly between the samples of all requests of a run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from archsim.trace import Trace
from archsim.units import PS_PER_S


def gaps(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Seconds between the commits of a request, and the tokens of the later one; all requests, in order."""
    notes = trace.notes
    mine = (notes["kind"] == "commit") & (notes["request"] >= 0) & (notes["value"] > 0)
    time, request, tokens = (notes[name][mine] for name in ("time_ps", "request", "value"))
    order = np.lexsort((time, request))
    time, request, tokens = time[order], request[order], tokens[order]
    later = np.flatnonzero(request[1:] == request[:-1]) + 1
    return (time[later] - time[later - 1]) / PS_PER_S, tokens[later]


def inter_token(trace: Trace) -> dict[str, float | None]:
    """Time between tokens, s: median and 99th percentile, one gap per token (``per_token``) and per commit."""
    between, tokens = gaps(trace)
    per_token = np.repeat(between / tokens, tokens)
    return _percentiles({"per_token": per_token, "per_step": between})


def service(trace: Trace, served: list[dict[str, Any]]) -> dict[str, float | None]:
    """Percentiles over all requests, None where there is no sample.

    Parameters
    ----------
    served : list of dict
        Requests, as :func:`archsim.report.summary.requests` gives them.

    Returns
    -------
    dict
        ``itl`` (inter-token time), ``commit_gap``, ``ttft`` (arrival to first token, waiting included), ``queue``
        (arrival to the start of service): ``_p50_s`` and ``_p99_s`` each.
    """
    between, tokens = gaps(trace)
    return _percentiles(
        {
            "itl": np.repeat(between / tokens, tokens),
            "commit_gap": between,
            "ttft": np.array([r["ttft_s"] for r in served if r["ttft_s"] is not None]),
            "queue": np.array([r["queue_s"] for r in served]),
        }
    )


def by_turn(trace: Trace, served: list[dict[str, Any]]) -> dict[str, dict[str, float | None]]:
    """Medians by turn (``1`` is the first) over the conversations of a run; empty where requests are no turns.

    Returns
    -------
    dict of dict
        ``prompt_tokens`` (whole context), ``prefilled_tokens`` (of them, those that were not cached), ``ttft_s``,
        ``latency_s``.
    """
    turns = trace.manifest["config"].get("job", {}).get("turns", 1)
    found = {}
    for turn in range(turns if turns > 1 else 0):
        mine = [request for request in served if request["request"] % turns == turn]
        rows = {
            "prompt_tokens": [r["prompt_tokens"] for r in mine],
            "prefilled_tokens": [r["prompt_tokens"] - r["cached_tokens"] for r in mine],
            **{key: [r[key] for r in mine if r[key] is not None] for key in ("ttft_s", "latency_s")},
        }
        found[str(turn + 1)] = {key: float(np.median(values)) if values else None for key, values in rows.items()}
    return found


def _percentiles(samples: dict[str, np.ndarray]) -> dict[str, float | None]:
    return {
        f"{name}_p{percent}_s": float(np.percentile(values, percent)) if len(values) else None
        for name, values in samples.items()
        for percent in (50, 99)
    }
