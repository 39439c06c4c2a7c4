"""What the process of a game does, here in this one: advice of every kind, the person's actions, several agents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.environments.games import CountingGame
from tests.learner.test_rollout_kinds import KINDS, SPECS, Kinds
from tests.played import checkpoint_in
from workbench.checkpoints import Checkpoint
from workbench.playing import rollout
from workbench.playing.worker.game_server import WorkerGame
from workbench.testing import CountingEnv

Told = list[dict[str, Any]]


@contextmanager
def playing(checkpoint: Checkpoint, folder: Path, **request: Any) -> Iterator[tuple[WorkerGame, Told]]:
    told: Told = []
    game = WorkerGame({"source": str(checkpoint.path), "trust_code": False, "environment": "", "options": {}, "seed": 0,
                       "greedy": True, "folder": str(folder), "stem": "played", "journal": "", "title": "t", **request},
                      lambda message, picture: told.append(message))
    try:
        game.say(0)
        yield game, told
    finally:
        game.end()


@pytest.mark.parametrize("kind", SPECS)
def test_the_person_acts_in_every_kind_of_action_and_the_policy_is_told(tmp_path: Path, kind: str) -> None:
    checkpoint = checkpoint_in(tmp_path, Kinds, environment_options={"kind": kind})
    mine = {"parts": [2, 1], "switches": [1, 0, 1], "numbers": [-1, 0.25], "mixed": [2, 1, 0, 0.25]}[kind]
    numbers = {"numbers": [0, 1], "mixed": [3]}.get(kind, [])  # the network gets u of tanh(u)
    with playing(checkpoint, tmp_path / "kept") as (game, told):
        game.do({"do": "step", "id": 1, "action": mine})
        assert told[-1]["state"]["action"] == mine and told[-1]["state"]["by"] == "person"
        seen = game._player.inputs[1][0, 0].numpy().copy()  # type: ignore[union-attr]
        seen[numbers] = np.tanh(seen[numbers])
        np.testing.assert_allclose(seen, mine, atol=1e-5)
        advice = told[-1]["state"]["advice"]
        assert advice["kind"] == KINDS[kind]
        game.do({"do": "step", "id": 2, "action": None})
        np.testing.assert_allclose(told[-1]["state"]["action"], advice["action"])
    [kept] = [rollout.load(path) for path in (tmp_path / "kept").iterdir()]
    assert kept.by_person is not None and kept.by_person.tolist() == [True, False] and kept.action_spec == SPECS[kind]


def test_q_values_are_advice_in_units_of_return(tmp_path: Path) -> None:
    checkpoint = checkpoint_in(tmp_path, "testing/catch-v0", algorithm="r2d2")
    with playing(checkpoint, tmp_path / "kept") as (_, told):
        advice = told[-1]["state"]["advice"]
    assert advice["kind"] == "q_value" and advice["value"] == max(advice["scores"])
    assert advice["action"] == int(np.argmax(advice["scores"])) and not (tmp_path / "kept" / "played-0-seed0").exists()


def test_of_a_game_of_several_the_person_is_the_first_and_the_policy_the_others(tmp_path: Path) -> None:
    lengths = (3, 5)
    checkpoint = checkpoint_in(tmp_path, partial(CountingGame, lengths=lengths, number=1), agents=2)
    with playing(checkpoint, tmp_path / "kept") as (game, told):
        for action in (2, 0, 1):
            game.do({"do": "step", "id": 1, "action": action})
        assert told[-1]["state"]["over"] == "terminated"
        assert "over" in (game.do({"do": "step", "id": 2, "action": 0}), told[-1]["error"]["message"])[1]
    [kept] = [rollout.load(path) for path in (tmp_path / "kept").iterdir()]
    assert kept.actions.tolist() == [2, 0, 1] and kept.terminated
    assert [CountingEnv.decode(one).action for one in kept.observations] == [-1, 2, 0, 1]
    assert kept.rewards == pytest.approx([CountingGame.reward(0, 0, step + 1) for step in range(3)])


def test_each_episode_has_its_own_seed_and_folder(tmp_path: Path) -> None:
    checkpoint = checkpoint_in(tmp_path, "CartPole-v1")
    with playing(checkpoint, tmp_path / "kept", seed=7) as (game, told):
        first = told[-1]["state"]
        game.do({"do": "step", "id": 1, "action": 0})
        game.do({"do": "keep", "id": 2})
        game.do({"do": "restart", "id": 3})
        assert (told[-1]["state"]["seed"], told[-1]["state"]["episode"], told[-1]["state"]["step"]) == (8, 1, 0)
        game.do({"do": "restart", "id": 4, "seed": 7})
        assert told[-1]["state"]["advice"] == first["advice"]  # nothing is left of the episodes before
        game.do({"do": "step", "id": 5, "action": 1})
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["played-0-seed7", "played-2-seed7"]
