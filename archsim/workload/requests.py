"""The requests of a job: when they arrive, how long they are, and which turn of a conversation they are.

One server, first come first served, as on a phone. ``job.arrivals``: ``closed`` (the next request arrives when the one
before has ended), ``fixed`` (every ``arrival_period_ps``, the first at 0), ``poisson`` (exponential gaps of mean
``1 / arrival_rate_hz``, drawn by the number of the request), or a list of arrival times with prompt and output lengths.

With ``job.turns`` above 1 every prompt is a conversation of so many requests: the context of a turn is all prompts and
answers before it. With ``job.prefix_reuse`` the keys and values of that history stay in the cache, all but those of
the last token of the answer, which no pass has computed: the prefill of a turn brings that row and the new prompt, and
attends to the rest. Without, every turn prefills its whole context.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, NamedTuple

from archsim.config import InputError, JobSpec
from archsim.units import PS_PER_S

if TYPE_CHECKING:
    from archsim.streams.draws import Draws
    from archsim.streams.interface import DecisionStream


#: In the depth word of a draw: arrivals, apart from all draws of tokens.
_ARRIVALS = 1 << 40


class Request(NamedTuple):
    """One request.

    Attributes
    ----------
    arrival_ps : int or None
        When it arrives; None: when the one before has ended.
    prompt : int
        Rows of its context before the first output token, earlier turns included.
    kept : int
        Leading rows of the context whose keys and values are cached when it begins.
    tokens : int
        Output tokens it asks for.
    limit : int
        Output tokens it gets: fewer where a recording ends.
    """

    arrival_ps: int | None
    prompt: int
    kept: int
    tokens: int
    limit: int


def requests_of(spec: JobSpec, stream: DecisionStream) -> tuple[Request, ...]:
    """Requests of a job in order.

    Raises
    ------
    InputError
        When the stream has fewer.
    """
    count = spec.requests
    if count > stream.requests:
        asked = "job.arrivals" if spec.listed else "job.prompts" if spec.turns == 1 else "job.prompts or job.turns"
        raise InputError(
            f"stream {stream.name} has {stream.requests} requests, the job asks for {count} prompts; lower {asked}"
        )
    times = _times(spec, stream.draws)
    found, history, cached = [], 0, 0
    for number in range(count):
        if number % spec.turns == 0:
            history = cached = 0
        own = spec.prompt_tokens or stream.prompt_tokens(number)
        tokens = spec.tokens
        if spec.listed:
            _, own, tokens = spec.listed[number]
        elif number % spec.turns and spec.turn_tokens:
            own = spec.turn_tokens
        prompt, limit = history + own, min(tokens, stream.length(number))
        found.append(Request(times[number], prompt, cached if spec.prefix_reuse else 0, tokens, limit))
        history = prompt + limit
        cached = history - 1
    return tuple(found)


def _times(spec: JobSpec, draws: Draws) -> list[int | None]:
    """Arrival of each request, ps."""
    count = spec.requests
    if spec.listed:
        return [round(arrival * PS_PER_S) for arrival, _, _ in spec.listed]
    if spec.arrivals == "fixed":
        return [number * spec.arrival_period_ps for number in range(count)]
    if spec.arrivals == "poisson":
        # A draw belongs to the number of the request: a longer run begins with the arrivals of a shorter one.
        now, times = 0.0, []
        for number in range(count):
            now -= log(draws.uniforms(number, 0, _ARRIVALS)[0, 0]) / spec.arrival_rate_hz
            times.append(round(now * PS_PER_S))
        return times
    return [None] * count
