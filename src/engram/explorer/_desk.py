"""The desk: one job per client at a time, and only the newest question of each is answered."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class Stale(Exception):
    """A newer question of the same client has come: nobody waits for this answer."""


class TooLong(Exception):
    """The work has taken longer than a request may."""


class Busy(Exception):
    """Too many questions are waiting."""


class Ticket:
    """A question: whether it is still wanted, and since when it is worked on."""

    def __init__(self, seconds: Any):
        self.seconds = seconds
        self.is_stale = False
        self.began: Any = None
        self.turn: Any = None  # a future, while it waits

    def check(self) -> None:
        """Raise if the work should not go on; called from the thread that does it, now and then."""
        if self.is_stale:
            raise Stale
        if self.began is not None and time.monotonic() - self.began > self.seconds:
            raise TooLong


class Desk:
    """Answers questions in a few threads.

    A client has at most one question at work and one waiting; a newer one replaces the waiting one at
    once, and tells the one at work to end. So a slider that moves faster than the answers piles nothing up,
    and one client holds at most one thread.

    Args:
        threads: How many questions are worked on at once.
        waiting: How many clients may wait in all.
        seconds: How long a question may take, measured where it can be ended.
    """

    def __init__(self, threads: int = 4, waiting: int = 32, seconds: float = 20.0):
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="engram-explorer")
        self._at_work: dict[str, Ticket] = {}
        self._waiting: dict[str, Ticket] = {}
        self._most, self._seconds = waiting, seconds

    async def answer(self, client: str, work: Callable[[Callable[[], None]], Any]) -> Any:
        """Do the work, `work(check)`, when it is the client's turn, unless a newer question comes first."""
        mine = Ticket(self._seconds)
        if client in self._at_work:
            self._at_work[client].is_stale = True
            await self._wait(client, mine)
        elif len(self._at_work) + len(self._waiting) >= self._most:
            raise Busy
        self._at_work[client] = mine
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._pool, self._do, mine, work
            )
        finally:
            del self._at_work[client]
            following = self._waiting.pop(client, None)
            if following is not None and not following.turn.done():
                # Taken at once, so that no third question slips in between.
                self._at_work[client] = following
                following.turn.set_result(None)

    async def _wait(self, client: str, mine: Ticket) -> None:
        older = self._waiting.pop(client, None)
        if older is not None and not older.turn.done():
            older.turn.set_exception(Stale())
        if len(self._at_work) + len(self._waiting) >= self._most:
            raise Busy
        mine.turn = asyncio.get_running_loop().create_future()
        self._waiting[client] = mine
        try:
            await mine.turn
        except BaseException:
            if self._waiting.get(client) is mine:
                del self._waiting[client]
            raise

    @staticmethod
    def _do(ticket: Ticket, work: Callable[[Callable[[], None]], Any]) -> Any:
        ticket.check()
        ticket.began = time.monotonic()
        return work(ticket.check)

    def close(self) -> None:
        """End what is at work, as soon as it checks, and start nothing more."""
        for ticket in [*self._at_work.values(), *self._waiting.values()]:
            ticket.is_stale = True
        self._pool.shutdown(wait=False, cancel_futures=True)
