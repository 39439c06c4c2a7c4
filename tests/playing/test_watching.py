"""What a look at an environment brings: what its actions are, and what can be drawn of its observations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from workbench.config import RunConfig
from workbench.environment_spec import ActionSpec, EnvironmentSpec, Part
from workbench.environments.observations import decode
from workbench.learner.inference.watch_tap import Tap
from workbench.playing.action_words import groups
from workbench.playing.watch import Watching
from workbench.widgets.episodes.watch_view import LiveView

PLANES = (Part("", (4, 8, 9), "bits"),)
VECTORS = (Part("goal", (2,), "float32"), Part("on", (3,), "bits"))
ACTIONS = {
    "multi_discrete": (ActionSpec("multi_discrete", (3, 2)), np.array([2, 0]), [0.2, 0.3, 0.5, 0.9, 0.1]),
    "bernoulli": (ActionSpec("bernoulli", (2, 2)), np.array([1, 0]), [0.7, 0.2]),
    "tanh_normal": (ActionSpec("tanh_normal", (0, 0)), np.array([0.5, -1], np.float32), [0.4, -0.9]),
    "mixed": (ActionSpec.mixed({"move": ActionSpec("categorical", (3,)), "go": ActionSpec("tanh_normal", (0,))}),
              np.array([2, -0.5], np.float32), [0.2, 0.3, 0.5, -0.25]),
}


class Learner:
    """Answers as a learner does whose tap has seen a few steps."""

    directory = SimpleNamespace(name="mine", config=lambda: RunConfig.build("CartPole-v1"))

    def __init__(self, spec: EnvironmentSpec) -> None:
        self.spec, self.tap = spec, Tap()

    def call(self, _: str, *, env: int, since: str, timeout_s: float) -> dict[str, Any]:
        told = self.tap.since(env, since, observation_bytes=self.spec.observation_bytes)
        names = tuple(map(str, range(self.spec.num_actions)))
        return {**told, "action_names": names, "environment": self.spec.to_json(), "state": "training", "reason": ""}

    def see(self, observations: np.ndarray, *, action: Any, scores: list[float], kind: str) -> None:
        for t, one in enumerate(observations):
            self.tap.record(0, observation=one, reward=0.5, flags=0, action=np.asarray(action), episode_return=0.5 * t,
                            episode_step=t, policy_version=0, kind=kind, scores=scores, value=1.0,
                            state_norm=float("nan"))


def spec_of(actions: ActionSpec, parts: tuple[Part, ...]) -> EnvironmentSpec:
    size = sum(part.wire_bytes for part in parts)
    return EnvironmentSpec("mine", (size,), "uint8", actions.encoded_size, actions=actions, parts=parts)


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("parts", [PLANES, VECTORS])
def test_actions_and_parts_of_every_kind_reach_the_page(kind, parts, monkeypatch):
    actions, action, scores = ACTIONS[kind]
    spec = spec_of(actions, parts)
    learner = Learner(spec)
    view = LiveView(Watching(learner, 0))  # type: ignore[arg-type]
    sent: list[tuple[dict[str, Any], list[bytes]]] = []
    monkeypatch.setattr(view, "send", lambda content, buffers=None: sent.append((content, buffers)))
    rows = np.random.default_rng(0).integers(0, 2, (5, *spec.observation_shape)).astype(np.uint8)
    learner.see(rows, action=action, scores=scores, kind="mean" if kind == "tanh_normal" else "probability")
    view.look()
    header = sent[-1][0]["header"]
    assert header["actions"] == kind and header["groups"] == [one._asdict() for one in groups(actions, ())]
    seen = view._looks[-1].columns
    assert seen["action"].tolist() == [action.tolist()] * 5
    assert seen["action"].dtype == (np.float32 if actions.dtype == "float32" else np.int32)
    np.testing.assert_allclose(seen["scores"], [scores] * 5)
    if parts is PLANES:
        assert header["shape"] == [4, 8, 9] and header["entries"] == []
        np.testing.assert_array_equal(seen["observation"], decode(rows, parts))
        assert "image/png" in view.still()
    else:
        assert header["entries"] == ["goal[0]", "goal[1]", "on[0]", "on[1]", "on[2]"] and header["shape"] == [5]
        np.testing.assert_array_equal(seen["observation"][:, :2], decode(rows, parts)["goal"])
    assert "action" in view.still()["text/plain"]
    view.close()


@pytest.mark.parametrize("shape", [(1, 6, 8), (3, 6, 8), (6, 8), (100,)])
def test_of_observations_of_many_numbers_the_first_are_shown(shape):
    spec = EnvironmentSpec("mine", shape, "float32", 2)
    learner = Learner(spec)
    view = LiveView(Watching(learner, 0))  # type: ignore[arg-type]
    rows = np.random.default_rng(0).normal(size=(5, *shape)).astype(np.float32)
    learner.see(rows, action=1, scores=[0.5, 0.5], kind="probability")
    view.look()
    header = view._header()
    assert header is not None and header["shape"] == [32] and header["entries"] == [f"x[{at}]" for at in range(32)]
    np.testing.assert_array_equal(view._looks[-1].columns["observation"], rows.reshape(5, -1)[:, :32])
    assert "action" in view.still()["text/plain"] and "image/png" not in view.still()
    view.close()
