"""Where points run: this process, worker processes, or a dask cluster, all behind ``concurrent.futures``."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Any

from archsim.sharing import begin, sharing
from archsim.units import InputError

MOST_WORKERS = 4096
NO_DASK = "--dask needs the package 'distributed'; install it with 'pip install distributed'"
#: Start of a worker process; less work than this is not worth one.
START_S = 1.0
#: Of ``prctl`` (2): the signal that a process gets when its parent ends.
_PR_SET_PDEATHSIG = 1
#: New objects between two rounds of garbage collection in a worker.
_GARBAGE = 50_000

Call = tuple[Callable[..., dict[str, Any]], tuple[Any, ...]]


def check_workers(workers: int) -> None:
    """Refuse a number of processes that cannot work."""
    if not 1 <= workers <= MOST_WORKERS:
        raise InputError(f"-j {workers}: 1 to {MOST_WORKERS} processes can work")


#: What tells libraries how many threads to start.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "ARROW_NUM_THREADS")


class Inline(Executor):
    """Runs what is submitted at once, in this process."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call `fn` and return a finished future."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def executor(workers: int, dask: str | None) -> Iterator[tuple[Executor, int]]:
    """An executor, and how many calls it works on at once.

    Parameters
    ----------
    workers : int
        Processes of this machine; 1 runs in this process.
    dask : str, optional
        Address of a dask scheduler, or ``local`` for a cluster of `workers` processes on this machine.

    Raises
    ------
    InputError
        When dask is missing or its scheduler does not answer.
    """
    if dask is not None:
        with _dask(workers, dask) as made:
            yield made
    elif workers == 1:
        yield Inline(), 1
    else:
        with _one_thread():
            others = multiprocessing.active_children()
            pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_begin)
            try:
                yield pool, workers
            except BaseException:
                # what they work on is lost either way, and one that never hears that it may end would hold up the exit
                for child in multiprocessing.active_children():
                    if child not in others:
                        child.kill()
                raise
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


def _begin() -> None:
    """Make a new worker ready; it ends once the process that started it is gone, which cannot tell it when killed."""
    gc.set_threshold(_GARBAGE)
    begin()
    _end_with_parent()
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _end_with_parent() -> None:
    """Have the system kill this process with its parent, where it can: even a thread that waits takes its time."""
    if sys.platform == "linux":
        prctl = getattr(ctypes.CDLL(None), "prctl", None)
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _awake() -> None:
    """Import in a worker what its calls need."""
    import archsim.report.summary
    import archsim.session  # noqa: F401


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let processes that start now use one thread each: there is one for each core already."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def check_dask(address: str | None) -> None:
    """Refuse a dask cluster, before anything is written, where there is no dask."""
    if address is not None and find_spec("distributed") is None:
        raise InputError(NO_DASK)


@contextmanager
def _dask(workers: int, address: str) -> Iterator[tuple[Executor, int]]:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError(NO_DASK) from None
    try:
        if address == "local":
            where: Any = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50)
        else:
            where = address
        client = Client(where, timeout=10, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"--dask {address}: cannot be reached: {' '.join(str(error).split())}") from None
    try:
        yield client.get_executor(pure=False), max(1, sum(client.ncores().values()))
    finally:
        client.close()
        if address == "local":
            where.close()


def drain(
    keys: Sequence[str],
    calls: Sequence[Call],
    store: Any,
    title: str,
    *,
    workers: int,
    dask: str | None = None,
    check: Callable[[Mapping[str, Any]], None] = lambda result: None,
    progress: Any = None,
) -> int:
    """Make every call whose key has no result in the store, and keep what it returns; returns how many were made.

    The first call is made in this process: it compiles what workers then load from the cache. So are the next ones,
    until a worker is awake; and all of them, where a worker would take longer to wake than they do. Calls of one
    process share what they have in common (:mod:`archsim.sharing`), those of a dask cluster nothing.

    Parameters
    ----------
    keys, calls : sequences of equal length
        Keys, and functions of a module with their arguments.
    store : Store or Memory
        Where results are kept.
    title : str
        What progress is called.
    workers, dask
        See :func:`executor`.
    check : callable
        Sees every new result and raises to stop.
    progress : object, optional
        Receives ``start``, ``update`` and ``stop``.

    Raises
    ------
    InputError
        When a worker process dies.
    """
    todo = [i for i, key in enumerate(keys) if key not in store.done]
    if not todo:
        return 0
    if progress is not None:
        progress.start(title)
    finished = len(keys) - len(todo)

    def keep(i: int, result: dict[str, Any]) -> None:
        nonlocal finished
        check(result)
        store.add(keys[i], result)
        finished += 1
        if progress is not None:
            progress.update(finished, len(keys))

    def here(i: int) -> None:
        function, arguments = calls[i]
        keep(i, function(*arguments))

    try:
        with sharing(), ExitStack() as stack:
            waiting = iter(todo)
            if dask is not None:  # a cluster that does not answer is an error before anything is kept
                pool, at_once = stack.enter_context(executor(min(workers, len(todo)), dask))
            began = time.monotonic()
            here(next(waiting))
            if dask is None:
                rest = len(todo) - 1
                few = (time.monotonic() - began) * rest < START_S
                pool, at_once = stack.enter_context(executor(1 if few else min(workers, rest), None))
            if not isinstance(pool, Inline):
                _until_awake([pool.submit(_awake) for _ in range(at_once)], waiting, here)
            _spread(waiting, calls, keep, pool, at_once)
    except BrokenProcessPool:
        where = f"{store.folder}: " if store.folder else ""
        raise InputError(f"{where}a worker process died (out of memory?); run again to go on, with fewer -j") from None
    finally:
        if progress is not None:
            progress.stop()
    return len(todo)


def _until_awake(awake: Sequence[Future[None]], waiting: Iterator[int], here: Callable[[int], None]) -> None:
    """Make calls here until one of the workers can."""
    while not any(future.done() for future in awake) and (i := next(waiting, None)) is not None:
        here(i)


def _spread(
    waiting: Iterator[int],
    calls: Sequence[Call],
    keep: Callable[[int, dict[str, Any]], None],
    pool: Executor,
    at_once: int,
) -> None:
    """Make the calls `waiting` on a pool that works on `at_once` of them; each worker has the next one beside it."""
    running: dict[Future[Any], int] = {}
    while True:
        for i in waiting:
            function, arguments = calls[i]
            running[pool.submit(function, *arguments)] = i
            if len(running) >= 2 * at_once:
                break
        if not running:
            break
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            keep(running.pop(future), future.result())
