"""Data echoing: a batch serves again only while the next one is not ready, and only so often."""

from workbench.config import RunConfig
from workbench.learner.metrics.meters import Meters
from workbench.learner.training.concurrent import Echo


class Scripted:
    """An experience whose answers are given; None: not ready."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.waits = []

    def next(self, config, *, timeout_s):
        self.waits.append(timeout_s)
        return self.answers.pop(0)


def served(answers, factor):
    experience, meters = Scripted(*answers), Meters()
    echo = Echo(experience, meters)
    config = RunConfig.build("x", echo_factor=factor).hyperparameters
    found = [echo.next(config, timeout_s=0.5) for _ in answers]
    return found, experience.waits, meters.drain().mean("batch_uses")


def test_without_echoing_every_batch_serves_once():
    found, waits, uses = served(["a", None, None, "b", "c"], 1)
    assert found == ["a", None, None, "b", "c"]
    assert waits == [0.5] * 5
    assert uses == 1


def test_a_batch_serves_again_while_the_next_is_not_ready_and_not_more_often_than_the_factor():
    found, waits, uses = served(["a", None, None, None, "b", None, "c"], 3)
    assert found == ["a", "a", "a", None, "b", "b", "c"]
    assert waits == [0.5, 0.0, 0.0, 0.5, 0.5, 0.0, 0.0], "it waits only when it has nothing to do meanwhile"
    assert uses == 2.5


def test_a_batch_that_was_dropped_is_not_used_again_and_a_larger_factor_revives_no_old_one():
    experience, meters = Scripted("a", None, "b", None, None), Meters()
    echo = Echo(experience, meters)
    once, thrice = (RunConfig.build("x", echo_factor=factor).hyperparameters for factor in (1, 3))
    assert echo.next(thrice, timeout_s=0.5) == "a"
    echo.drop()
    assert echo.next(thrice, timeout_s=0.5) is None
    assert echo.next(once, timeout_s=0.5) == "b"
    assert echo.next(once, timeout_s=0.5) is None
    assert echo.next(thrice, timeout_s=0.5) is None
    assert experience.waits == [0.5] * 5


def test_a_batch_that_is_ready_is_taken_at_once():
    found, _, uses = served(["a", "b", "c"], 8)
    assert found == ["a", "b", "c"]
    assert uses == 1
