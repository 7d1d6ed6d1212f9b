"""Failures of a simulation. Every one is a :class:`SimError` whose ``str()`` is one line."""


class SimError(Exception):
    """The simulation cannot go on; the message says what, where and what to do."""

    exit_code = 3


class DeadlockError(SimError):
    """Nothing will ever happen, and processes or rows still wait."""


class ZeroTimeLoopError(SimError):
    """Too many rounds, or returns to one process, at one instant."""


class StoreRangeError(SimError):
    """A store would leave ``[0, capacity]``."""


class WorkRangeError(SimError):
    """A row carries negative work or more than 32 GiB."""


class RowRangeError(SimError):
    """A column of a block is out of range."""


class BlockShapeError(SimError):
    """A block's columns, edges or join row are malformed."""


class RateRangeError(SimError):
    """A rate fraction or the pool capacity it gives is out of range."""


class ShareRangeError(SimError):
    """Too many or too heavy rows flow through one pool at once."""


class TimeRangeError(SimError):
    """A time lies outside the range of the clock, or in the past."""


class NameLookupError(SimError):
    """A unit, pool, store or signal name is unknown or used twice."""


class ScriptError(SimError):
    """A script does not fit the run it is played in."""
