"""Jobs: one per client at a time, and only the newest request of each client is answered."""

import asyncio
import heapq
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_SLICE = 0.05  # seconds that a job computes before others have their turn
_LONGEST_WAIT = (
    2.0  # seconds for a turn: after that a job goes on without, for one of those at work is stuck
)
_HEAD_START = (
    10.0  # seconds that a request is put forward for each second since its client's last answer
)
_QUEUE_SECONDS = (
    10.0  # in which the compiling thread must be free; otherwise the client is asked to come again
)


class Stale(Exception):
    """A newer request of the same client has come, or the client has left: nobody waits for this answer."""


class TooLong(Exception):
    """The work has taken longer than a request may."""


class Busy(Exception):
    """Too many clients ask at once."""


class MustCompile(Exception):
    """The work needs a program that is not compiled yet, and this is not a thread for that."""


class Turns:
    """Lets few jobs compute at once: with Python's one lock, more of them would only delay each other.

    Args:
        most: How many.
    """

    def __init__(self, most: int = 3):
        self._lock, self._most, self._at_work = threading.Lock(), most, 0
        self._queue: list[tuple[float, int, threading.Event]] = []
        self._numbers = itertools.count()

    def take(self, since: float) -> None:
        """Wait for a turn; whoever has waited longest is next."""
        turn = threading.Event()
        with self._lock:
            heapq.heappush(self._queue, (since, next(self._numbers), turn))
            self._call()
        if not turn.wait(_LONGEST_WAIT):
            with self._lock:
                if not turn.is_set():
                    self._queue = [each for each in self._queue if each[2] is not turn]
                    heapq.heapify(self._queue)
                    self._at_work += 1

    def give_back(self) -> None:
        """End a turn."""
        with self._lock:
            self._at_work -= 1
            self._call()

    def _call(self) -> None:
        while self._queue and self._at_work < self._most:
            heapq.heappop(self._queue)[2].set()
            self._at_work += 1


class Compiler:
    """One thread for work that compiles; whoever has asked it for the least is next.

    So a client that needs one program does not wait for all that others need, who ask for ever new ones.

    Args:
        clients: Of how many clients it knows what they have asked for.
    """

    def __init__(self, clients: int):
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="engram-compiler")
        self._lock, self._numbers = threading.Lock(), itertools.count()
        self._queue: list[tuple[int, int, Future[Any], Callable[[], Any]]] = []
        self._asked: dict[str, int] = {}  # how often, the newest clients last
        self._most = clients

    def submit(self, client: str, work: Callable[[], Any]) -> Future[Any]:
        """Do `work()` when nobody is waiting who has asked for less."""
        future: Future[Any] = Future()
        with self._lock:
            self._thread.submit(self._next)  # refused when it is closed
            asked = self._asked.pop(client, 0)
            heapq.heappush(self._queue, (asked, next(self._numbers), future, work))
            self._asked[client] = asked + 1
            if len(self._asked) > self._most:
                del self._asked[next(iter(self._asked))]
        return future

    def _next(self) -> None:
        with self._lock:
            _, _, future, work = heapq.heappop(self._queue)
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    def close(self) -> None:
        """Start nothing more."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            for _, _, future, _ in self._queue:
                future.cancel()


class Job:
    """A request at work: whether it is still wanted, since when it runs, and whether it may compile.

    Args:
        seconds: How long it may take, measured where it can be ended.
        may_compile: Whether its thread is one for that.
        turns: From which it takes its turns.
        since: When it came, or earlier for a client that asks seldom.
    """

    def __init__(
        self,
        seconds: float,
        *,
        may_compile: bool = False,
        turns: Turns | None = None,
        since: float = 0.0,
    ):
        self.seconds, self.may_compile = seconds, may_compile
        self.is_stale = False
        self.began = self._turn_began = time.monotonic()
        self.called: asyncio.Future[None] | None = None  # while an older job of the client works
        self._turns, self._since = turns or Turns(), since

    def begin(self) -> None:
        """Count from now: the work begins, or a compilation, which counts for nothing, has ended."""
        self.began = self._turn_began = time.monotonic()

    def check(self) -> None:
        """Raise if the work should end, or let others have their turn; called now and then."""
        if self.is_stale:
            raise Stale
        now = time.monotonic()
        if now - self.began > self.seconds:
            raise TooLong
        if not self.may_compile and now - self._turn_began > _SLICE:
            self._turns.give_back()
            self._turns.take(now)
            self._turn_began = time.monotonic()
            self.began += self._turn_began - now  # waiting does not count

    def will_compile(self) -> None:
        """Raise if this thread is for work that needs no compilation."""
        if not self.may_compile:
            raise MustCompile

    def run(self, work: "Work") -> Any:
        """Do the work, in turn with others unless its thread is one for compiling."""
        if self.is_stale:
            raise Stale
        if self.may_compile:
            self.begin()
            return work(self)
        self._turns.take(self._since)
        try:
            if self.is_stale:
                raise Stale
            self.begin()
            return work(self)
        finally:
            self._turns.give_back()


Work = Callable[[Job], Any]


class Jobs:
    """Answers requests in a few threads.

    A client has at most one job at work and one waiting; a newer one replaces the waiting one at once, and
    ends the one at work. So a slider that moves faster than the answers piles nothing up, and one client
    holds at most one thread. Jobs compute in turns; a client that has asked for nothing for a while has its
    turn before those that ask without a pause. Work that must compile first, which nothing can end, has one
    thread of its own, where a client that has compiled least is next.

    Args:
        clients: How many clients may ask at once.
        seconds: How long a job may take, measured where it can be ended.
    """

    def __init__(self, clients: int = 32, seconds: float = 20.0):
        self._pool = ThreadPoolExecutor(clients, thread_name_prefix="engram-explorer")
        self._compiler = Compiler(4 * clients)
        self._turns = Turns()
        self._at_work: dict[str, Job] = {}
        self._waiting: dict[str, Job] = {}
        self._answered: dict[str, float] = {}  # when the newest clients had their last answers
        self._most, self._seconds = clients, seconds

    async def answer(self, client: str, work: Work) -> Any:
        """Do `work(job)` when it is the client's turn, unless a newer request comes first."""
        job = Job(self._seconds, turns=self._turns, since=self._came(client))
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
                return await self._run(self._pool.submit, job, work)
            except MustCompile:
                job.may_compile = True
                submit = lambda run: self._compiler.submit(client, run)
                return await self._run(submit, job, work)
        finally:
            self._answered[client] = time.monotonic()
            if len(self._answered) > 4 * self._most:
                del self._answered[next(iter(self._answered))]
            job.is_stale = True  # its thread, if it still works, ends at its next check
            if self._waiting.get(client) is job:
                del self._waiting[client]
            if self._at_work.get(client) is job:
                self._hand_on(client)

    def _came(self, client: str) -> float:
        """When a request comes: earlier than it is, for a client that has paused."""
        now = time.monotonic()
        return now - _HEAD_START * min(now - self._answered.pop(client, now), 1.0)

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

    async def _run(
        self, submit: Callable[[Callable[[], Any]], Future[Any]], job: Job, work: Work
    ) -> Any:
        def run() -> Any:
            try:
                return job.run(work)
            except Exception:
                if self._is_open():
                    raise
                raise Stale from None  # Python is ending, and much fails then

        try:
            future = submit(run)
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
        self._compiler.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
