"""The tap: what it shows is what inference saw and did, step by step; it costs nothing once nobody asks."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import torch

from tests.conftest import eventually
from tests.learner.counting import Rig, actor, expected_value, rig
from workbench.algorithms import PolicyValueOutput, QValueOutput
from workbench.algorithms.r2d2.agent import R2D2
from workbench.algorithms.r2d2.config import R2D2Config
from workbench.algorithms.vtrace.agent import VTrace
from workbench.algorithms.vtrace.config import VTraceConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import InvalidInput
from workbench.learner.inference import watch_tap
from workbench.learner.inference.watch_tap import Tap, thought
from workbench.testing import Count, CountingEnv
from workbench.trajectory import Flags, Unroll
from workbench.wire import columns

IMAGE = EnvironmentSpec("testing/counting-v0", (1, 36, 36), "uint8", 3, frame_stack=2)
CHOICES = EnvironmentSpec("x", (1,), "float32", 2)
LENGTHS = [7, 3]
SMALL = {"actors": 1, "envs_per_actor": 4, "groups_per_actor": 2, "max_batch": 4, "unroll_length": 5,
         "frame_stack": 2}


def watched(running: Rig, env_id: int, steps: int) -> dict[str, Any]:
    """Columns of the next `steps` steps or more, asked for again and again."""
    tap, cursor, parts, first = running.inference.tap, "", [], 0
    while sum(len(part["reward"]) for part in parts) < steps:
        told = tap.since(env_id, cursor, observation_bytes=running.spec.observation_bytes)
        if told["steps"]:
            assert told["missed"] == 0 and told["first"] == first
            first += told["steps"]
            parts.append(columns.received(told))
        cursor = told["cursor"]
        running.collect(1)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def where_in_unrolls(running: Rig, env_id: int) -> dict[Count, tuple[Unroll, int]]:
    """The unroll, and the place in it, of each step of that environment."""
    return {CountingEnv.decode(unroll.observation[t]): (unroll, t)
            for unroll in running.unrolls if unroll.env_id == env_id for t in range(len(unroll.reward))}


@pytest.mark.parametrize("algorithm", ["vtrace", "r2d2"])
def test_the_steps_shown_are_those_of_the_unrolls(algorithm: str) -> None:
    more = {"burn_in": 2} if algorithm == "r2d2" else {}
    options = {"episode_length": LENGTHS, "ends": "alternate", "image": True}
    with (
        rig(IMAGE, algorithm=algorithm, environment_options=options, **SMALL, **more) as running,
        actor(running.run, 0),
    ):
        seen = watched(running, 2, 60)
        counts = [CountingEnv.decode(frame) for frame in seen["observation"]]
        while counts[-1] not in where_in_unrolls(running, 2):
            running.collect(1)
    for t, (before, after) in enumerate(zip(counts[:-1], counts[1:], strict=True)):
        follows = (before.episode, before.step + 1) if after.step else (before.episode + 1, 0)
        assert (after.episode, after.step) == follows, f"step {t} is not followed by its next"
        assert after.action in (seen["action"][t], -1)
    by_count = where_in_unrolls(running, 2)
    compared = 0
    for t, count in enumerate(counts):
        assert seen["value"][t] == pytest.approx(shown_value(algorithm, expected_value(count.step, 2)), rel=1e-5)
        assert seen["state_norm"][t] == count.step + 1
        rewards = [CountingEnv.expected_reward(count.episode, step) for step in range(count.step + 1)]
        assert seen["episode_return"][t] == pytest.approx(sum(rewards), rel=1e-5)
        assert seen["episode_step"][t] == count.step
        assert bool(seen["flags"][t] & Flags.START) == (count.step == 0)
        if count in by_count:
            unroll, at = by_count[count]
            assert (seen["action"][t], seen["reward"][t]) == (unroll.action[at], unroll.reward[at])
            compared += 1
    assert compared > 50
    if algorithm == "vtrace":
        np.testing.assert_allclose(seen["scores"], 1 / 3, rtol=1e-6)
    assert np.all(np.diff(seen["time_s"]) >= 0)


def shown_value(algorithm: str, said: float) -> float:
    if algorithm == "vtrace":
        return said
    epsilon = R2D2Config().value_rescaling_epsilon  # what the network says is rescaled; people see returns
    roots = np.roots([epsilon, 1 + 2 * epsilon, -said])
    u = float(roots[roots > 0][0])
    return u * (u + 2)


def test_nothing_is_kept_while_nobody_watches_and_nothing_after_a_while() -> None:
    with (
        rig(IMAGE, environment_options={"image": True}, **SMALL) as running,
        actor(running.run, 0),
    ):
        tap = running.inference.tap = Tap(linger_s=1.0)
        running.collect(8)
        assert not tap.watched
        first = tap.since(0, observation_bytes=IMAGE.observation_bytes)
        assert first["steps"] == 0 and tap.watched == [0]

        def more() -> dict[str, Any] | None:
            running.collect(1)
            told = tap.since(0, first["cursor"], observation_bytes=IMAGE.observation_bytes)
            return told if told["steps"] else None

        again = eventually(more, what="steps of who is watched")
        asked = time.monotonic()
        eventually(lambda: (running.collect(1), not tap.watched)[1], what="the tap is off again")
        assert time.monotonic() - asked > 0.9
        anew = tap.since(0, again["cursor"], observation_bytes=IMAGE.observation_bytes)
        assert anew["cursor"].partition(":")[0] != again["cursor"].partition(":")[0], "steps were lost in between"


def seen(action: int) -> dict[str, Any]:
    return {
        "observation": np.full((2, 3), action, np.float32), "reward": 0.5, "flags": 0, "action": action,
        "episode_return": 1.0, "episode_step": action, "policy_version": 3, "kind": "probability",
        "scores": [0.25, 0.75], "value": 2.0, "state_norm": float("nan"),
    }


def test_what_does_not_fit_is_counted_as_missed_and_the_newest_is_kept() -> None:
    tap = Tap()
    cursor = tap.since(5, observation_bytes=24)["cursor"]
    for action in range(watch_tap.MOST_STEPS + 10):
        tap.record(5, **seen(action))
        tap.record(6, **seen(action))  # which nobody watches
    told = tap.since(5, cursor, observation_bytes=24)
    assert (told["steps"], told["first"], told["missed"]) == (watch_tap.MOST_STEPS, 10, 10)
    shown = columns.received(told)
    assert shown["action"].tolist() == list(range(10, watch_tap.MOST_STEPS + 10))
    assert shown["observation"].shape == (watch_tap.MOST_STEPS, 2, 3) and shown["observation"].dtype == np.float32
    assert tap.since(5, told["cursor"], observation_bytes=24)["steps"] == 0


def test_large_observations_are_kept_in_smaller_number() -> None:
    tap = Tap()
    large = watch_tap.MOST_BYTES // 20
    tap.since(0, observation_bytes=large)
    for action in range(50):
        tap.record(0, **seen(action))
    assert tap.since(0, observation_bytes=large)["steps"] == 20


def test_a_few_environments_can_be_watched_at_once_and_one_more_is_refused_in_words() -> None:
    tap = Tap(linger_s=0.2)
    for env_id in range(watch_tap.MOST_WATCHED):
        tap.since(env_id, observation_bytes=4)
    with pytest.raises(InvalidInput, match=r"4 environments of this run are watched already \(0, 1, 2, 3\)"):
        tap.since(9, observation_bytes=4)
    eventually(lambda: not tap.rows(np.arange(10)))
    assert tap.since(9, observation_bytes=4)["steps"] == 0


def test_a_batch_names_the_rows_that_are_watched() -> None:
    tap = Tap()
    for env_id in (7, 2):
        tap.since(env_id, observation_bytes=4)
    assert sorted(tap.rows(np.array([4, 5, 6, 7, 0, 1, 2]))) == [(3, 7), (6, 2)]
    assert tap.rows(np.array([0, 1])) == []


def test_what_the_network_says_is_shown_as_probabilities_or_as_returns() -> None:
    logits = torch.log(torch.tensor([[[0.1, 0.9], [0.5, 0.5]]]))
    vtrace = VTrace(VTraceConfig(), spec=CHOICES)
    said = thought(PolicyValueOutput(logits, torch.tensor([[2.0, 3.0]])), (), 1, algorithm=vtrace,
                   config=VTraceConfig())
    assert said["kind"] == "probability" and said["value"] == 3.0
    assert said["scores"] == pytest.approx([0.5, 0.5]) and np.isnan(said["state_norm"])
    state = (torch.tensor([[3.0, 0.0], [0.0, 0.0]]), torch.tensor([[0.0, 4.0], [0.0, 0.0]]))
    q_values = QValueOutput(torch.tensor([[[1.0, -2.0], [0.0, 0.0]]]))
    config = R2D2Config(value_rescaling=False)
    said = thought(q_values, state, 0, algorithm=R2D2(config, spec=CHOICES), config=config)
    assert said == {"kind": "q_value", "scores": [1.0, -2.0], "value": 1.0, "state_norm": 5.0}
