"""The code on the card of an .onnx file, and that of the documentation, acts as the policy does, by the file alone."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

import workbench as wb
from tests.played import checkpoint_in
from tests.running.test_mixed_actions import Named
from workbench.checkpoints import Checkpoint
from workbench.environment_spec import ActionPart, ActionSpec, EnvironmentSpec, Part
from workbench.environments.adapters.action_spaces import actions_of
from workbench.playing import export, onnx_contract
from workbench.playing.worker import onnx_export
from workbench.policies.gymnasium_policy import Policy

TOOLS = Path(__file__).parents[2] / "docs" / "tools.md"


@pytest.fixture(autouse=True)
def needed() -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)


class Recorded(gymnasium.Wrapper):
    """Cuts episodes after 12 steps, and compares each action with the policy's."""

    def __init__(self, env: gymnasium.Env, checkpoint: Checkpoint) -> None:
        super().__init__(env)
        self.policy, self.steps = Policy(checkpoint, env, greedy=True, seed=0), 0

    def reset(self, **options: Any) -> Any:
        self.seen = super().reset(seed=7)
        self.reward = 0.0
        return self.seen

    def step(self, action: Any) -> Any:
        expected = self.policy.act(self.seen[0], self.reward)
        assert self.action_space.contains(action)
        for one, other in zip(flat(action), flat(expected), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4)
        self.steps += 1
        self.seen = super().step(action)
        self.reward = float(self.seen[1])
        return *self.seen[:3], self.steps == 12 or self.seen[3], self.seen[4]


def flat(action: Any) -> list[Any]:
    return [action[name] for name in sorted(action)] if isinstance(action, dict) else [action]


def played(code: str, env: Recorded, monkeypatch: pytest.MonkeyPatch) -> int:
    """The steps of the episode that this code plays in that environment."""
    monkeypatch.setattr(gymnasium, "make", lambda name: env)
    exec(code, {})
    return env.steps


def exported(checkpoint: Checkpoint, target: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """As wb.export_policy in this process: the code on the card."""
    monkeypatch.setattr(export.worker_process, "answer_of", lambda entry, request, **_: json.loads(json.dumps(
        onnx_export._export(**request))))
    monkeypatch.chdir(target.parent)
    wb.export_policy(checkpoint, target=target)
    card = target.with_suffix(".md").read_text()
    assert "docs/" not in card.partition("## Hyperparameters")[0]
    return re.findall(r"^```python\n(.*?)^```", card, re.M | re.S)[0]


def seeing(space: Any) -> type[gymnasium.Env[Any, Any]]:
    """An environment with noise of this space."""

    class Seeing(gymnasium.Env[Any, Any]):
        observation_space, action_space = space, gymnasium.spaces.Discrete(3)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.observation_space.seed(seed)
            return self.observation_space.sample(), {}

        def step(self, action: Any) -> Any:
            return self.observation_space.sample(), float(action), False, False, {}

    return Seeing


@pytest.mark.parametrize(("environment", "fields", "documented"), [
    ("CartPole-v1", {"algorithm": "ppo"}, "cartpole.onnx"),
    ("Pendulum-v1", {"algorithm": "sac"}, "pendulum.onnx"),
])  # fmt: skip
def test_the_card_and_the_documentation_act_as_the_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: str, fields: dict[str, Any], documented: str
) -> None:
    one, env = checkpoint_in(tmp_path, environment, **fields), gymnasium.make(environment)
    card = exported(one, tmp_path / documented, monkeypatch)
    (docs,) = (block for block in re.findall(r"^```python\n(.*?)^```", TOOLS.read_text(), re.M | re.S)
               if f'InferenceSession("{documented}")' in block)
    for code in (card, docs):
        assert played(code, Recorded(env, one), monkeypatch) > 5


@pytest.mark.full
@pytest.mark.parametrize(("environment", "fields"), [
    (Named, {"network": "mlp-lstm"}), ("testing/catch-v0", {"frame_stack": 3}), ("Pendulum-v1", {"algorithm": "ppo"}),
    ("testing/recall-v0", {"network": "mlp-lstm", "algorithm": "r2d2"}),
    ("CartPole-v1", {"network": "mlp", "algorithm": "r2d2"}),  # whose file has one output
    (seeing(gymnasium.spaces.Box(0, 255, (32, 32, 3), np.uint8)), {}),
    (seeing(gymnasium.spaces.Box(0, 255, (36, 32), np.uint8)), {"frame_stack": 2}),
    (seeing(gymnasium.spaces.Box(-1, 1, (2, 3), np.float32)), {"frame_stack": 2}),
    (seeing(gymnasium.spaces.Discrete(5, start=2)), {"frame_stack": 2}),
    (seeing(gymnasium.spaces.MultiDiscrete([[2, 3], [4, 2]])), {}),
    (seeing(gymnasium.spaces.Tuple([gymnasium.spaces.MultiBinary(3), gymnasium.spaces.Discrete(4)])), {}),
    (seeing(gymnasium.spaces.Dict({"0": gymnasium.spaces.Discrete(4), "²": gymnasium.spaces.Box(0, 1, (2,))})), {}),
    (seeing(gymnasium.spaces.Dict(at=gymnasium.spaces.Discrete(5), action_mask=gymnasium.spaces.MultiBinary(3))), {}),
    (seeing(gymnasium.spaces.Dict({
        "camera": gymnasium.spaces.Box(0, 255, (24, 24, 3), np.uint8), "speeds": gymnasium.spaces.Box(-1, 1, (2, 2)),
        "lamps": gymnasium.spaces.MultiBinary((3, 16, 16))})), {}),
])  # fmt: skip
def test_the_card_acts_as_the_policy_with_memory_stacks_and_mixed_actions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: Any, fields: dict[str, Any]
) -> None:
    one = checkpoint_in(tmp_path, environment, **fields)
    env = gymnasium.make(environment) if isinstance(environment, str) else environment()
    assert played(exported(one, tmp_path / "it.onnx", monkeypatch), Recorded(env, one), monkeypatch) > 3


def spaces() -> Iterator[Any]:
    from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

    yield Discrete(3, start=5)
    yield MultiDiscrete([2, 3], start=[1, 0])
    yield MultiDiscrete(np.array([[2, 3], [4, 2]]))
    yield MultiBinary(3)
    yield MultiBinary([2, 2])
    yield Box(-2, 2, (1,), np.float32)
    yield Box(np.array([[0, -1], [-3, 2]], np.float32), np.array([[1, 5], [3, 3]], np.float32))
    yield Dict({"a": Box(0, 9, (2,), np.float32), "b": Discrete(2, start=1), "c": MultiBinary(2)})


@pytest.mark.parametrize("space", list(spaces()), ids=str)
def test_its_expressions_make_the_actions_of_a_space(space: Any) -> None:
    from torch import from_numpy

    from workbench.algorithms.distributions import distribution_of

    actions, to_native = actions_of(space, "x")
    spec = EnvironmentSpec.from_json(json.loads(json.dumps(EnvironmentSpec(
        "x", (4,), "float32", actions.encoded_size, actions=actions).to_json())))
    acting = onnx_contract.acting(spec, output="policy_logits")
    x = np.random.default_rng(0).normal(size=actions.parameters).astype(np.float32)
    made = {part["name"]: eval(part["action"], {"x": x, "np": np, **{
        bound: np.array(part[bound], "float32") for bound in ("low", "high") if bound in part}})
        for part in acting["parts"]}
    distribution = distribution_of(actions)
    sent = distribution.to_environment(distribution.mode(from_numpy(x[None]))).numpy()
    expected = to_native(sent)
    for name, action in made.items():
        whole = np.asarray(expected[name] if name else expected)[0]
        # a Box of axes is given in them; one axis as it is
        np.testing.assert_allclose(np.reshape(action, whole.shape), whole, atol=1e-5)
        assert np.shape(action) == whole.shape


def test_bounds_that_are_not_known_are_said_to_be_so() -> None:
    parts = (ActionPart("a", ActionSpec("tanh_normal", (0,))), ActionPart("b", ActionSpec("categorical", (2,))))
    spec = EnvironmentSpec("x", (4,), "float32", 1, actions=ActionSpec("mixed", (0, 2), parts))
    acting = onnx_contract.acting(spec, output="policy_logits", note="Mine acts by a method of its own")
    assert [("low" in part, part["numbers"]) for part in acting["parts"]] == [(False, [0, 2]), (False, [2, 4])]
    facts = {"inputs": {"observation": ["float32", [1, 1, 4]], "previous_action": ["float32", [1, 1, 2]]},
             "outputs": ["policy_logits", "value"], "acting": acting}
    code = onnx_contract.code("x.onnx", spec=spec, facts=facts)
    assert "put those of the action space here" in code and "# Mine acts by a method of its own" in code
    compile(code, "card", "exec")


def test_what_is_exported_is_as_readable_as_the_umask_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = checkpoint_in(tmp_path, "CartPole-v1")
    before = os.umask(0o027)
    try:
        exported(one, tmp_path / "it.onnx", monkeypatch)
        folder = wb.export_policy(one, target=tmp_path / "taken")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode)
             for path in (folder, *folder.iterdir(), tmp_path / "it.onnx", tmp_path / "it.md")}
    assert modes.pop("taken") == 0o750 and set(modes.values()) == {0o640}


@pytest.mark.parametrize("parts", [
    (Part("view", (3, 6, 6), "uint8"), Part("board/own", (1, 5, 5), "bits"), Part("way", (2,), "float32")),
    (Part("", (2, 5, 5), "bits"),), (Part("pose", (4,), "float32"),)])
def test_the_code_stacks_each_array_of_an_observation(parts: tuple[Part, ...]) -> None:
    size = sum(part.wire_bytes for part in parts)
    spec = EnvironmentSpec("x", (size,), "uint8", 3, frame_stack=3, parts=parts)
    vectors = {part.name: gymnasium.spaces.Box(0, 255, part.shape) for part in parts if len(part.shape) == 1}
    random, names = np.random.default_rng(0), {"np": np, "gymnasium": gymnasium}
    names["env"] = SimpleNamespace(observation_space=gymnasium.spaces.Dict(vectors))
    exec(onnx_contract._PLANES, names)
    exec("\n".join(onnx_contract._stacks(spec)), names)
    seen: dict[str, list[np.ndarray]] = {part.name: [np.zeros(part.shape)] * 2 for part in parts}
    for _ in range(5):
        names["observation"] = {}
        for part in parts:
            shown = (random.integers(0, 2, part.shape).astype(bool) if part.dtype == "bits"
                     else (random.random(part.shape) * 255).astype(part.dtype))
            seen[part.name].append(shown * (255 if part.dtype == "bits" else 1))
            given = np.moveaxis(shown, 0, -1) if part.shape[0] == 3 else shown
            *outer, last = part.name.split("/")
            if not part.name:
                names["observation"] = given
            else:
                place = names["observation"]
                for key in outer:
                    place = place.setdefault(key, {})
                place[last] = given
        exec("\n".join(onnx_contract._pushed(spec)), names)
        for (called, python), part, stacked in zip(onnx_contract._seen(spec), parts, spec.seen, strict=True):
            array = eval(python, names)
            assert called == f"observation.{part.name}".rstrip(".")
            assert (array.shape, str(array.dtype)) == ((1, 1, *stacked.shape), stacked.dtype)
            assert np.array_equal(array[0, 0], np.concatenate(seen[part.name][-3:]))
