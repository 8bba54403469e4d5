"""The desk: one job per client at a time, and only the newest question of each is answered."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class Stale(Exception):
    """A newer question of the same client has come, or the client has gone: nobody waits for this answer."""


class TooLong(Exception):
    """The work has taken longer than a request may."""


class Busy(Exception):
    """Too many clients ask at once."""


class Ticket:
    """A question: whether it is still wanted, and since when it is worked on."""

    def __init__(self, seconds: Any):
        self.seconds = seconds
        self.is_stale = False
        self.began = time.monotonic()
        self.turn: Any = None  # a future, while it waits

    def begin(self) -> None:
        """Count from now: the work begins, or a compilation, which counts for nothing, has ended."""
        self.began = time.monotonic()

    def check(self) -> None:
        """Raise if the work should not go on; called from the thread that does it, now and then."""
        if self.is_stale:
            raise Stale
        if time.monotonic() - self.began > self.seconds:
            raise TooLong


class Desk:
    """Answers questions in a few threads.

    A client has at most one question at work and one waiting; a newer one replaces the waiting one at
    once, and tells the one at work to end. So a slider that moves faster than the answers piles nothing up,
    and one client holds at most one thread. Work that must compile first, which nothing can end, has
    threads of its own, so that it delays nobody else.

    Args:
        threads: How many questions are worked on at once.
        cold_threads: How many that must compile first.
        clients: How many clients may ask at once.
        seconds: How long a question may take, measured where it can be ended.
    """

    def __init__(
        self, threads: int = 4, cold_threads: int = 2, clients: int = 32, seconds: float = 20.0
    ):
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="engram-explorer")
        self._cold_pool = ThreadPoolExecutor(cold_threads, thread_name_prefix="engram-compiler")
        self._at_work: dict[str, Ticket] = {}
        self._waiting: dict[str, Ticket] = {}
        self._most, self._seconds = clients, seconds

    async def answer(
        self, client: str, work: Callable[[Ticket], Any], *, is_cold: bool = False
    ) -> Any:
        """Do `work(ticket)` when it is the client's turn, unless a newer question comes first."""
        mine = Ticket(self._seconds)
        if client in self._at_work:
            self._at_work[client].is_stale = True
            self._drop_waiting(client)
            mine.turn = asyncio.get_running_loop().create_future()
            self._waiting[client] = mine
        elif len(self._at_work) >= self._most:
            raise Busy
        else:
            self._at_work[client] = mine
        try:
            if mine.turn is not None:
                await mine.turn
            pool = self._cold_pool if is_cold else self._pool
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(pool, self._do, mine, work)
        finally:
            mine.is_stale = True  # its thread, if it still works, ends at its next check
            if self._waiting.get(client) is mine:
                del self._waiting[client]
            if self._at_work.get(client) is mine:
                self._hand_on(client)

    def _drop_waiting(self, client: str) -> None:
        older = self._waiting.pop(client, None)
        if older is not None and not older.turn.done():
            older.turn.set_exception(Stale())

    def _hand_on(self, client: str) -> None:
        """The client's place goes to its waiting question, if there is one."""
        del self._at_work[client]
        following = self._waiting.pop(client, None)
        if following is not None and not following.turn.done():
            self._at_work[client] = following
            following.turn.set_result(None)

    @staticmethod
    def _do(ticket: Ticket, work: Callable[[Ticket], Any]) -> Any:
        if ticket.is_stale:
            raise Stale
        ticket.begin()
        return work(ticket)

    def close(self) -> None:
        """End what is at work, as soon as it checks, and start nothing more."""
        for ticket in [*self._at_work.values(), *self._waiting.values()]:
            ticket.is_stale = True
        for pool in (self._pool, self._cold_pool):
            pool.shutdown(wait=False, cancel_futures=True)
