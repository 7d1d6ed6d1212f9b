"""Graph of the operators of a pass: what runs after what.

A class of its own, as a run needs little of a graph and importing networkx takes a good part of a short run's time;
:meth:`OpGraph.networkx` gives the same graph to whoever wants to analyse one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from archsim.device import DType, OpKind

if TYPE_CHECKING:
    import networkx as nx


class Form(NamedTuple):
    """A column value, linear in the quantities of a pass: ``one + rows m + projected p + kv kv + pairs pairs``."""

    one: int = 0
    rows: int = 0
    projected: int = 0
    kv: int = 0
    pairs: int = 0


class Operator(NamedTuple):
    """One operator of a graph.

    `layer` is -1 outside the layers; `tensor_class` is a class of weights, ``norm``, ``bias`` or ``none``;
    `columns` holds the :class:`~archsim.device.Ops` columns that are not zero, as forms.
    """

    name: str
    kind: OpKind
    tensor_class: str
    dtype: DType
    layer: int
    columns: tuple[tuple[str, Form], ...]


class OpGraph:
    """Operators by name, and edges between them; the order of operators is an execution order.

    Iteration, ``in`` and ``len`` go over the names.

    Attributes
    ----------
    phase, digest, causal
        Phase of the pass; digest of the model and whether its attention is causal.
    operators : dict
        :class:`Operator` by name.
    inputs : tuple of str
        Operators that read the input of a part (a layer, a tail).
    output : str
        Operator that gives its output.
    compiled : object
        The operators' columns as one array, once :func:`archsim.workload.ops.compile_graph` has made it.
    """

    def __init__(self, phase: str, digest: str, causal: bool) -> None:
        self.phase, self.digest, self.causal = phase, digest, causal
        self.inputs: tuple[str, ...] = ()
        self.output = ""
        self.operators: dict[str, Operator] = {}
        self.compiled: Any = None
        self._after: dict[str, dict[str, None]] = {}
        self._before: dict[str, dict[str, None]] = {}
        self._frozen = False

    def __iter__(self) -> Iterator[str]:
        return iter(self.operators)

    def __contains__(self, name: object) -> bool:
        return name in self.operators

    def __len__(self) -> int:
        return len(self.operators)

    def add(self, operator: Operator, after: Iterable[str] = ()) -> None:
        """Add an operator that runs after those named.

        Raises
        ------
        ValueError
            When the graph is frozen, or has an operator of that name.
        """
        if self._frozen:
            raise ValueError("a frozen graph cannot be changed")
        if operator.name in self.operators:
            raise ValueError(f"two operators named {operator.name!r}")
        self.operators[operator.name] = operator
        self._after[operator.name], self._before[operator.name] = {}, {}
        self.join((name, operator.name) for name in after)

    def join(self, edges: Iterable[tuple[str, str]]) -> None:
        """Let the second operator of each pair run after the first.

        Raises
        ------
        ValueError
            When the graph is frozen.
        KeyError
            For an operator that is not in the graph.
        """
        if self._frozen:
            raise ValueError("a frozen graph cannot be changed")
        for first, second in edges:
            self._after[first][second] = None
            self._before[second][first] = None

    def freeze(self) -> OpGraph:
        """Allow no more changes; returns the graph."""
        self._frozen = True
        return self

    @property
    def edges(self) -> list[tuple[str, str]]:
        """Edges by their first operator, in the order in which they were added."""
        return [(first, second) for first, seconds in self._after.items() for second in seconds]

    def predecessors(self, name: str) -> tuple[str, ...]:
        """Operators right before one."""
        return tuple(self._before[name])

    def successors(self, name: str) -> tuple[str, ...]:
        """Operators right after one."""
        return tuple(self._after[name])

    def networkx(self) -> nx.DiGraph:
        """The graph as a frozen ``networkx.DiGraph``.

        Nodes carry ``operator``, ``kind``, ``tensor_class``, ``dtype`` and ``layer``; ``graph`` holds ``phase``,
        ``digest``, ``causal``, ``inputs`` and ``output``.
        """
        import networkx as nx

        facts = ("phase", "digest", "causal", "inputs", "output")
        graph = nx.DiGraph(**{name: getattr(self, name) for name in facts})
        for name, operator in self.operators.items():
            data = {key: getattr(operator, key) for key in ("kind", "tensor_class", "dtype", "layer")}
            graph.add_node(name, operator=operator, **data)
        graph.add_edges_from(self.edges)
        return nx.freeze(graph)
