"""ViZDoom against a slow replay of the same actions in a bare DoomGame, and what its engine processes leave behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from workbench.environments import make
from workbench.environments.contract import WithEndings, seeds_of
from workbench.errors import EnvironmentFailed, OutOfBounds, ShapeMismatch, UnknownName
from workbench.testing import check_environment
from workbench.trajectory import ENDS, Flags

vizdoom = pytest.importorskip("vizdoom", reason="the extra doom is not installed")

from workbench.environments.vizdoom.area_average import shrinking  # noqa: E402
from workbench.environments.vizdoom.family import names  # noqa: E402  # after the skip
from workbench.environments.vizdoom.scenarios import SCENARIOS  # noqa: E402


def area(old: int, new: int) -> np.ndarray:
    """The matrix that shrinks an axis by area: every new pixel is the mean of what it covers."""
    edges = np.arange(new + 1) * old / new
    low, high = np.maximum(edges[:-1, None], np.arange(old)), np.minimum(edges[1:, None], np.arange(old) + 1)
    return np.maximum(high - low, 0) * new / old


def shrunk(screen: np.ndarray, height: int, width: int) -> np.ndarray:
    return np.floor(area(screen.shape[1], height) @ screen @ area(screen.shape[2], width).T + 0.5).astype(np.uint8)


class BareGame:
    """A scenario in a DoomGame as its .cfg sets it up, the time limit kept by the engine itself."""

    def __init__(self, scenario: str, seed: int, directory: Path) -> None:
        game = vizdoom.DoomGame()
        game.load_config(f"{vizdoom.scenarios_path}/{scenario}.cfg")
        game.set_window_visible(False)
        game.set_screen_resolution(vizdoom.ScreenResolution.RES_160X120)
        game.set_screen_format(vizdoom.ScreenFormat.RGB24)
        game.set_doom_config_path(str(directory / "engine.ini"))
        game.init()
        self.game, self._seeds = game, np.random.default_rng(seed)

    def begin(self) -> np.ndarray:
        self.game.set_seed(int(self._seeds.integers(2**31)))
        self.game.new_episode()
        return self.screen()

    def screen(self) -> np.ndarray:
        return self.game.get_state().screen_buffer.transpose(2, 0, 1)


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # the bare engine writes into the working directory
    return tmp_path



def test_a_step_is_four_frames_of_the_bare_game_shrunk_by_area_with_its_reward(in_tmp: Path) -> None:
    rng = np.random.default_rng(5)
    bare = BareGame("basic", int(seeds_of(3, 1)[0]), in_tmp)
    ends = []
    with closing(make("vizdoom/basic", num_envs=1, seed=3)) as env, closing(bare.game):
        assert env.action_names == ("nothing", "left", "right", "attack")
        pressed = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
        np.testing.assert_array_equal(env.reset().observation[0], shrunk(bare.begin(), 72, 96))
        for _ in range(200):
            action = int(rng.choice(4, p=[0.3, 0.3, 0.3, 0.1]))
            batch = env.step(np.array([action]))
            assert batch.reward[0] == bare.game.make_action(pressed[action], 4)
            if bare.game.is_episode_finished():
                timeout = bare.game.is_episode_timeout_reached()
                ends.append(timeout)
                assert batch.flags[0] == (Flags.TRUNCATED if timeout else Flags.TERMINATED) | Flags.START
                screen = bare.begin()
            else:
                assert batch.flags[0] == 0 and batch.final_observation is None
                screen = bare.screen()
            np.testing.assert_array_equal(batch.observation[0], shrunk(screen, 72, 96))
    assert True in ends and False in ends  # both kinds of end were seen


def test_a_cut_off_episode_has_the_frame_at_its_limit_as_final_observation(in_tmp: Path) -> None:
    bare = BareGame("my_way_home", int(seeds_of(0, 1)[0]), in_tmp)
    with closing(make("vizdoom/my-way-home", num_envs=1, seed=0, options={"max_frames_per_episode": 10})) as env, \
            closing(bare.game):
        env.reset()
        bare.begin()
        turn = np.array([env.action_names.index("turn left")])
        flags = [int(env.step(turn).flags[0]) for _ in range(2)]
        batch = env.step(turn)  # two frames are left of ten
        bare.game.make_action([1, 0, 0, 0, 0], 10)
        assert flags == [0, 0] and batch.flags[0] == Flags.TRUNCATED | Flags.START
        assert batch.final_index.tolist() == [0] and batch.final_observation is not None
        np.testing.assert_array_equal(batch.final_observation[0], shrunk(bare.screen(), 72, 96))
        np.testing.assert_array_equal(batch.observation[0], shrunk(bare.begin(), 72, 96))


@pytest.mark.full
def test_the_scenarios_keep_the_contract() -> None:
    seen = check_environment("vizdoom/basic", steps=160)
    assert seen.truncated > 0 and seen.episodes > seen.truncated


@pytest.mark.full
def test_games_that_lose_their_endings_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WithEndings, "ending", lambda self, index: None)
    with pytest.raises(EnvironmentFailed, match="the rule 'ending'"):
        check_environment("vizdoom/basic", steps=20, options={"max_frames_per_episode": 40})


@pytest.mark.full
def test_a_match_keeps_the_contract_and_repeats_with_its_bots() -> None:
    seen = check_environment("vizdoom/deathmatch-bots", steps=40, options={"max_frames_per_episode": 80, "bots": 3})
    assert seen.truncated >= 6


def trajectory(name: str, *, threads: int, steps: int, **options: Any) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    found = []
    with closing(make(name, num_envs=3, seed=7, threads=threads, options=options)) as env:
        env.reset()
        for _ in range(steps):
            batch = env.step(rng.integers(env.spec.num_actions, size=3))
            found += [batch.observation, batch.reward, batch.flags]
    return found


def test_two_threads_give_the_same_trajectory_as_one() -> None:
    one = trajectory("vizdoom/defend-the-center", threads=1, steps=120)
    two = trajectory("vizdoom/defend-the-center", threads=2, steps=120)
    assert any(flags.any() for flags in one[2::3])
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


def test_death_terminates_with_the_penalty_of_the_scenario() -> None:
    with closing(make("vizdoom/health-gathering", num_envs=1, seed=0, show="endings")) as env:
        env.reset()
        rewards = []
        while True:
            batch = env.step(np.zeros(1, np.int64))
            rewards.append(float(batch.reward[0]))
            if batch.flags[0] & ENDS:
                break
            assert env.ending(0) is None
        assert batch.flags[0] == Flags.TERMINATED | Flags.START
        assert rewards[:-1] == [4.0] * (len(rewards) - 1) and -100 <= rewards[-1] <= -96
        ending = env.ending(0)
        assert ending is not None and ending.frame is not None and ending.frame.shape == (120, 160, 3)
        np.testing.assert_array_equal(ending.observation, shrunk(ending.frame.transpose(2, 0, 1), 72, 96))
        frame = env.render(0)
        assert frame is not None
        np.testing.assert_array_equal(shrunk(frame.transpose(2, 0, 1), 72, 96), batch.observation[0])


def test_the_score_of_a_match_is_its_frags_also_where_the_reward_is_shaped() -> None:
    rng = np.random.default_rng(0)
    actions = rng.integers(15, size=(150, 2))
    scores, rewards = {}, {}
    for shaping in (True, False):
        options = {"shaping": shaping, "bots": 5}
        with closing(make("vizdoom/deathmatch-bots", num_envs=2, seed=2, options=options)) as env:
            assert env.spec.scored
            first = env.reset()
            assert first.score is not None and not first.score.any()
            batches = [env.step(row) for row in actions]
            frags = [game._read()["FRAGCOUNT"] for game in env._games]  # type: ignore[attr-defined]
        scores[shaping] = np.array([batch.score for batch in batches])
        rewards[shaping] = np.array([batch.reward for batch in batches])
        assert scores[shaping].dtype == np.float32
        assert scores[shaping].sum(0).tolist() == frags
    assert scores[True].any()
    np.testing.assert_array_equal(scores[True], scores[False])
    np.testing.assert_array_equal(rewards[False], scores[False])
    assert (rewards[True] != scores[True]).any()


def test_a_scenario_without_a_match_has_no_score() -> None:
    with closing(make("vizdoom/take-cover", num_envs=1, seed=0)) as env:
        assert not env.spec.scored
        assert env.reset().score is None and env.step(np.array([1])).score is None


PROGRAM = """
import os, signal, sys
import numpy as np
from workbench.environments import make
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # as the actor's
env = make("vizdoom/basic", num_envs=2, seed=0)
env.reset()
env.step(np.zeros(2, np.int64))
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def player(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process with two games, which waits."""
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}) as process:
        yield process
        process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux's kernel to end the engines")
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_engines_end_with_their_process_and_leave_nothing(
    player: subprocess.Popen[str], sent: signal.Signals, tmp_path: Path
) -> None:
    assert player.stdout is not None and player.stdout.readline() == "ready\n"
    engines = [child for child in psutil.Process(player.pid).children() if child.name() == "vizdoom"]
    assert len(engines) == 2
    ids = [line[line.index("+viz_instance_id") + 1] for line in (engine.cmdline() for engine in engines)]
    player.send_signal(sent)
    player.wait(240)
    _, alive = psutil.wait_procs(engines, timeout=240)
    assert [one for one in alive if one.status() != psutil.STATUS_ZOMBIE] == []
    assert [file.name for file in Path("/dev/shm").iterdir() if any(one in file.name for one in ids)] == []
    assert list(tmp_path.iterdir()) == []  # nothing in the working directory either


@pytest.mark.skipif(sys.platform != "linux", reason="engines are started by a program in memory on Linux alone")
def test_engines_start_by_a_python_whose_path_has_a_blank_or_is_long(tmp_path: Path) -> None:
    folder = tmp_path / "it's a folder" / ("long" * 50) / ("longer" * 20)
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)
    code = PROGRAM.replace("env = make", f"sys.executable = {str(folder / 'python')!r}\nenv = make")
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", code], input="", text=True, capture_output=True, timeout=240,
                          env={**os.environ, "PYTHONPATH": path}, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "ready\n"), done.stderr


def test_an_engine_that_dies_is_told_with_the_number_of_its_game() -> None:
    with closing(make("vizdoom/basic", num_envs=2, seed=0)) as env:
        env.reset()
        identity = env._games[1]._game.get_instance_id()  # type: ignore[attr-defined]
        living = (one for one in psutil.Process().children() if one.status() != psutil.STATUS_ZOMBIE)
        engine, = (one for one in living if identity in one.cmdline())
        engine.kill()
        with pytest.raises(EnvironmentFailed, match=r"'vizdoom/basic' \(index 1\)"):
            for _ in range(3):
                env.step(np.zeros(2, np.int64))


def test_closing_ends_the_engines() -> None:
    before = set(psutil.Process().children())
    env = make("vizdoom/basic", num_envs=2, seed=0)
    engines = set(psutil.Process().children()) - before
    env.close()
    assert len(engines) == 2
    assert psutil.wait_procs(engines, timeout=240)[1] == []


def test_every_name_has_its_files_in_the_wheel() -> None:
    folder = Path(vizdoom.scenarios_path)
    assert names() == tuple(sorted(SCENARIOS))
    for scenario in SCENARIOS.values():
        assert (folder / f"{scenario.file}.cfg").is_file()


def test_actions_press_one_button_or_two_that_go_together() -> None:
    with closing(make("vizdoom/health-gathering-supreme", num_envs=1, seed=0)) as env:
        assert env.action_names == ("nothing", "turn left", "turn right", "forward", "forward + turn left",
                                    "forward + turn right")
        assert env._games[0].presses.buttons == (  # type: ignore[attr-defined]
            (0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (0, 1, 1))
        with pytest.raises(ShapeMismatch):
            env.step(np.array([6]))


@pytest.mark.parametrize("size", [(72, 96), (84, 84), (120, 160), (60, 80), (24, 32)])
def test_a_screen_is_shrunk_by_area(size: tuple[int, int]) -> None:
    screen = np.random.default_rng(0).integers(256, size=(3, 120, 160), dtype=np.uint8)
    made = shrinking(120, 160, *size)(screen)
    assert made.dtype == np.uint8 and made.flags.c_contiguous
    assert np.abs(made.astype(int) - shrunk(screen, *size)).max() <= (0 if size != (84, 84) else 1)  # float32 halves


def test_options_reach_the_game_and_wrong_ones_are_refused() -> None:
    with closing(make("vizdoom/basic", num_envs=1, seed=0,
                      options={"width": 64, "height": 48, "frame_skip": 2, "skill": 1})) as env:
        assert env.spec.observation_shape == (3, 48, 64) and env.spec.frames_per_step == 2 and env.fps == 17.5
        env.reset()
        assert env.step(np.zeros(1, np.int64)).reward.tolist() == [-2.0]
    with pytest.raises(UnknownName, match="vizdoom/basic"):
        make("vizdoom/basc", num_envs=1, seed=0)
    with pytest.raises(UnknownName, match="frame_skip"):
        make("vizdoom/basic", num_envs=1, seed=0, options={"frame_skp": 2})
    with pytest.raises(UnknownName, match="bots"):
        make("vizdoom/basic", num_envs=1, seed=0, options={"bots": 2})
    with pytest.raises(OutOfBounds, match="bots"):
        make("vizdoom/deathmatch-bots", num_envs=1, seed=0, options={"bots": 16})
