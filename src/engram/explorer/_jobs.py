"""Jobs: one per client at a time, and only the newest request of each client is answered."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_SHORT = 0.5  # seconds that most jobs need, or less
_PAUSE = 0.2  # that others wait for them, at a time
_QUEUE_SECONDS = 10.0  # in which a thread must be free; otherwise the client is asked to come again


class Stale(Exception):
    """A newer request of the same client has come, or the client has left: nobody waits for this answer."""


class TooLong(Exception):
    """The work has taken longer than a request may."""


class Busy(Exception):
    """Too many clients ask at once."""


class MustCompile(Exception):
    """The work needs a program that is not compiled yet, and this is not a thread for that."""


class ShortJobs:
    """The jobs at work that have not taken long yet: those that have make way for them."""

    def __init__(self) -> None:
        self._lock, self._jobs = threading.Lock(), set[Job]()
        self._are_none = threading.Event()
        self._are_none.set()

    def begin(self, job: "Job") -> None:
        with self._lock:
            self._jobs.add(job)
            self._are_none.clear()

    def end(self, job: "Job") -> None:
        with self._lock:
            self._jobs.discard(job)
            if not self._jobs:
                self._are_none.set()

    def make_way(self) -> None:
        """Wait until there are none, but not for long: whoever waits must get on as well."""
        self._are_none.wait(_PAUSE)


class Job:
    """A request at work: whether it is still wanted, since when it runs, and whether it may compile.

    Args:
        seconds: How long it may take, measured where it can be ended.
        may_compile: Whether its thread is one for that.
        short_jobs: To which it makes way once it has taken longer than most do.
    """

    def __init__(
        self, seconds: float, *, may_compile: bool = False, short_jobs: ShortJobs | None = None
    ):
        self.seconds, self.may_compile = seconds, may_compile
        self.is_stale = False
        self.began = time.monotonic()
        self.called: asyncio.Future[None] | None = (
            None  # while an older job of the client is at work
        )
        self._short_jobs = short_jobs

    def begin(self) -> None:
        """Count from now: the work begins, or a compilation, which counts for nothing, has ended."""
        self.began = time.monotonic()

    def check(self) -> None:
        """Raise if the work should end; called from the thread that does it, now and then."""
        if self.is_stale:
            raise Stale
        taken = time.monotonic() - self.began
        if taken > self.seconds:
            raise TooLong
        if taken > _SHORT and self._short_jobs is not None:
            self._short_jobs.end(self)
            self._short_jobs.make_way()
            self.began = time.monotonic() - taken

    def will_compile(self) -> None:
        """Raise if this thread is for work that needs no compilation."""
        if not self.may_compile:
            raise MustCompile


Work = Callable[[Job], Any]


class Jobs:
    """Answers requests in a few threads.

    A client has at most one job at work and one waiting; a newer one replaces the waiting one at once, and
    ends the one at work. So a slider that moves faster than the answers piles nothing up, and one client
    holds at most one thread. Most jobs take some hundredths of a second; those that take longer make way for
    them. Work that must compile first, which nothing can end, has threads of its own.

    Args:
        compiling_threads: How many jobs may compile at once; others wait, but not for ever.
        clients: How many clients may ask at once.
        seconds: How long a job may take, measured where it can be ended.
    """

    def __init__(self, compiling_threads: int = 2, clients: int = 32, seconds: float = 20.0):
        self._pool = ThreadPoolExecutor(clients, thread_name_prefix="engram-explorer")
        self._compilers = ThreadPoolExecutor(
            compiling_threads, thread_name_prefix="engram-compiler"
        )
        self._short_jobs = ShortJobs()
        self._at_work: dict[str, Job] = {}
        self._waiting: dict[str, Job] = {}
        self._most, self._seconds = clients, seconds

    async def answer(self, client: str, work: Work) -> Any:
        """Do `work(job)` when it is the client's turn, unless a newer request comes first."""
        job = Job(self._seconds, short_jobs=self._short_jobs)
        if client in self._at_work:
            self._at_work[client].is_stale = True
            self._drop_waiting(client)
            job.called = asyncio.get_running_loop().create_future()
            self._waiting[client] = job
        elif len(self._at_work) >= self._most:
            raise Busy
        else:
            self._at_work[client] = job
        try:
            if job.called is not None:
                await job.called
            try:
                return await self._run(self._pool, job, work)
            except MustCompile:
                job.may_compile = True
                return await self._run(self._compilers, job, work)
        finally:
            job.is_stale = True  # its thread, if it still works, ends at its next check
            if self._waiting.get(client) is job:
                del self._waiting[client]
            if self._at_work.get(client) is job:
                self._hand_on(client)

    def _drop_waiting(self, client: str) -> None:
        older = self._waiting.pop(client, None)
        if older is not None and older.called is not None and not older.called.done():
            older.called.set_exception(Stale())

    def _hand_on(self, client: str) -> None:
        """The client's place goes to its waiting request, if there is one."""
        del self._at_work[client]
        following = self._waiting.pop(client, None)
        if following is not None and following.called is not None and not following.called.done():
            self._at_work[client] = following
            following.called.set_result(None)

    async def _run(self, pool: ThreadPoolExecutor, job: Job, work: Work) -> Any:
        def run() -> Any:
            if job.is_stale:
                raise Stale
            job.begin()
            if not job.may_compile:
                self._short_jobs.begin(job)
            try:
                return work(job)
            except Exception:
                if self._is_open():
                    raise
                raise Stale from None  # Python is ending, and much fails then
            finally:
                self._short_jobs.end(job)

        try:
            future = pool.submit(run)
        except RuntimeError:  # the server, or Python itself, is ending
            raise Stale from None
        answer = asyncio.wrap_future(future)
        # Nobody may be left to see how it ends.
        answer.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        await asyncio.wait({answer}, timeout=_QUEUE_SECONDS)
        if not answer.done() and future.cancel():  # which it can only be before it begins
            raise Busy
        return await answer

    def _is_open(self) -> bool:
        """Whether anything can begin yet: neither the server nor Python itself is ending."""
        try:
            self._pool.submit(int)
        except RuntimeError:
            return False
        return True

    def close(self) -> None:
        """End what is at work, as soon as it checks, and start nothing more."""
        for job in [*self._at_work.values(), *self._waiting.values()]:
            job.is_stale = True
        for pool in (self._pool, self._compilers):
            pool.shutdown(wait=False, cancel_futures=True)
