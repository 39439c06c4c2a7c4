"""Shares of time, speeds, and the sentence that is made of them."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from workbench.learner.metrics.learner_report import LearnerReport, Rates, histogram, lag_summary
from workbench.learner.metrics.meters import Meters
from workbench.learner.metrics.recorder import EpisodeLog, compiler, hint, latencies, memory, shares
from workbench.learner.run_state import Clock
from workbench.metrics import MetricsReader, MetricsWriter, Progress
from workbench.metrics.status import without_end
from workbench.metrics.writer import Episode

QUIET = {"environments": 0.1, "wire": 0.1, "batch_wait": 0.1, "inference": 0.1, "queue_blocked": 0.0, "training": 0.1,
         "training_wait": 0.9}


def test_shares_are_of_the_threads_that_could_have_worked():
    meters = Meters()
    for _ in range(2):
        meters.add("environments", 1.0)  # two actors, one second each
    meters.add("training", 1.5)
    meters.add("batch_wait", 4.0)  # four groups
    found = shares(meters.drain(), elapsed_s=2.0, actors=2, groups=4)
    assert found["environments"] == pytest.approx(0.5)
    assert found["training"] == pytest.approx(0.75)
    assert found["batch_wait"] == pytest.approx(0.5)
    assert found["wire"] == 0.0


def test_what_was_drained_is_not_counted_again():
    meters = Meters()
    meters.add("training", 1.0)
    assert meters.drain().total("training") == 1.0
    assert meters.drain().total("training") == 0.0
    assert meters.drain().mean("training") is None


def test_latencies_are_means_in_ms_and_a_group_larger_than_a_batch_fills_it():
    meters = Meters()
    assert latencies(meters.drain(), max_batch=8) == {}
    for wait_s, size in ((0.001, 2), (0.003, 4)):
        meters.add("batch_wait", wait_s)
        meters.add("batch_size", size)
    sums = meters.drain()
    assert latencies(sums, max_batch=8) == pytest.approx({"batch_wait_ms": 2.0, "batch_fill": 3 / 8})
    assert latencies(sums, max_batch=1)["batch_fill"] == 1.0


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"training": 0.95}, "training 95%"),
        ({"environments": 0.9}, "more actors or cores"),
        ({"inference": 0.8}, "envs_per_actor"),
        ({"batch_wait": 0.7}, "batch_timeout_ms"),
        ({"batch_wait": 0.7, "queue_blocked": 0.6}, "waiting for unrolls"),
    ],
)
def test_the_hint_names_what_is_waited_for(changed, says):
    assert says in hint({**QUIET, **changed}, on_cpu=True, parameters=10**6)


def test_a_larger_batch_is_advised_only_where_max_batch_bounds_it():
    said = hint({**QUIET, "inference": 0.8}, on_cpu=True, parameters=10**6, batches_bounded=True)
    assert "max_batch" in said and "envs_per_actor" not in said


def test_nothing_is_hinted_at_before_anything_was_measured():
    assert hint(dict.fromkeys(QUIET, 0.0), on_cpu=True, parameters=10**6) == ""


def test_no_end_of_an_episode_is_said_after_the_longest_game_of_atari():
    assert not without_end(steps=26_999 * 8, episodes=0, environments=8)
    assert not without_end(steps=27_000 * 8, episodes=1, environments=8)
    said = without_end(steps=27_000 * 8, episodes=0, environments=8)
    assert said.startswith("no episode has ended in 27,000 steps of each environment") and "TimeLimit" in said


@pytest.mark.parametrize(("on_cpu", "parameters", "says", "keeps_silent_of"), [
    (True, 10**6, "a GPU or a smaller network would help most", "batch_size"),
    (False, 10**6, "a larger batch_size or a smaller network would help most", "GPU"),
    (True, 9155, "the time: a larger batch_size would help most", "GPU"),
    (False, 9155, "the time: a larger batch_size would help most", "network"),
])
def test_only_what_may_help_is_named(on_cpu, parameters, says, keeps_silent_of):
    """A GPU for a network that is large enough."""
    said = hint({**QUIET, "training": 0.95}, on_cpu=on_cpu, parameters=parameters)
    assert says in said and keeps_silent_of not in said


def test_the_clock_stands_still_while_paused():
    clock = Clock(100.0)
    assert clock.seconds == 100.0
    clock.run(True)
    clock.run(False)
    stopped = clock.seconds
    assert 100.0 <= stopped < 101.0
    assert clock.seconds == stopped


def test_a_speed_is_a_difference_over_the_time_between_two_looks():
    rates = Rates()
    assert rates.of({"frames": 1000})["frames"] == 0.0, "the first look has nothing to compare with"
    assert rates.of({"frames": 1000})["frames"] == 0.0
    assert rates.of({"frames": 2000})["frames"] > 0


def test_steady_speeds_are_those_of_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    rates, said = Rates(10.0), []
    for second, frames in enumerate((0, 100, 100, 400, *[400] * 20)):
        now[0] = float(second)
        said.append(rates.of({"frames": frames})["frames"])
    assert said[:4] == [0.0, 100.0, 50.0, pytest.approx(400 / 3)] and said[10] == 40.0
    assert said[11:15] == [30.0, 30.0, 0.0, 0.0], "what happened more than ten seconds before counts no more"


def test_policy_lag_is_summed_up_in_updates():
    assert lag_summary(np.zeros(0, int)) == {}
    assert lag_summary(np.array([0, 0, 2, 2])) == {"policy_lag_mean": 1.0, "policy_lag_max": 2.0}


def test_a_histogram_counts_what_lies_beyond_its_edges_and_has_no_empty_end():
    edges, counts = histogram(np.array([-5.0, 0.5, 1.5, 1.5]), (0.0, 1.0, 2.0, 3.0, 4.0))
    assert (edges, counts) == ([0.0, 1.0, 2.0], [2, 2])
    edges, counts = histogram(np.array([99.0]), (0.0, 1.0, 2.0))
    assert (edges, counts) == ([0.0, 1.0, 2.0], [0, 1])


def test_a_device_that_compiles_says_what_it_compiled_and_what_after_its_warm_up() -> None:
    assert compiler({"frames_per_second": 3.0}, "") == ""
    assert compiler({"xla_compilations": 2.0}, "highest") == "2 graphs compiled; float32 products: highest"
    counted = {"xla_compilations": 5.0, "xla_cached": 12.0, "xla_recompilations": 0.0}
    assert compiler(counted, "highest") == ("5 graphs compiled, 0 since the warm-up, 12 of a former life; "
                                            "float32 products: highest")


def test_recompilations_are_those_after_the_first_updates_of_a_life() -> None:
    trainer = SimpleNamespace(updates=100)  # it was resumed
    report = LearnerReport(SimpleNamespace(trainer=trainer), meters=Meters(), streams=None, unsent=None)
    found = []
    for updates, compiled in ((100, 3.0), (109, 8.0), (110, 9.0), (150, 9.0), (200, 11.0)):
        trainer.updates = updates
        found.append(report._compiled({"xla_compilations": compiled}).get("xla_recompilations"))
    assert found == [None, None, 0.0, 0.0, 2.0] and report._compiled({}) == {}


def test_memory_is_that_of_the_accelerator_and_without_one_that_of_the_learner() -> None:
    load = {"accelerator_memory_gb": 2.0, "learner_memory_gb": 1.5}
    assert memory(load, accelerator_total_gb=80.0) == {"device_memory_gb": 2.0, "device_memory_total_gb": 80.0}
    found = memory(load, accelerator_total_gb=0.0)
    assert found["device_memory_gb"] == 1.5 and found["device_memory_total_gb"] > 0.1


def test_means_of_scores_stand_beside_those_of_returns_and_are_none_where_nobody_tells_them(tmp_path) -> None:
    writer = MetricsWriter(tmp_path / "metrics.sqlite")
    log = EpisodeLog(writer)
    log.add(Episode("training", 0, 1.0, 10), Progress(1, 1, 1, 0.0))
    assert log.status()["episode_score"] is None and log.status()["episode_return"] == 1.0
    log.add(Episode("training", 0, 2.0, 10, score=5.0), Progress(1, 1, 1, 0.0))
    log.add(Episode("training", 1, 3.0, 10, score=0.0), Progress(1, 1, 1, 0.0))
    log.add(Episode("evaluation", 2, 9.0, 10, score=-1.0), Progress(1, 1, 1, 0.0))
    told = log.status()
    assert (told["episode_return"], told["episode_score"], told["evaluation_score"]) == (2.0, 2.5, -1.0)
    writer.close()
    assert MetricsReader(tmp_path / "metrics.sqlite").series("episode_score")["value"].tolist() == [5.0, 0.0]


def test_a_mean_has_an_episode_of_each_environment_where_more_than_a_hundred_begin_together(tmp_path) -> None:
    """All play the same policy, and those that lose at once end first."""
    writer, environments = MetricsWriter(tmp_path / "metrics.sqlite"), 448
    log = EpisodeLog(writer, environments=lambda kind: environments)
    found = []
    for _ in range(3):
        for env in range(environments):
            log.add(Episode("training", env, env - environments // 2, 10), Progress(1, 1, 1, 0.0))
            found.append(log.status()["episode_return"])
    assert log.status()["episodes_in_mean"] == environments
    settled = found[environments - 1 :]
    assert min(settled) == max(settled) == -0.5
    writer.close()


def test_a_resumed_run_goes_on_with_the_means_of_its_former_life_and_not_with_what_it_left_behind(tmp_path) -> None:
    writer = MetricsWriter(tmp_path / "metrics.sqlite")
    first = EpisodeLog(writer)
    for number in range(150):  # the last thirty after the checkpoint at update 12
        first.add(Episode("training", 0, float(number), number, score=2.0 * number),
                  Progress(10 * number, 10 * number, number // 10, 0.0))
    writer.commit()
    reader = MetricsReader(tmp_path / "metrics.sqlite")
    writer.event("restore", "continues", progress=Progress(1290, 1290, 12, 0.0), data={"rows": reader.lengths()})
    again = EpisodeLog(writer, 130)
    again.recall(reader)
    told = again.status()
    assert (told["episodes"], told["episodes_in_mean"]) == (130, 100)
    assert told["episode_return"] == told["episode_length"] == told["episode_score"] / 2 == pytest.approx(79.5)
    again.add(Episode("training", 0, 179.5, 0), Progress(1300, 1300, 13, 0.0))
    assert again.status()["episode_return"] == pytest.approx(79.5 + (179.5 - 30) / 100)
    assert told["evaluation_return"] is None
    writer.close()
    assert len(reader.series("episode_return")["value"]) == 131, "they are not written again"
