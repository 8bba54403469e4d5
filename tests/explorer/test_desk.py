"""One job per client, and only the newest question of each is answered."""

import asyncio
import threading
import time

import pytest

from engram.explorer._desk import Busy, Desk, Stale, TooLong


def until_dropped(ticket):
    """Work that ends only when it is no longer wanted."""
    while True:
        ticket.check()
        time.sleep(0.001)


@pytest.fixture
def desk():
    made = Desk(threads=3, clients=4, seconds=60.0)
    yield made
    made.close()


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 120))


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


def test_only_the_newest_question_is_answered(desk):
    begun = []

    async def all_at_once():
        def work(number):
            def job(ticket):
                begun.append(number)
                return until_dropped(ticket) if number == 0 else number

            return job

        asked = [asyncio.create_task(desk.answer("a", work(0)))]
        await until(lambda: begun == [0])
        asked += [asyncio.create_task(desk.answer("a", work(number))) for number in range(1, 20)]
        return await asyncio.gather(*asked, return_exceptions=True)

    answers = run(all_at_once())
    assert answers[-1] == 19
    assert all(isinstance(answer, Stale) for answer in answers[:-1])
    assert begun == [0, 19]  # what lay between was never begun
    assert not desk._at_work
    assert not desk._waiting


def test_clients_do_not_wait_for_each_other(desk):
    async def slow_and_quick():
        gate = threading.Event()
        slow = asyncio.create_task(desk.answer("slow", lambda ticket: gate.wait(60)))
        await until(lambda: "slow" in desk._at_work)
        quick = await desk.answer("quick", lambda ticket: "done")
        assert not slow.done()
        gate.set()
        await slow
        return quick

    assert run(slow_and_quick()) == "done"


def test_too_many_clients_are_told_so(desk):
    async def crowd():
        gate = threading.Event()
        asked = [
            asyncio.create_task(desk.answer(str(k), lambda ticket: gate.wait(60))) for k in range(4)
        ]
        await until(lambda: len(desk._at_work) == 4)
        with pytest.raises(Busy):
            await desk.answer("one more", lambda ticket: None)
        gate.set()
        await asyncio.gather(*asked)
        return await desk.answer("one more", lambda ticket: "now")

    assert run(crowd()) == "now"


def test_work_is_ended_when_it_takes_too_long():
    desk = Desk(seconds=0.05)
    with pytest.raises(TooLong):
        run(desk.answer("a", until_dropped))
    assert not desk._at_work
    desk.close()


def test_work_that_fails_leaves_the_client_free(desk):
    async def fail_then_ask():
        with pytest.raises(ZeroDivisionError):
            await desk.answer("a", lambda ticket: 1 // 0)
        return await desk.answer("a", lambda ticket: "fine")

    assert run(fail_then_ask()) == "fine"


def test_a_question_given_up_frees_its_place(desk):
    async def give_up():
        gate = threading.Event()
        first = asyncio.create_task(desk.answer("a", lambda ticket: gate.wait(60)))
        await until(lambda: "a" in desk._at_work)
        second = asyncio.create_task(desk.answer("a", lambda ticket: "second"))
        await until(lambda: "a" in desk._waiting)
        second.cancel()
        gate.set()
        await asyncio.gather(first, second, return_exceptions=True)
        return await desk.answer("a", lambda ticket: "third")

    assert run(give_up()) == "third"
    assert not desk._at_work
    assert not desk._waiting


def test_a_client_with_a_place_may_always_ask_anew(desk):
    async def all_again():
        first = [asyncio.create_task(desk.answer(str(k), until_dropped)) for k in range(4)]
        await until(lambda: len(desk._at_work) == 4)
        again = [asyncio.create_task(desk.answer(str(k), lambda ticket: "done")) for k in range(4)]
        assert await asyncio.gather(*again) == ["done"] * 4
        return await asyncio.gather(*first, return_exceptions=True)

    assert all(isinstance(answer, Stale) for answer in run(all_again()))


def test_a_question_given_up_when_its_turn_comes_is_handed_on(desk):
    async def unlucky():
        gate = threading.Event()
        first = asyncio.create_task(desk.answer("a", lambda ticket: gate.wait(60)))
        await until(lambda: "a" in desk._at_work)
        second = asyncio.create_task(desk.answer("a", lambda ticket: "second"))
        await until(lambda: "a" in desk._waiting)
        gate.set()
        turn = desk._waiting["a"].turn
        while not turn.done():
            await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        return await desk.answer("a", lambda ticket: "third")

    assert run(unlucky()) == "third"


def test_giving_up_ends_the_work(desk):
    begun, ended = threading.Event(), threading.Event()

    def work(ticket):
        begun.set()
        try:
            until_dropped(ticket)
        finally:
            ended.set()

    async def give_up():
        asked = asyncio.create_task(desk.answer("a", work))
        await until(begun.is_set)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        return await asyncio.to_thread(ended.wait, 30)  # half as long as the desk would let it work

    assert run(give_up())
    assert not desk._at_work


def test_compiling_delays_nobody_else():
    desk = Desk(threads=1, cold_threads=1, seconds=60.0)

    async def cold_then_warm():
        gate, begun = threading.Event(), threading.Event()

        def compile(ticket):
            begun.set()
            gate.wait(60)

        cold = [asyncio.create_task(desk.answer(str(k), compile, is_cold=True)) for k in range(3)]
        await until(begun.is_set)
        quick = await desk.answer("quick", lambda ticket: "done")
        gate.set()
        await asyncio.gather(*cold)
        return quick

    assert run(cold_then_warm()) == "done"
    desk.close()
