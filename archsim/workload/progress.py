"""A bound on schedules that never come to an end: so many blocks and waits without a token or an end are refused."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from archsim.engine.errors import SimError

#: Blocks and waits without progress that any schedule may have, and further ones for each token of the request's
#: context and output; decoding takes a few for each token.
FREE = 10_000
PER_TOKEN = 64


class StallError(SimError):
    """A schedule emits and waits without committing a token or ending a request."""


class Progress:
    """Blocks emitted and waits ended since a token was last committed, or a request begun or ended."""

    def __init__(self) -> None:
        self.since = 0
        self.limit = FREE
        self.where = "before the first request"

    def made(self, where: str, tokens: int) -> None:
        """Something was brought forward: count anew.

        Parameters
        ----------
        where : str
            What it was, as an error says it.
        tokens : int
            Prompt and output of the present request.
        """
        self.since, self.limit, self.where = 0, FREE + PER_TOKEN * tokens, where

    def count(self, number: int = 1) -> None:
        """Count blocks or waits.

        Raises
        ------
        StallError
            When there have been too many.
        """
        self.since += number
        if self.since > self.limit:
            raise StallError(
                f"the schedule does not get on: {self.limit:,} blocks and waits {self.where} and neither a token "
                "committed nor a request ended; commit what is decoded, and let the loop end (job.finished)"
            )

    def over(self, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """The same process, its waits counted; the error is raised where it waits."""
        outcome = None
        try:
            while True:
                try:
                    wait = steps.send(outcome)
                except StopIteration as end:
                    return end.value
                outcome = yield wait
                try:
                    self.count()
                except StallError as error:
                    steps.throw(error)
                    raise
        finally:
            steps.close()
