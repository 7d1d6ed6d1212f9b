"""Where points run: this process, worker processes, or a dask cluster, all behind ``concurrent.futures``."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from archsim.units import InputError


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
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
        try:
            yield pool, workers
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


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
