"""One job per client, and only the newest question of each is answered."""

import asyncio
import threading
import time

import pytest

from engram.explorer import _jobs
from engram.explorer._jobs import Busy, Jobs, Stale, TooLong


def until_dropped(job):
    """Work that ends only when it is no longer wanted."""
    while True:
        job.check()
        time.sleep(0.001)


@pytest.fixture
def jobs():
    made = Jobs(clients=4, seconds=60.0)
    made._turns._most = 2
    yield made
    made.close()


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 120))


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


def test_only_the_newest_request_is_answered(jobs):
    begun = []

    async def all_at_once():
        def work(number):
            def job(job):
                begun.append(number)
                return until_dropped(job) if number == 0 else number

            return job

        asked = [asyncio.create_task(jobs.answer("a", work(0)))]
        await until(lambda: begun == [0])
        asked += [asyncio.create_task(jobs.answer("a", work(number))) for number in range(1, 20)]
        return await asyncio.gather(*asked, return_exceptions=True)

    answers = run(all_at_once())
    assert answers[-1] == 19
    assert all(isinstance(answer, Stale) for answer in answers[:-1])
    assert begun == [0, 19]  # what lay between was never begun
    assert not jobs._at_work
    assert not jobs._waiting


def test_clients_do_not_wait_for_each_other(jobs):
    async def slow_and_quick():
        gate = threading.Event()
        slow = asyncio.create_task(jobs.answer("slow", lambda job: gate.wait(60)))
        await until(lambda: "slow" in jobs._at_work)
        quick = await jobs.answer("quick", lambda job: "done")
        assert not slow.done()
        gate.set()
        await slow
        return quick

    assert run(slow_and_quick()) == "done"


def test_too_many_clients_are_refused(jobs):
    async def crowd():
        gate = threading.Event()
        asked = [
            asyncio.create_task(jobs.answer(str(k), lambda job: gate.wait(60))) for k in range(4)
        ]
        await until(lambda: len(jobs._at_work) == 4)
        with pytest.raises(Busy):
            await jobs.answer("one more", lambda job: None)
        gate.set()
        await asyncio.gather(*asked)
        return await jobs.answer("one more", lambda job: "now")

    assert run(crowd()) == "now"


def test_work_that_takes_too_long_is_stopped():
    jobs = Jobs(seconds=0.05)
    with pytest.raises(TooLong):
        run(jobs.answer("a", until_dropped))
    assert not jobs._at_work
    jobs.close()


def test_work_that_fails_leaves_the_client_free(jobs):
    async def fail_then_ask():
        with pytest.raises(ZeroDivisionError):
            await jobs.answer("a", lambda job: 1 // 0)
        return await jobs.answer("a", lambda job: "fine")

    assert run(fail_then_ask()) == "fine"


def test_a_cancelled_request_frees_its_place(jobs):
    async def give_up():
        gate = threading.Event()
        first = asyncio.create_task(jobs.answer("a", lambda job: gate.wait(60)))
        await until(lambda: "a" in jobs._at_work)
        second = asyncio.create_task(jobs.answer("a", lambda job: "second"))
        await until(lambda: "a" in jobs._waiting)
        second.cancel()
        gate.set()
        await asyncio.gather(first, second, return_exceptions=True)
        return await jobs.answer("a", lambda job: "third")

    assert run(give_up()) == "third"
    assert not jobs._at_work
    assert not jobs._waiting


def test_a_client_with_a_place_may_always_ask_again(jobs):
    async def all_again():
        first = [asyncio.create_task(jobs.answer(str(k), until_dropped)) for k in range(4)]
        await until(lambda: len(jobs._at_work) == 4)
        again = [asyncio.create_task(jobs.answer(str(k), lambda job: "done")) for k in range(4)]
        assert await asyncio.gather(*again) == ["done"] * 4
        return await asyncio.gather(*first, return_exceptions=True)

    assert all(isinstance(answer, Stale) for answer in run(all_again()))


def test_a_request_cancelled_at_its_turn_passes_the_place_on(jobs):
    async def unlucky():
        gate = threading.Event()
        first = asyncio.create_task(jobs.answer("a", lambda job: gate.wait(60)))
        await until(lambda: "a" in jobs._at_work)
        second = asyncio.create_task(jobs.answer("a", lambda job: "second"))
        await until(lambda: "a" in jobs._waiting)
        gate.set()
        turn = jobs._waiting["a"].called
        while not turn.done():
            await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        return await jobs.answer("a", lambda job: "third")

    assert run(unlucky()) == "third"


def test_cancelling_a_request_stops_its_work(jobs):
    begun, ended = threading.Event(), threading.Event()

    def work(job):
        begun.set()
        try:
            until_dropped(job)
        finally:
            ended.set()

    async def give_up():
        asked = asyncio.create_task(jobs.answer("a", work))
        await until(begun.is_set)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        return await asyncio.to_thread(ended.wait, 30)  # half as long as the jobs would let it work

    assert run(give_up())
    assert not jobs._at_work


def test_compiling_does_not_delay_other_clients():
    jobs = Jobs(seconds=60.0)

    async def cold_then_warm():
        gate, begun = threading.Event(), threading.Event()

        def compile(job):
            job.will_compile()
            begun.set()
            gate.wait(60)

        cold = [asyncio.create_task(jobs.answer(str(k), compile)) for k in range(3)]
        await until(begun.is_set)
        quick = await jobs.answer("quick", lambda job: "done")
        gate.set()
        await asyncio.gather(*cold)
        return quick

    assert run(cold_then_warm()) == "done"
    jobs.close()


def test_a_client_that_compiles_little_is_next():
    jobs, order, gate = Jobs(), [], threading.Event()
    queue = jobs._compiler._queue

    def compile(job, client):
        job.will_compile()
        gate.wait(60)
        order.append(client)

    async def crowd():
        ask = lambda client: asyncio.create_task(
            jobs.answer(client, lambda job: compile(job, client))
        )
        gate.set()
        await asyncio.gather(ask("a"), ask("b"))
        gate.clear()
        asked = []
        for number, client in enumerate(["a", "b", "seldom"]):
            asked.append(ask(client))  # the first is at work, the others wait
            await until(
                lambda number=number: jobs._compiler._asked.get("a") == 2 and len(queue) == number
            )
        gate.set()
        await asyncio.gather(*asked)

    run(crowd())
    assert order[2:] == ["a", "seldom", "b"]
    jobs.close()


def test_long_jobs_let_short_ones_have_their_turn(jobs):
    is_over = threading.Event()

    def long_work(job):
        while not is_over.is_set():
            job.check()
            time.sleep(0.001)

    async def long_and_short():
        long = [asyncio.create_task(jobs.answer(name, long_work)) for name in "abc"]
        await until(lambda: jobs._turns._at_work == 2 and len(jobs._turns._queue) == 1)
        begun = time.monotonic()
        assert await jobs.answer("short", lambda job: "done") == "done"
        assert time.monotonic() - begun < _jobs._LONGEST_WAIT  # nobody was passed over
        is_over.set()
        await asyncio.gather(*long)

    run(long_and_short())
    assert jobs._turns._at_work == 0


def test_a_client_that_pauses_has_its_turn_before_those_that_do_not(jobs):
    order, gate = [], threading.Event()
    jobs._turns._most = 1

    async def crowd():
        await jobs.answer("patient", lambda job: None)
        jobs._answered["patient"] -= 0.5
        asked = [asyncio.create_task(jobs.answer("first", lambda job: gate.wait(60)))]
        for client in ("eager", "patient"):
            work = lambda job, client=client: order.append(client)
            await until(
                lambda: jobs._turns._at_work == 1 and len(jobs._turns._queue) == len(asked) - 1
            )
            asked.append(asyncio.create_task(jobs.answer(client, work)))
        await until(lambda: len(jobs._turns._queue) == 2)
        gate.set()
        await asyncio.gather(*asked)

    run(crowd())
    assert order == ["patient", "eager"]


def test_a_stuck_job_does_not_block_others_forever(jobs, monkeypatch):
    monkeypatch.setattr(_jobs, "_LONGEST_WAIT", 0.05)
    gate = threading.Event()

    async def crowd():
        stuck = [asyncio.create_task(jobs.answer(name, lambda job: gate.wait(60))) for name in "ab"]
        await until(lambda: jobs._turns._at_work == 2)
        answer = await jobs.answer("c", lambda job: "done")
        gate.set()
        await asyncio.gather(*stuck)
        return answer

    assert run(crowd()) == "done"
    assert jobs._turns._at_work == 0


def test_a_job_that_finds_no_thread_is_asked_to_come_again(monkeypatch):
    jobs, gate, begun = Jobs(), threading.Event(), threading.Event()

    def compile(job):
        job.will_compile()
        begun.set()
        return gate.wait(60)

    async def two():
        first = asyncio.create_task(jobs.answer("a", compile))
        await until(begun.is_set)
        monkeypatch.setattr(_jobs, "_QUEUE_SECONDS", 0.05)
        with pytest.raises(Busy):
            await jobs.answer("b", compile)
        gate.set()
        return await first

    assert run(two())
    jobs.close()


def test_nothing_begins_after_the_end(jobs):
    jobs.close()
    with pytest.raises(Stale):
        run(jobs.answer("a", lambda job: "never"))
