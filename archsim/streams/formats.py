"""The recorded formats, validated and turned into columns.

===========  ======  ==========================================================================================
format       file    one line / row is
===========  ======  ==========================================================================================
exit         .npz    one output token with the candidates of early-exit drafts, teacher-forced on the target's text
tree         .jsonl  one verification of a token tree: ``id kind step pos root tok par dep q cum pent p tent acc bonus``
ngram        .jsonl  one prompt look-up and its outcome: ``id kind pos ngram draft acc``
jacobi       .jsonl  one fixed-point iteration over a block: ``id kind blk it tok conf chg fixed``
denoise      .jsonl  one step of masked diffusion over a block: ``kind seq mode blk step masked conf ent arg commit``
===========  ======  ==========================================================================================

Requests are numbered by first appearance. Rows of a request stand together; in all formats a request that
reappears later is refused, since its steps would have no order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from archsim.config import InputError
from archsim.streams.files import Record

MAX_NODES = 4096  # of one recorded tree
MAX_BLOCK = 4096  # positions of one denoising or Jacobi block
MAX_ENTROPY = 20.0  # nats; a vocabulary of 4.8e8 tokens
TREE_KEYS = ("id", "kind", "step", "pos", "root", "tok", "par", "dep", "q", "cum", "pent", "p", "tent", "acc", "bonus")
NGRAM_KEYS = ("id", "kind", "pos", "ngram", "draft", "acc")
JACOBI_KEYS = ("id", "kind", "blk", "it", "tok", "conf", "chg", "fixed")
DENOISE_KEYS = ("kind", "seq", "mode", "blk", "step", "masked", "conf", "ent", "arg", "commit")
CUMULATIVE_TOLERANCE = 2e-3  # files carry four decimals


class TreeRecords(NamedTuple):
    """Token trees: request r has steps ``first[r]:first[r+1]``, step s has nodes ``start[s]:start[s+1]``.

    Node columns have one entry per node, ``accepted`` one per accepted node (``acc_start`` delimits steps).
    """

    ids: tuple[str, ...]
    kinds: tuple[str, ...]
    first: np.ndarray
    pos: np.ndarray
    bonus: np.ndarray
    start: np.ndarray
    token: np.ndarray
    parent: np.ndarray
    depth: np.ndarray
    prob: np.ndarray
    cumulative: np.ndarray
    draft_entropy: np.ndarray
    target_prob: np.ndarray
    target_entropy: np.ndarray
    acc_start: np.ndarray
    accepted: np.ndarray


class NgramRecords(NamedTuple):
    """Prompt look-ups: request r has steps ``first[r]:first[r+1]``; columns have one entry per step."""

    ids: tuple[str, ...]
    kinds: tuple[str, ...]
    first: np.ndarray
    pos: np.ndarray
    matched: np.ndarray
    drafted: np.ndarray
    accepted: np.ndarray


class JacobiRecords(NamedTuple):
    """Fixed-point iterations: ``token``, ``confidence``, ``changed`` are [n, block], ``fixed`` the verified prefix."""

    ids: tuple[str, ...]
    kinds: tuple[str, ...]
    request: np.ndarray
    block: np.ndarray
    iteration: np.ndarray
    token: np.ndarray
    confidence: np.ndarray
    changed: np.ndarray
    fixed: np.ndarray


class DenoiseRecords(NamedTuple):
    """Denoising steps: ``masked`` (before the step) and the columns after it are [n, block]."""

    ids: tuple[str, ...]
    kinds: tuple[str, ...]
    mode: str
    request: np.ndarray
    block: np.ndarray
    step: np.ndarray
    masked: np.ndarray
    confidence: np.ndarray
    entropy: np.ndarray
    argmax: np.ndarray
    commit: np.ndarray


def jsonl_format(records: list[Record]) -> str:
    """Which format a JSON-lines file has, by the keys of its first line."""
    keys = set(records[0].values)
    for name, marker in (("tree", "par"), ("ngram", "ngram"), ("jacobi", "it"), ("denoise", "masked")):
        if marker in keys:
            return name
    raise records[0].error(
        "not a known recording: a line has 'par' (tree), 'ngram' (look-up), 'it' (Jacobi) or 'masked' (denoising)"
    )


class _Requests:
    """Numbers requests by first appearance and refuses one that comes back after another began."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.kinds: list[str] = []
        self._seen: set[str] = set()

    def number(self, record: Record, name: str, kind: str) -> tuple[int, bool]:
        """(request, whether this is its first line)."""
        if self.ids and self.ids[-1] == name:
            if kind != self.kinds[-1]:
                raise record.error(f"request {name!r} changes its kind from {self.kinds[-1]!r} to {kind!r}")
            return len(self.ids) - 1, False
        if name in self._seen:
            raise record.error(f"request {name!r} appears again after another one; lines of a request stand together")
        self._seen.add(name)
        self.ids.append(name)
        self.kinds.append(kind)
        return len(self.ids) - 1, True


def load_trees(records: list[Record]) -> TreeRecords:
    """Validate and gather token trees."""
    requests = _Requests()
    first: list[int] = []
    pos: list[int] = []
    bonus: list[int] = []
    sizes: list[int] = [0]
    columns: list[list] = [[] for _ in range(8)]
    accepted: list[int] = []
    acc_sizes: list[int] = [0]
    for index, record in enumerate(records):
        record.only(TREE_KEYS)
        _, new = requests.number(record, record.text("id"), record.text("kind"))
        _check_step(record, new, records[index - 1] if index else None)
        if new:
            first.append(index)
        nodes = _tree_nodes(record)
        path = _accepted_path(record, nodes[1])
        for column, values in zip(columns, nodes):
            column.extend(values)
        pos.append(record.integer("pos"))
        bonus.append(record.integer("bonus"))
        sizes.append(len(nodes[0]))
        accepted.extend(path)
        acc_sizes.append(len(path))
    first.append(len(records))
    ints = [np.array(column, dtype=np.int64) for column in columns[:3]]
    floats = [np.array(column, dtype=np.float64) for column in columns[3:]]
    return TreeRecords(
        tuple(requests.ids),
        tuple(requests.kinds),
        np.array(first),
        np.array(pos),
        np.array(bonus),
        np.cumsum(sizes),
        *ints,
        *floats,
        np.cumsum(acc_sizes),
        np.array(accepted, dtype=np.int64),
    )


def _check_step(record: Record, new: bool, before: Record | None) -> None:
    step, pos, root = record.integer("step"), record.integer("pos"), record.integer("root")
    if new or before is None:
        if step != 0:
            raise record.error(f"step {step} opens request {record.values['id']!r}; its first step is 0")
        return
    last = before.values
    if step != last["step"] + 1:
        raise record.error(f"step {step} follows step {last['step']}; steps of a request count up by one")
    if pos != last["pos"] + len(last["acc"]) + 1:
        expected = last["pos"] + len(last["acc"]) + 1
        raise record.error(f"pos {pos} does not follow: step {last['step']} left {expected} output tokens")
    if root != last["bonus"]:
        raise record.error(f"root {root} is not the bonus token {last['bonus']} of step {last['step']}")


def _tree_nodes(record: Record) -> tuple[list, ...]:
    tok = record.integers("tok")
    n = len(tok)
    if not 0 < n <= MAX_NODES:
        raise record.error(f"key 'tok' has {n} entries; a tree has 1 to {MAX_NODES} nodes")
    par = record.integers("par", low=-1, length=n)
    dep = record.integers("dep", low=1, length=n)
    q, cum, p = (record.numbers(key, 1.0, n) for key in ("q", "cum", "p"))
    pent, tent = (record.numbers(key, MAX_ENTROPY, n) for key in ("pent", "tent"))
    last_sibling: dict[int, int] = {}
    for i, parent in enumerate(par):
        if parent >= i:
            raise record.error(f"par[{i}] is {parent}: a parent stands before its children")
        above = dep[parent] if parent >= 0 else 0
        if dep[i] != above + 1:
            raise record.error(f"dep[{i}] is {dep[i]} but its parent {parent} has depth {above}")
        product = q[i] * (cum[parent] if parent >= 0 else 1.0)
        if abs(product - cum[i]) > CUMULATIVE_TOLERANCE:
            raise record.error(f"cum[{i}] is {cum[i]} but q along its path gives {product:.4f}")
        sibling = last_sibling.get(parent)
        if sibling is not None and q[i] > q[sibling]:
            raise record.error(f"q[{i}] is {q[i]}, more than {q[sibling]} of its earlier sibling {sibling}; sort by q")
        last_sibling[parent] = i
    return tok, par, dep, q, cum, pent, p, tent


def _accepted_path(record: Record, par: list[int]) -> list[int]:
    path = record.integers("acc", high=len(par) - 1)
    parent = -1
    for index, node in enumerate(path):
        if par[node] != parent:
            raise record.error(f"acc[{index}] is node {node}, no child of {parent}; acc is a path from the root")
        parent = node
    return path


def load_ngrams(records: list[Record]) -> NgramRecords:
    """Validate and gather prompt look-ups."""
    requests = _Requests()
    first: list[int] = []
    rows: list[tuple[int, int, int, int]] = []
    expected = 0
    for index, record in enumerate(records):
        record.only(NGRAM_KEYS)
        _, new = requests.number(record, record.text("id"), record.text("kind"))
        if new:
            first.append(index)
            expected = 0
        pos = record.integer("pos")
        if pos != expected:
            raise record.error(f"pos {pos} does not follow: {expected} output tokens came before")
        drafted = len(record.integers("draft"))
        matched, accepted = record.integer("ngram"), record.integer("acc")
        if (matched == 0) != (drafted == 0):
            raise record.error(f"ngram {matched} with {drafted} drafted tokens; nothing is drafted without a match")
        if accepted > drafted:
            raise record.error(f"acc {accepted} is more than the {drafted} drafted tokens")
        rows.append((pos, matched, drafted, accepted))
        expected = pos + accepted + 1
    first.append(len(records))
    columns = np.array(rows, dtype=np.int64).T
    return NgramRecords(tuple(requests.ids), tuple(requests.kinds), np.array(first), *columns)


def load_jacobi(records: list[Record]) -> JacobiRecords:
    """Validate and gather Jacobi iterations."""
    requests = _Requests()
    heads: list[tuple[int, int, int, int]] = []
    tokens: list[list[int]] = []
    confidences: list[list[float]] = []
    width = len(records[0].values.get("tok", ())) if isinstance(records[0].values.get("tok"), list) else 0
    changed = np.zeros((len(records), width), dtype=bool)
    for index, record in enumerate(records):
        record.only(JACOBI_KEYS)
        request, new = requests.number(record, record.text("id"), record.text("kind"))
        block, iteration = record.integer("blk"), record.integer("it")
        fixed = record.integer("fixed", high=width)
        if not 0 < width <= MAX_BLOCK:
            raise record.error(f"key 'tok' has {width} entries; a block has 1 to {MAX_BLOCK} positions")
        _check_iteration(record, None if new else heads[-1], block, iteration, fixed)
        tokens.append(record.integers("tok", length=width))
        confidences.append(record.numbers("conf", 1.0, width))
        changed[index, record.integers("chg", high=width - 1)] = True
        heads.append((request, block, iteration, fixed))
    head = np.array(heads, dtype=np.int64).T
    return JacobiRecords(
        tuple(requests.ids),
        tuple(requests.kinds),
        *head[:3],
        np.array(tokens, dtype=np.int64),
        np.array(confidences, dtype=np.float64),
        changed,
        head[3],
    )


def _check_iteration(record: Record, last: tuple | None, block: int, iteration: int, fixed: int) -> None:
    if last is not None and block == last[1]:
        if iteration != last[2] + 1:
            raise record.error(f"it {iteration} follows it {last[2]}; iterations of a block count up by one")
        if fixed < last[3]:
            raise record.error(f"fixed {fixed} is less than {last[3]} before; a verified prefix does not shrink")
        return
    expected = 0 if last is None else last[1] + 1
    if block != expected or iteration != 0:
        raise record.error(f"blk {block} it {iteration} does not follow: blk {expected} it 0 does")


def load_denoise(records: list[Record], mode: str) -> DenoiseRecords:
    """Validate denoising steps and gather those of `mode`."""
    modes: dict[str, None] = {}
    requests = _Requests()
    seen: set[tuple[str, str]] = set()
    head: list[tuple[int, int, int]] = []
    kept: list[Record] = []
    width = len(records[0].values["conf"]) if isinstance(records[0].values.get("conf"), list) else 0
    before: Record | None = None
    for record in records:
        record.only(DENOISE_KEYS)
        name = f"{record.text('kind')}/{record.integer('seq')}"
        key = (record.text("mode"), name)
        same = before is not None and (before.values["mode"], before.values["kind"], before.values["seq"]) == (
            key[0],
            record.values["kind"],
            record.values["seq"],
        )
        if not same and key in seen:
            raise record.error(f"request {name!r} in mode {key[0]!r} appears again; lines of a request stand together")
        seen.add(key)
        modes[key[0]] = None
        _check_denoise(record, before if same else None, width)
        before = record
        if key[0] == mode:
            request, _ = requests.number(record, name, record.values["kind"])
            head.append((request, record.values["blk"], record.values["step"]))
            kept.append(record)
    if not kept:
        raise InputError(f"{records[0].path}: no mode {mode!r}; the recording has {', '.join(map(repr, modes))}")
    return _gather_denoise(requests, mode, head, kept, width)


def _check_denoise(record: Record, before: Record | None, width: int) -> None:
    if not 0 < width <= MAX_BLOCK:
        raise record.error(f"key 'conf' has {width} entries; a block has 1 to {MAX_BLOCK} positions")
    block, step = record.integer("blk"), record.integer("step")
    masked = record.integers("masked", high=width - 1)
    commit = record.integers("commit", high=width - 1)
    record.numbers("conf", 1.0, width)
    record.numbers("ent", MAX_ENTROPY, width)
    record.integers("arg", length=width)
    if not commit or not set(commit) <= set(masked):
        raise record.error(f"commit {commit} must name one or more of the masked positions")
    if before is not None and block == before.values["blk"]:
        if step != before.values["step"] + 1:
            raise record.error(f"step {step} follows step {before.values['step']}; steps of a block count up by one")
        left = set(before.values["masked"]) - set(before.values["commit"])
        if set(masked) != left:
            raise record.error(f"{len(masked)} masked positions do not follow: the step before left {len(left)}")
        return
    expected = 0 if before is None else before.values["blk"] + 1
    if block != expected or step != 0:
        raise record.error(f"blk {block} step {step} does not follow: blk {expected} step 0 does")


def _gather_denoise(requests: _Requests, mode: str, head: list, kept: list[Record], width: int) -> DenoiseRecords:
    masked = np.zeros((len(kept), width), dtype=bool)
    commit = np.zeros((len(kept), width), dtype=bool)
    for index, record in enumerate(kept):
        masked[index, record.values["masked"]] = True
        commit[index, record.values["commit"]] = True
    columns = np.array(head, dtype=np.int64).T
    return DenoiseRecords(
        tuple(requests.ids),
        tuple(requests.kinds),
        mode,
        *columns,
        masked,
        np.array([record.values["conf"] for record in kept], dtype=np.float64),
        np.array([record.values["ent"] for record in kept], dtype=np.float64),
        np.array([record.values["arg"] for record in kept], dtype=np.int64),
        commit,
    )
