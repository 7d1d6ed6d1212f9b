"""Where points run: this process, worker processes, or a dask cluster, all behind ``concurrent.futures``."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from archsim.units import InputError

MOST_WORKERS = 4096


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
            pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_end_with_parent)
            try:
                yield pool, workers
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


def _end_with_parent() -> None:
    """End this process once the one that started it is gone: killed, it can tell nobody that there is no more work."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


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


@contextmanager
def _dask(workers: int, address: str) -> Iterator[tuple[Executor, int]]:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError("--dask needs the package 'distributed'; install archsim[cluster]") from None
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
    calls: Sequence[tuple[Callable[..., dict[str, Any]], tuple[Any, ...]]],
    store: Any,
    title: str,
    *,
    workers: int,
    dask: str | None = None,
    check: Callable[[Mapping[str, Any]], None] = lambda result: None,
    progress: Any = None,
) -> int:
    """Make every call whose key has no result in the store, and keep what it returns; returns how many were made.

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
        check(result)
        store.add(keys[i], result)

    try:
        # The first call is made here: it compiles what the workers then load from the cache.
        function, arguments = calls[todo[0]]
        keep(todo[0], function(*arguments))
        finished += 1
        waiting = iter(todo[1:])
        with executor(min(workers, max(len(todo) - 1, 1)), dask) as (pool, at_once):
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
                finished += len(done)
                if progress is not None:
                    progress.update(finished, len(keys))
    except BrokenProcessPool:
        where = f"{store.folder}: " if store.folder else ""
        raise InputError(f"{where}a worker process died (out of memory?); run again to go on, with fewer -j") from None
    finally:
        if progress is not None:
            progress.stop()
    return len(todo)
