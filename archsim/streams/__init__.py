"""Decision streams: what a draft proposes and what its target takes, recorded or generated, behind one interface.

:func:`open_stream` turns a text (``recorded:exit_layers:25``, ``synthetic:llama-3.1-8b:mbpp``, a path) into a
:class:`DecisionStream`; :func:`label` says in a report where its decisions come from. Draws are counter-based, so
schedules compared on one seed meet the same tokens whatever order they ask in.
"""

from archsim.streams.interface import UNBOUNDED, Candidates, DecisionStream, Position, StreamEndError, TreeStep
from archsim.streams.opening import label, open_stream, recorded_names

__all__ = [
    "UNBOUNDED",
    "Candidates",
    "DecisionStream",
    "Position",
    "StreamEndError",
    "TreeStep",
    "label",
    "open_stream",
    "recorded_names",
]
