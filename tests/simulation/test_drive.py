"""The driver: it goes on to the end, reports, and saves whatever comes in between."""

import pytest

from engram.simulation import drive


class Counter:
    """Five pieces; notes what is asked of it."""

    def __init__(self, fails_at=None):
        self.done, self.saved, self.fails_at = 0, [], fails_at

    @property
    def is_over(self):
        return self.done == 5

    @property
    def so_far(self):
        return self.done, 5

    def move(self):
        if self.done == self.fails_at:
            raise KeyboardInterrupt
        self.done += 1

    def save(self):
        self.saved.append(self.done)


def test_a_driven_run_completes_reports_each_piece_and_saves_once():
    counter, reports = Counter(), []
    drive(counter, lambda *place: reports.append(place))
    assert reports == [(k, 5) for k in range(1, 6)]
    assert counter.saved == [5]


def test_a_save_interval_of_zero_saves_every_piece():
    counter = Counter()
    drive(counter, patience=-1.0)
    assert counter.saved == [1, 2, 3, 4, 5, 5]


def test_an_interrupted_run_saves_its_progress():
    counter = Counter(fails_at=3)
    with pytest.raises(KeyboardInterrupt):
        drive(counter)
    assert counter.saved == [3]

    def interrupt(done, total):
        if done == 2:
            raise KeyboardInterrupt

    counter = Counter()
    with pytest.raises(KeyboardInterrupt):
        drive(counter, interrupt)
    assert counter.saved == [2]
