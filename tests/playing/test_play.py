"""`wb.play` in a program: real games in their own processes, advised by checkpoints of networks that nobody trained."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import psutil
import pytest

import workbench as wb
from tests.conftest import eventually, gone, mounted_disk
from tests.played import Starts, checkpoint_in, started_in
from workbench.environments import registration
from workbench.errors import EnvironmentFailed, InvalidInput, OutOfBounds, ShapeMismatch, StorageFailed, WorkbenchError
from workbench.playing import store
from workbench.rundir import sealed
from workbench.testing import CountingEnv
from workbench.widgets.episodes.player import RolloutPlayer, facts

COUNTING = {"life": 1, "episode_length": 9}


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory, module_home: Path) -> wb.Checkpoint:
    return checkpoint_in(tmp_path_factory.mktemp("counting"), "testing/counting-v0", network="mlp-lstm",
                         environment_options=COUNTING)


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory, module_home: Path) -> wb.Checkpoint:
    return checkpoint_in(tmp_path_factory.mktemp("cartpole"), "CartPole-v1")


@pytest.fixture
def game(cartpole: wb.Checkpoint) -> Iterator[wb.Game]:
    with wb.play(cartpole, seed=4) as played:
        yield played


def process_of(game: wb.Game) -> psutil.Process:
    return psutil.Process(game._process.pid)


def test_a_person_and_the_agent_take_turns_and_the_record_says_who_did_what(counting: wb.Checkpoint) -> None:
    with wb.play(counting) as game:
        assert (game.moment.playing, game.moment.step, game.moment.action) == ("person", 0, None)
        by_agent = []
        for step in range(9):
            if step == 3:
                game.hand_over()
            if step == 6:
                game.take_over()
            advice = game.advice
            assert advice is not None and advice.kind == "probability" and len(advice.scores) == 3
            mine = None if game.moment.playing == "agent" else (advice.action + 1) % 3  # type: ignore[operator]
            now = game.step(mine)
            by_agent.append(mine is None)
            assert now.action == (advice.action if mine is None else mine)
            assert (now.by, now.step, now.frames) == ("agent" if mine is None else "person", step + 1, step + 1)
            assert now.reward == pytest.approx(CountingEnv.expected_reward(0, step + 1))
        assert now.over == "terminated" and now.advice is None and game.advice is None
        kept = game.stop()
    assert kept is not None and kept.terminated and kept.steps == 9
    assert kept.by_person is not None and kept.by_person.tolist() == [not one for one in by_agent]
    assert [CountingEnv.decode(one).action for one in kept.observations][1:] == kept.actions.tolist()
    assert kept.episode_return == pytest.approx(now.episode_return) and "6 of them by a person" in repr(kept)
    assert [one.path for one in wb.attach(counting.path.parent.parent).rollouts] == [kept.path]
    assert np.array_equal(wb.rollout(kept.path).actions, kept.actions)  # type: ignore[arg-type]


@pytest.mark.full
def test_an_agent_that_plays_alone_plays_as_in_a_rollout(counting: wb.Checkpoint) -> None:
    plain = wb.rollout(counting, seed=3)
    with wb.play(counting, seed=3) as game:
        game.hand_over()
        while not game.moment.over:
            game.step()
        played = game.stop()
    assert played is not None
    for name in ("actions", "rewards", "values", "policy", "state_norm", "observation_rows"):
        np.testing.assert_allclose(getattr(played, name), getattr(plain, name), rtol=1e-5, err_msg=name)


@pytest.mark.full
def test_the_policy_remembers_what_the_person_did(counting: wb.Checkpoint) -> None:
    values = []
    for first in (0, 1):
        with wb.play(counting) as game:
            before = game.advice
            after = game.step(first).advice
            assert before is not None and after is not None
            values.append((before.value, after.value))
    assert values[0][0] == values[1][0] and values[0][1] != values[1][1]


@pytest.mark.full
def test_the_episode_is_shown_by_the_player_and_filmed(game: wb.Game, tmp_path: Path) -> None:
    assert game.moment.mime == "image/png" and game.moment.picture[:4] == b"\x89PNG"
    for key in ("ArrowLeft", "d", "ArrowRight", "ArrowRight"):
        game.press(key)
    game.step()
    played = game.stop()
    assert played is not None and played.actions[:4].tolist() == [0, 1, 1, 1] and not played.terminated
    assert played.frames is not None and played.frames.shape == (6, 400, 600, 3)
    assert facts(played)["chosen by"] == "a person 4, the agent 1 steps"
    assert "not played to its end" in RolloutPlayer([played]).still()["text/plain"]
    assert played.save(tmp_path / "played.gif", overlay=True).stat().st_size > 1000


@pytest.mark.full
def test_keeping_an_episode_does_not_end_it(game: wb.Game) -> None:
    with pytest.raises(InvalidInput, match="nothing was played yet"):
        game.keep()
    game.step(0)
    first = game.keep()
    assert first.steps == 1 and np.isfinite(first.values).all()
    game.step(1)
    second = game.keep()
    assert (second.steps, second.path) == (2, first.path)
    assert game.restart().step == 0 and game.moment.seed == 5 and game.moment.kept is None
    game.step(1)
    again = game.keep()
    assert again.path != second.path and len(list(first.path.parent.glob("[!.]*"))) >= 2  # type: ignore[union-attr]


def test_time_runs_at_the_pace_that_was_asked_for_and_the_held_key_acts(game: wb.Game) -> None:
    assert game.moment.turns and game.usual_rate == 50  # CartPole has no action that does nothing
    game.pace(speed=0.5, turns=False)
    game.hold("ArrowRight")
    begun = game.run()
    assert begun.running and begun.rate == 25
    over = eventually(lambda: game.moment.over, what="it falls to the right")
    assert over == "terminated" and not game.moment.running
    kept = game.stop()
    assert kept is not None and kept.actions.all() and kept.by_person.all()  # type: ignore[union-attr]


def test_an_agent_in_control_plays_by_the_clock_until_a_key_takes_over(game: wb.Game) -> None:
    game.hand_over()
    game.pace(speed=0.2)
    game.run()
    eventually(lambda: game.moment.step >= 1, what="steps of the agent")
    now = game.press("ArrowLeft")
    assert (now.playing, now.by, now.action) == ("person", "person", 0)
    game.pause()
    stands = game.moment.step
    assert game.step(1).step == stands + 1


def test_an_environment_is_played_without_an_agent(module_home: Path) -> None:
    with wb.play("ALE/Breakout-v5", frames_per_second=120, environment_options={"max_frames_per_episode": 40}) as game:
        assert game.moment.rate == 30 and not game.moment.turns and game.advice is None
        for wrong in (game.hand_over, game.step):
            with pytest.raises(InvalidInput, match="there is no agent"):
                wrong()
        now = game.press("Space")
        assert now.observation.shape == (1, 84, 84) and now.observation.max() > 0
        assert (now.step, now.frames) == (1, 4) and game.in_words(now.action) == "FIRE"
        while not now.over:
            now = game.press("ArrowLeft", "w")  # Breakout has no way up
        played = game.stop()
    assert played is not None and played.truncated and played.algorithm == "" and np.isnan(played.values).all()
    assert played.frames is not None and played.frames.shape == (11, 210, 160, 3)
    assert "played by a person, seed 0" in RolloutPlayer([played]).still()["text/plain"]


@pytest.mark.full
def test_an_exported_policy_advises(cartpole: wb.Checkpoint, tmp_path: Path) -> None:
    with wb.play(wb.export_policy(cartpole, target=tmp_path / "policy")) as game:
        assert game.advice is not None
        game.step()
        played = game.stop()
    assert played is not None and played.path is not None and "rollouts" in str(played.path)


class Wide(gymnasium.Env[Any, Any]):
    """Takes two numbers, and fails at the third step."""

    observation_space = gymnasium.spaces.Box(-9, 9, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-3, 3, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        print("an environment may print", flush=True)
        if self.steps == 3:
            raise RuntimeError("it broke")
        return np.asarray(action, np.float32), 1.0, False, False, {}


def test_what_an_environment_raises_is_told_and_the_episode_before_it_kept(tmp_path: Path) -> None:
    with wb.play(checkpoint_in(tmp_path, Wide)) as game:
        assert game.moment.picture == b"" and game.moment.observation.tolist() == [0.0, 0.0]
        assert game.press("ArrowRight", "ArrowDown").observation.tolist() == [3.0, -3.0]
        assert game.step([np.float32(0.5), np.int64(1)]).observation.tolist() == [1.5, 3.0]
        with pytest.raises(EnvironmentFailed, match="it broke"):
            game.step([0, -2], own_units=True)
        assert game.moment.over == "failed" and game.moment.failure.endswith("raised RuntimeError in step: it broke")
        with pytest.raises(InvalidInput, match="over"):
            game.step([0, 0])
        played = game.stop()
    assert played is not None and played.steps == 2 and "raised" in played.note
    np.testing.assert_allclose(played.actions, [[1, -1], [0.5, 1]])


class Asking(Wide):
    def step(self, action: Any) -> Any:
        input("which way? ")


def test_an_environment_that_reads_standard_input_finds_it_empty_and_takes_no_command(tmp_path: Path) -> None:
    with wb.play(checkpoint_in(tmp_path, Asking)) as game, pytest.raises(EnvironmentFailed, match="EOFError"):
        game.step([0, 0])


class Drawn(gymnasium.Env[Any, Any]):
    """Counts to `end`, and draws itself."""

    metadata: ClassVar = {"render_modes": ["rgb_array"]}
    observation_space = gymnasium.spaces.Box(0, 99, (40,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, end: int = 3, render_mode: str | None = None) -> None:
        self.end, self.render_mode = end, render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps = 0
        return np.zeros(40, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.full(40, self.steps, np.float32), float(action), self.steps == self.end, False, {}

    def render(self) -> Any:
        return np.zeros((20, 30, 3), np.uint8)


def test_a_scripted_expert_plays_a_class_and_sees_all_numbers_beside_the_picture(module_home: Path) -> None:
    with wb.play(Drawn, environment_options={"end": 4}) as game:
        while not (now := game.moment).over:
            assert now.picture and now.observation.tolist() == [float(now.step)] * 40
            game.step(now.step % 2)
        kept = game.stop()
    assert kept is not None and (kept.steps, kept.episode_return, kept.environment) == (4, 2.0, "Drawn")
    with pytest.raises(InvalidInput, match="option of Drawn 'ends'. Did you mean 'end'"):
        wb.play(Drawn, environment_options={"ends": 4})
    with pytest.raises(InvalidInput, match=r"is made already, and a game makes its own: wb.play\(Drawn\)"):
        wb.play(Drawn())  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="nobody plays in Drawn but you"):
        wb.play(Drawn, environment=Drawn)


def test_a_killed_game_of_a_class_goes_on_where_the_class_is_given(
    module_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "_factories", {"drawn-v0": Drawn})
    try:
        game = wb.play("drawn-v0")
        game.step(1)
        process_of(game).kill()
        eventually(lambda: not game.alive)
    finally:
        monkeypatch.undo()
    journal = game.journal
    assert journal is not None
    assert game._going_on(journal) == f"wb.play({str(journal)!r})", "its name is registered"
    with pytest.raises(InvalidInput, match="'drawn-v0'.*give it: environment=YourClass"):
        wb.play(journal)
    with wb.play(journal, environment=Drawn) as again:
        assert (again.moment.step, again.moment.episode_return) == (1, 1.0)
    with wb.play(Drawn) as game:
        assert game._going_on(journal) == f"wb.play({str(journal)!r}, environment=Drawn)"


def test_a_wrong_action_is_named_and_changes_nothing(game: wb.Game) -> None:
    wrong: list[tuple[Any, str]] = [(2, r"action 2 is not in \[0, 2\)"), (0.5, "integers"), ("left", "integers"),
                                    (np.array([1]), r"has the shape \[1\], and an action here is one number"),
                                    (True, "integers")]
    for action, said in wrong:
        with pytest.raises(ShapeMismatch, match=said):
            game.step(action)
        assert game.moment.step == 0
    with pytest.raises(InvalidInput, match="<class .*Drawn'> is no action: give a number"):
        game.step(Drawn)
    with pytest.raises(InvalidInput, match="'z' mean no action of CartPole-v1: ArrowLeft, a: left"):
        game.press("z")


@pytest.mark.parametrize(("source", "how", "error", "said"), [
    ("nowhere", {}, InvalidInput, "'nowhere' is no run, no checkpoint and no environment"),
    ("CartPole-v1", {"seed": -1}, OutOfBounds, "seed=-1"),
    ("CartPole-v1", {"frames_per_second": 0}, OutOfBounds, "frames_per_second=0"),
    ("CartPole-v1", {"keys": {"ArrowLeft": 9}}, InvalidInput, "action 9"),
    ("CartPole-v1", {"environment_options": {"nonesuch": 1}}, InvalidInput, "nonesuch"),
    ("/nowhere/x.begun", {}, InvalidInput, "no episode to go on with"),
])
def test_what_cannot_be_played_is_said_before_anything_is_left(
    source: str, how: dict[str, Any], error: type[Exception], said: str, module_home: Path
) -> None:
    with pytest.raises(error, match=said):
        wb.play(source, **how)
    assert not children()


def children() -> list[psutil.Process]:
    found = []
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it ended meanwhile
            if "_play" in one.cmdline():
                found.append(one)
    return found


# --- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_the_process_ends_with_its_handle_and_keeps_the_episode(cartpole: wb.Checkpoint) -> None:
    game = wb.play(cartpole, seed=11)
    process = process_of(game)
    game.step(0)
    del game
    gc.collect()
    eventually(lambda: gone(process), what="the end of the process")
    [kept] = [one for one in wb.attach(cartpole.path.parent.parent).rollouts if one.seed == 11]
    assert kept.steps == 1 and not list(cartpole.path.parents[1].glob("rollouts/*.begun"))


@pytest.mark.full
def test_a_kernel_that_is_killed_takes_its_game_along_and_the_episode_is_kept(cartpole: wb.Checkpoint) -> None:
    code = ("import sys, workbench as wb\n"
            f"game = wb.play({str(cartpole.path)!r}, seed=12)\ngame.step(1)\n"
            "print('torch' in sys.modules, game._process.pid, flush=True)\nsys.stdin.read()")
    kernel = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert kernel.stdout is not None
        torch, pid = kernel.stdout.readline().split()
        game = psutil.Process(int(pid))
    finally:
        kernel.kill()
        kernel.communicate()
    assert torch == "False"
    eventually(lambda: gone(game), what="the end of the game")
    [kept] = [one for one in wb.attach(cartpole.path.parent.parent).rollouts if one.seed == 12]
    assert kept.actions.tolist() == [1]


@pytest.mark.full
@pytest.mark.parametrize("call", ["evaluate({!r}, episodes=1, max_steps=10**9)", "play({!r}).hand_over()"])
def test_a_kernel_that_is_killed_takes_along_what_an_environment_started(
    module_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    checkpoint, started = checkpoint_in(tmp_path, endless), tmp_path / "started"
    monkeypatch.setenv("STARTED", str(started))
    code = f"import sys, workbench as wb\nplayed = wb.{call.format(str(checkpoint.path))}\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as kernel:
        try:
            eventually(started.exists)
            processes = eventually(lambda: started_in(started))
        finally:
            kernel.kill()
    eventually(lambda: all(map(gone, processes)), what="the end of what it started")


def endless() -> Starts:
    return Starts(steps=10**9)


@pytest.mark.full
def test_a_game_whose_process_is_killed_has_ended_though_its_environment_forked_another(
    module_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = checkpoint_in(tmp_path, Starts)
    monkeypatch.setenv("STARTED", str(tmp_path / "started"))
    with wb.play(checkpoint) as game:
        os.kill(game._process.pid, 9)
        eventually(lambda: not game.alive)
        assert all(map(gone, started_in(tmp_path / "started")))


@pytest.mark.full
def test_an_episode_whose_process_is_killed_is_gone_on_with(cartpole: wb.Checkpoint) -> None:
    game = wb.play(cartpole, seed=13)
    for action in (0, 1, 0):
        game.step(action)
    saw = game.step(None)
    os.kill(game._process.pid, 9)
    with pytest.raises(WorkbenchError, match=r"exit code -9[\s\S]*not lost: wb.play\('.*begun'\) goes on with it"):
        eventually(lambda: game.step(1) and None)
    journal = game.journal
    assert journal is not None and len(store.read_journal(journal)[1]) == 4
    with wb.play(journal) as again:
        now = again.moment
        assert (now.step, now.by_person, now.episode_return, now.picture) == (4, 3, 4.0, saw.picture)
        assert now.advice is not None and saw.advice is not None
        assert now.advice.value == pytest.approx(saw.advice.value, rel=1e-5)
        again.step(1)
    assert not journal.exists()
    [kept] = [one for one in wb.attach(cartpole.path.parent.parent).rollouts if one.seed == 13]
    assert kept.steps == 5 and kept.by_person is not None and kept.by_person.tolist() == [True] * 3 + [False, True]


@pytest.mark.full
def test_stop_keeps_the_episode_of_a_process_that_was_killed(cartpole: wb.Checkpoint) -> None:
    game = wb.play(cartpole, seed=14)
    game.step(0)
    os.kill(game._process.pid, 9)
    eventually(lambda: not game.alive)
    kept = game.stop()
    assert kept is not None and kept.steps == 1 and game.journal is None
    assert not list(cartpole.path.parents[1].glob("rollouts/.*"))


@pytest.mark.full
def test_stop_trusts_the_code_that_the_call_trusted(tmp_path: Path) -> None:
    theirs = checkpoint_in(tmp_path, Wide)
    for file in sealed.files_in(theirs.path.parents[1] / "code"):
        file.write_bytes(sealed._MARK + bytes(sealed._SEAL_BYTES) + file.read_bytes()[sealed._SEALED_BYTES :])
    game = wb.play(theirs, trust_code=True)
    game.step()
    os.kill(game._process.pid, 9)
    eventually(lambda: not game.alive)
    kept = game.stop()
    assert kept is not None and kept.steps == 1


class Unlike(Wide):
    """No two of its episodes are the same."""

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), time.time() % 9, False, False, {}


@pytest.mark.full
def test_an_episode_that_does_not_repeat_itself_is_not_made_up(tmp_path: Path) -> None:
    game = wb.play(checkpoint_in(tmp_path, Unlike))
    game.step()
    os.kill(game._process.pid, 9)
    eventually(lambda: not game.alive)
    with pytest.raises(EnvironmentFailed, match="does not repeat itself: .* step 1 gave the reward"):
        game.stop()
    assert game.journal is not None


@pytest.mark.full
def test_a_full_disk_leaves_the_journal(cartpole: wb.Checkpoint, tmp_path: Path) -> None:
    for disk in mounted_disk(tmp_path / "disk", size="3m"):
        exported = wb.export_policy(cartpole, target=tmp_path / "policy")
        before = os.environ["WORKBENCH_HOME"]
        os.environ["WORKBENCH_HOME"] = str(disk)
        try:
            with wb.play(exported) as game:
                game.step(0)
                with open(disk / "filler", "wb") as filler, suppress(OSError):
                    filler.write(bytes(4 * 2**20))
                with pytest.raises(StorageFailed, match="No space left.*not lost: wb.play"):
                    for action in [1, 0] * 200:
                        if game.step(action).over:
                            game.restart()
                assert game.moment.over == "failed"
        finally:
            os.environ["WORKBENCH_HOME"] = before


@pytest.mark.full
def test_nothing_is_kept_of_a_game_that_nobody_played(cartpole: wb.Checkpoint) -> None:
    with wb.play(cartpole, seed=15) as game:
        process = process_of(game)
        assert game.stop() is None
    assert gone(process) and "ended" in repr(game)
    assert not [one for one in wb.attach(cartpole.path.parent.parent).rollouts if one.seed == 15]
