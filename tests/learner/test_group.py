"""Several learners: real processes that train as one would, and the parts that they are made of."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.learner.group_rank import UPDATES, config_of, trained
from workbench import rundir
from workbench.config import RunConfig
from workbench.errors import OutOfBounds
from workbench.learner.metrics import recorder
from workbench.learner.metrics.learner_report import Activity, Unsent, joined
from workbench.learner.training.data_parallel import Group, is_loss, own_gpus
from workbench.policies import roles
from workbench.rundir import RunDirectory
from workbench.trajectory import Array
from workbench.wire.rpc import serve

PATIENCE_S = 240


def group_trained(folder: Path, what: str) -> list[dict[str, Array]]:
    """What each of two learners has in the end."""
    command = [sys.executable, "-m", "tests.learner.group_rank", str(folder)]
    ranks = [subprocess.Popen([*command, str(rank), what], env={**os.environ, "OMP_NUM_THREADS": "1"})
             for rank in range(2)]
    try:
        assert [rank.wait(PATIENCE_S) for rank in ranks] == [0, 0]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(2)]


MORE = ("own", "own network", "entropy", "r2d2", "normalised", "popart", "ppo", "awr", "parts", "nan")


@pytest.mark.parametrize("what", ["vtrace", *(pytest.param(one, marks=pytest.mark.full) for one in MORE)])
def test_two_learners_have_the_weights_of_one_with_the_joint_batch(tmp_path: Path, what: str) -> None:
    torch.manual_seed(0)
    one = trained(what, config_of(what, 1), None)
    two = group_trained(tmp_path, what)
    drawn = one.pop("drawn"), *(each.pop("drawn") for each in two)
    np.testing.assert_array_equal(drawn[0], drawn[1], err_msg="the leader draws what a single learner draws")
    assert not np.isin(drawn[1], drawn[2]).any(), "the learners draw different random numbers in training"
    assert one["updates"][0] == UPDATES - (what == "nan")
    assert one["skipped"][0] == (what == "nan"), "NaN in one learner's part skips the update of both"
    for name, array in one.items():
        np.testing.assert_array_equal(two[0][name], two[1][name], err_msg=f"{name} differs between the learners")
        # sums of two parts round otherwise, which the optimizer enlarges where a unit's gradient is nearly 0
        np.testing.assert_allclose(two[0][name], array, rtol=2e-4, atol=1e-5, err_msg=name)


def group_of(size: int, rank: int = 0, folder: Path = Path("/nowhere")) -> Group:
    config = RunConfig.build("vector", learners=size, actors=size, batch_size=8 * size)
    return Group(RunDirectory(folder), config, rank)


def test_a_learner_has_its_part_of_batches_queues_and_replay() -> None:
    group = group_of(4)
    vtrace = RunConfig.build("vector", batch_size=32, queue_size=6).hyperparameters
    assert (group.share(vtrace).batch_size, group.share(vtrace).queue_size) == (8, 2)
    r2d2 = RunConfig.build("vector", algorithm="r2d2", batch_size=32, replay_size=1000, replay_min_size=10,
                           replay_memory_gb=2.0).hyperparameters
    share = group.share(r2d2)
    assert (share.replay_size, share.replay_min_size, share.replay_memory_gb) == (250, 3, 0.5)
    automatic = RunConfig.build("vector", algorithm="r2d2", batch_size=32).hyperparameters
    share = group.share(automatic)
    assert share.replay_size == 0 and 0 < share.replay_memory_gb < 1e5, "a quarter of the half of what is free"
    assert group.share(automatic) == share, "free memory is looked at once"


def test_learners_draw_different_random_numbers_and_the_first_one_those_of_a_run_with_one() -> None:
    seeds = [group_of(3, rank).seed(7) for rank in range(3)]
    assert seeds[0] == 7 and len(set(seeds)) == 3


@pytest.mark.parametrize(
    ("seen", "learners", "parts"),
    [
        (["0", "1", "2", "3"], 2, [["0", "1"], ["2", "3"]]),
        (["4", "5"], 2, [["4"], ["5"]]),
        (["0", "1", "2"], 2, [["0"], ["1"]]),
        (["0"], 3, [["0"], ["0"], ["0"]]),
        (["0", "1"], 3, [["0"], ["1"], ["0"]]),
    ],
)
def test_gpus_of_a_machine_are_shared_out(seen: list[str], learners: int, parts: list[list[str]]) -> None:
    assert [list(own_gpus(seen, place, learners)) for place in range(learners)] == parts


def test_each_learner_needs_an_actor_and_a_whole_part_of_the_batch() -> None:
    assert [RunConfig.build("x", learners=number).actors for number in (1, 2, 4)] == [2, 2, 4]
    with pytest.raises(OutOfBounds, match="actors=2 for learners=3.*actors=3"):
        RunConfig.build("x", actors=2, learners=3, batch_size=33)
    with pytest.raises(OutOfBounds, match="batch_size=32 .*learners=3.*batch_size=33"):
        RunConfig.build("x", actors=3, learners=3, batch_size=32)
    with pytest.raises(OutOfBounds, match="actors=1"):
        RunConfig.build("x", actors=2, learners=2).replaced(actors=1)


def test_exploration_is_spread_over_the_environments_of_all_learners() -> None:
    config = RunConfig.build("x", algorithm="r2d2", learners=2, actors=4, envs_per_actor=4, evaluation_envs_per_actor=1)
    alone = RunConfig.build("x", algorithm="r2d2", actors=4, envs_per_actor=4, evaluation_envs_per_actor=1)
    whole = roles.ranks(np.arange(16), alone).reshape(4, 4)
    for rank in range(2):
        own = roles.ranks(np.arange(8), config, 1, rank).reshape(2, 4)
        assert np.array_equal(own, whole[rank::2])


def test_looks_at_several_learners_are_joined_into_one() -> None:
    first = Activity({"training": [1.0, 1.0, 2]}, {"loss": 1.0, "policy_lag_max": 3.0, "replay_unrolls": 5.0},
                 {"policy_lag": ([0.0, 1.0, 2.0], [4, 1])}, (5, 10), 1, 2, {"0": {"steps": 3}}, [])
    second = Activity({"training": [3.0, 3.0, 2], "inference": [1.0, 1.0, 1]},
                  {"loss": 3.0, "policy_lag_max": 1.0, "replay_unrolls": 6.0},
                  {"policy_lag": ([0.0, 1.0], [2])}, (6, 10), 2, 2, {"1": {"steps": 4}}, [[1, 1, 1, 0.5]])
    found = joined([first, Activity(**second.to_json())])
    assert found.meters == {"training": [4.0, 4.0, 4], "inference": [1.0, 1.0, 1]}
    assert found.scalars == {"loss": 2.0, "policy_lag_max": 3.0, "replay_unrolls": 11.0}
    assert found.histograms == {"policy_lag": ([0.0, 1.0, 2.0], [6, 1])}
    assert (found.kept, found.connected, found.groups) == ([11, 20], 3, 4)
    assert list(found.actors) == ["0", "1"] and found.episodes == [[1, 1, 1, 0.5]]
    assert joined([first, Activity()]).scalars == first.scalars, "one that does not answer adds nothing"


def test_an_answer_that_comes_too_late_loses_no_episode(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_ASK_S", 0.3)
    run, unsent, busy = rundir.create("two", {"state": "training"}), Unsent(most=3), threading.Event()
    busy.set()

    def activity(heard: int) -> dict[str, Any]:
        episodes, first = unsent.after(heard)
        time.sleep(1.0 if busy.is_set() else 0.0)
        return Activity(episodes=episodes, first_episode=first).to_json()

    server = serve(run.learner_address(1), run.token(), calls={"activity": activity})
    try:
        peer = recorder.OtherLearner(run, 1)
        unsent.append([1])
        assert peer.activity().episodes == []
        busy.clear()
        unsent.append([2])
        assert [peer.activity().episodes for _ in range(2)] == [[[1], [2]], []]
        for number in range(3, 8):
            unsent.append([number])
        assert peer.activity().episodes == [[5], [6], [7]], "of too many the oldest are forgotten"
        unsent.append([8])
        assert peer.activity().episodes == [[8]]
    finally:
        server.stop(0.0)


def test_a_learner_that_ends_waits_until_the_leader_has_asked_for_its_last_episodes(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    forwarder, ended = recorder.Forwarder(SimpleNamespace(rank=1)), threading.Event()
    forwarder._unsent.append([1])
    assert forwarder.unsent(0) == ([[1]], 0)
    forwarder.hand_over()  # at once: nothing came since
    forwarder._unsent.append([2])
    ending = threading.Thread(target=lambda: (forwarder.hand_over(), ended.set()))
    ending.start()
    assert not ended.wait(0.2)
    assert forwarder.unsent(1) == ([[2]], 1)
    ending.join(1.0)
    assert ended.is_set()
    monkeypatch.setattr(recorder, "_ASK_S", 0.1)
    forwarder._unsent.append([3])
    forwarder.hand_over()  # though nobody asks


def test_only_what_torch_says_of_other_learners_is_their_loss() -> None:
    assert is_loss(RuntimeError("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error"))
    assert not is_loss(RuntimeError("CUDA out of memory")) and not is_loss(ValueError("gloo"))
    assert not is_loss(torch.OutOfMemoryError("no memory"))
