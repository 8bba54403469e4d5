"""Jobs: one per client at a time, and only the newest request of each client is answered."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class Stale(Exception):
    """A newer request of the same client has come, or the client has left: nobody waits for this answer."""


class TooLong(Exception):
    """The work has taken longer than a request may."""


class Busy(Exception):
    """Too many clients ask at once."""


class MustCompile(Exception):
    """The work needs a program that is not compiled yet, and this is not a thread for that."""


class Job:
    """A request at work: whether it is still wanted, since when it runs, and whether it may compile."""

    def __init__(self, seconds: float, *, may_compile: bool = False):
        self.seconds, self.may_compile = seconds, may_compile
        self.is_stale = False
        self.began = time.monotonic()
        self.turn: asyncio.Future[None] | None = None  # while it waits

    def begin(self) -> None:
        """Count from now: the work begins, or a compilation, which counts for nothing, has ended."""
        self.began = time.monotonic()

    def check(self) -> None:
        """Raise if the work should end; called from the thread that does it, now and then."""
        if self.is_stale:
            raise Stale
        if time.monotonic() - self.began > self.seconds:
            raise TooLong

    def will_compile(self) -> None:
        """Raise if this thread is for work that needs no compilation."""
        if not self.may_compile:
            raise MustCompile


Work = Callable[[Job], Any]


class Jobs:
    """Answers requests in a few threads.

    A client has at most one job at work and one waiting; a newer one replaces the waiting one at once, and
    ends the one at work. So a slider that moves faster than the answers piles nothing up, and one client
    holds at most one thread. Work that must compile first, which nothing can end, has threads of its own,
    so that it delays nobody else.

    Args:
        threads: How many jobs run at once.
        compiling_threads: How many that must compile first.
        clients: How many clients may ask at once.
        seconds: How long a job may take, measured where it can be ended.
    """

    def __init__(
        self, threads: int = 4, compiling_threads: int = 2, clients: int = 32, seconds: float = 20.0
    ):
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="engram-explorer")
        self._compilers = ThreadPoolExecutor(
            compiling_threads, thread_name_prefix="engram-compiler"
        )
        self._at_work: dict[str, Job] = {}
        self._waiting: dict[str, Job] = {}
        self._most, self._seconds = clients, seconds

    async def answer(self, client: str, work: Work) -> Any:
        """Do `work(job)` when it is the client's turn, unless a newer request comes first."""
        job, loop = Job(self._seconds), asyncio.get_running_loop()
        if client in self._at_work:
            self._at_work[client].is_stale = True
            self._drop_waiting(client)
            job.turn = loop.create_future()
            self._waiting[client] = job
        elif len(self._at_work) >= self._most:
            raise Busy
        else:
            self._at_work[client] = job
        try:
            if job.turn is not None:
                await job.turn
            try:
                return await loop.run_in_executor(self._pool, self._do, job, work)
            except MustCompile:
                job.may_compile = True
                return await loop.run_in_executor(self._compilers, self._do, job, work)
        finally:
            job.is_stale = True  # its thread, if it still works, ends at its next check
            if self._waiting.get(client) is job:
                del self._waiting[client]
            if self._at_work.get(client) is job:
                self._hand_on(client)

    def _drop_waiting(self, client: str) -> None:
        older = self._waiting.pop(client, None)
        if older is not None and older.turn is not None and not older.turn.done():
            older.turn.set_exception(Stale())

    def _hand_on(self, client: str) -> None:
        """The client's place goes to its waiting request, if there is one."""
        del self._at_work[client]
        following = self._waiting.pop(client, None)
        if following is not None and following.turn is not None and not following.turn.done():
            self._at_work[client] = following
            following.turn.set_result(None)

    @staticmethod
    def _do(job: Job, work: Work) -> Any:
        if job.is_stale:
            raise Stale
        job.begin()
        return work(job)

    def close(self) -> None:
        """End what is at work, as soon as it checks, and start nothing more."""
        for job in [*self._at_work.values(), *self._waiting.values()]:
            job.is_stale = True
        for pool in (self._pool, self._compilers):
            pool.shutdown(wait=False, cancel_futures=True)
