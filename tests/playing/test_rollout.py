"""`wb.rollout` through its own process, where rollouts are kept, and films of them."""

from __future__ import annotations

import dataclasses
import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import av
import gymnasium
import numpy as np
import psutil
import pytest
from PIL import Image

import workbench as wb
from tests.conftest import eventually
from tests.learner.test_rollout_kinds import Kinds
from tests.played import checkpoint_in
from workbench.__main__ import main
from workbench.errors import EnvironmentFailed, InvalidInput, OutOfBounds, StorageFailed, WorkbenchError
from workbench.playing.rollout import Rollout, every
from workbench.rundir import RunDirectory
from workbench.widgets.episodes.player import RolloutPlayer


@pytest.fixture(scope="module")
def pong(tmp_path_factory) -> wb.Checkpoint:
    """Of a recurrent policy of Pong with sticky actions, whose games are cut off."""
    return checkpoint_in(tmp_path_factory.mktemp("pong"), "ALE/Pong-v5", network="nature-lstm",
                         environment_options={"max_frames_per_episode": 240})


@pytest.fixture(scope="module")
def played(pong) -> Rollout:
    return wb.rollout(pong, seed=4, greedy=False, saliency="gradient")


@pytest.mark.full
def test_it_is_the_episode_that_an_evaluation_of_one_plays(pong, played):
    told = wb.evaluate(pong, episodes=1, seed=4, greedy=False)
    assert (told.returns, told.lengths) == ((played.episode_return,), (played.steps,)) and played.truncated
    assert (played.checkpoint, played.checkpoint_frames, played.seed) == (pong.path, 1200, 4)
    assert repr(played) == (f"Rollout(ALE/Pong-v5 at 1,200 frames, seed 4: return {played.episode_return:.4g}, "
                            "60 steps, truncated)")


def test_it_is_kept_with_its_run_and_found_again(pong, played):
    run = pong.path.parent.parent
    assert played.path == run / "rollouts" / "000000001200-seed4-sampled-gradient"
    assert [one.path for one in wb.attach(run).rollouts] == [played.path]
    again = wb.rollout(played.path)
    for field in dataclasses.fields(Rollout):
        mine, other = getattr(played, field.name), getattr(again, field.name)
        assert np.array_equal(np.asarray(mine), np.asarray(other)), field.name


def test_rollouts_that_are_replaced_in_this_moment_are_left_out(tmp_path):
    run, done = RunDirectory(tmp_path), threading.Event()
    places = [run.rollouts / f"{index:012d}-seed0" for index in range(200)]
    for place in places:
        place.mkdir(parents=True)
        (place / "rollout.json").write_text("{}")

    def replace() -> None:
        for place in itertools.cycle(places):
            place.rename(run.rollouts / ".away")
            (run.rollouts / ".away").rename(place)
            if done.is_set():
                return

    with ThreadPoolExecutor() as pool:
        replacing = pool.submit(replace)
        try:
            assert not any(every(run) for _ in range(50))
        finally:
            done.set()
        replacing.result()


@pytest.mark.full
def test_code_typed_in_a_cell_plays_and_the_second_time_takes_the_place_of_the_first(tmp_path):
    class Typed(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0, 255, (40, 48, 3), np.uint8)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.left = 6
            return np.full((40, 48, 3), [200, 10, self.left], np.uint8), {}

        def step(self, action):
            self.left -= 1
            return np.full((40, 48, 3), [200, 10, self.left], np.uint8), 1.0, self.left == 0, False, {}

    checkpoint = checkpoint_in(tmp_path, Typed)
    first, second = wb.rollout(checkpoint), wb.rollout(str(checkpoint.path))
    assert first.episode_return == second.episode_return == 6 and second.terminated
    assert [tuple(frame[0, 0]) for frame in first.frames] == [(200, 10, left) for left in range(6, -1, -1)]
    assert [path.name for path in (tmp_path / "run" / "rollouts").iterdir()] == ["000000001200-seed0"]


def test_pictures_are_handed_out_as_they_are_kept(played):
    kind, pictures = played.pictures()
    assert kind == "image/png" and len(pictures) == played.steps + 1
    assert all(one[:8] == b"\x89PNG\r\n\x1a\n" for one in pictures)


@pytest.mark.full
def test_a_rollout_that_takes_too_long_is_ended_and_leaves_nothing(pong):
    with pytest.raises(WorkbenchError, match=r"the rollout did not end within 0.2 s. Play fewer steps"):
        wb.rollout(pong, seed=9, timeout_s=0.2)
    assert not list(RunDirectory(pong.path.parent.parent).rollouts.glob("*seed9*"))
    assert not list(RunDirectory(pong.path.parent.parent).rollouts.glob(".*"))


def test_what_an_environment_raises_comes_with_its_traceback(tmp_path):
    checkpoint = checkpoint_in(tmp_path, "testing/failing-v0", environment_options={"at": 3, "message": "no fuel"})
    with pytest.raises(EnvironmentFailed, match="(?s)no fuel.*_count_down"):
        wb.rollout(checkpoint)


@pytest.mark.full
def test_a_kernel_that_is_killed_takes_its_rollout_along(tmp_path):
    checkpoint = checkpoint_in(tmp_path, "testing/counting-v0", environment_options={"episode_length": 10**9})
    code = f"import workbench as wb; wb.rollout({str(checkpoint.path)!r}, max_steps=10**7)"
    with subprocess.Popen([sys.executable, "-c", code]) as kernel:
        try:
            playing = eventually(lambda: psutil.Process(kernel.pid).children())[0]
            eventually(lambda: list((tmp_path / "run" / "rollouts").glob(".making-*")))
        finally:
            kernel.kill()
    assert eventually(lambda: not playing.is_running() or playing.status() == psutil.STATUS_ZOMBIE)
    wb.rollout(checkpoint, max_steps=3)
    assert len(list((tmp_path / "run" / "rollouts").iterdir())) == 1  # what it left is cleared away


@pytest.mark.parametrize("wrong", [{"max_steps": 0}, {"seed": -1}, {"saliency": "magic"}, {"render": "yes"}])
def test_a_wrong_argument_is_named_before_anything_starts(pong, wrong):
    with pytest.raises(OutOfBounds, match=next(iter(wrong))):
        wb.rollout(pong, **wrong)


KINDS = {
    "numbers": ("Pendulum-v1", {}),
    "parts": (Kinds, {"environment_options": {"kind": "parts"}}),
    "switches": (Kinds, {"environment_options": {"kind": "switches", "planes": True}}),
}


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_action_is_played_in_its_own_process_and_shown(tmp_path, kind):
    environment, fields = KINDS[kind]
    checkpoint = checkpoint_in(tmp_path, environment, **fields)
    told = wb.evaluate(checkpoint, episodes=1, seed=2, greedy=False)
    played = wb.rollout(checkpoint, seed=2, greedy=False, saliency=None if kind == "parts" else "gradient")
    assert (told.returns, told.lengths) == ((played.episode_return,), (played.steps,))
    assert played.actions.shape == (played.steps, len(played.action_spec.sizes))
    assert kind == "parts" or played.saliency.max() == 255
    text = RolloutPlayer([wb.rollout(played.path)]).still()["text/plain"]
    assert {"numbers": "number 1", "parts": "part 1: ", "switches": "switch 1 on "}[kind] in text


# --- films ------------------------------------------------------------------------------------------------------------


def decoded(path: Path) -> Iterator[np.ndarray]:
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            yield frame.to_ndarray(format="rgb24")


def test_an_mp4_shows_every_frame_enlarged_at_the_environments_rate(played, tmp_path):
    path = played.save(tmp_path / "pong.mp4")
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.pix_fmt) == ("h264", "yuv420p")
        assert stream.average_rate == Fraction(15)
        assert (stream.width, stream.height) == (320, 420)
    frames = list(decoded(path))
    assert len(frames) == played.steps + 1
    shown = np.asarray(played.frames[-1]).repeat(2, 0).repeat(2, 1).astype(int)
    assert np.abs(frames[-1] - shown).mean() < 4


def test_a_gif_keeps_the_time_and_the_colours(played, tmp_path):
    with Image.open(played.save(tmp_path / "pong.gif", fps=20)) as film:
        film.seek(2)
        assert film.info["duration"] == 50 and film.size == (320, 420)
        assert np.abs(np.asarray(film.convert("RGB")).astype(int)[::2, ::2] - played.frames[2]).mean() < 1


def test_a_gif_shows_every_frame_also_those_that_change_nothing(played, tmp_path):
    frames = np.repeat(np.random.default_rng(0).integers(0, 4, (6, 30, 40, 3), np.uint8) * 60, 3, axis=0)
    path = dataclasses.replace(played, frames=frames).save(tmp_path / "still.gif", fps=10)
    with Image.open(path) as film:
        assert film.n_frames == 18 and film.info["loop"] == 0
        for index, frame in enumerate(frames):
            film.seek(index)
            assert film.info["duration"] == 100
            assert np.array_equal(np.asarray(film.convert("RGB"))[::11, ::11], frame)


def test_a_long_gif_fills_no_memory(played, tmp_path):
    code = f"""
import numpy as np
from pathlib import Path
from workbench.playing import film
frame = np.zeros((210, 160, 3), np.uint8)
def peak():  # of this program; getrusage counts what was here before it
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
def frames(number):
    for t in range(number):
        frame[t % 210, :40] = t % 256
        yield frame.copy()
film.save(frames(30), Path({str(tmp_path / "short.gif")!r}), fps=15)
before = peak()
film.save(frames(600), Path({str(tmp_path / "long.gif")!r}), fps=15)
print(peak() - before)
"""
    kilobytes = int(subprocess.check_output([sys.executable, "-c", code], text=True))
    assert kilobytes < 10_000  # all frames: 80 MB


@pytest.mark.parametrize(("own", "rate"), [(1000.0, 240), (0.01, 0.1)])
def test_an_environment_that_is_too_quick_for_a_film_is_shown_at_the_bound(played, tmp_path, own, rate):
    quick = dataclasses.replace(played, fps=own)
    with av.open(str(quick.save(tmp_path / "film.mp4"))) as container:
        assert float(container.streams.video[0].average_rate) == pytest.approx(rate)
    with pytest.raises(OutOfBounds, match="fps=1000"):
        quick.save(tmp_path / "film.mp4", fps=1000)


def test_tiny_frames_of_odd_size_become_even(played, tmp_path):
    tiny = dataclasses.replace(played, frames=np.zeros((played.steps + 1, 7, 9, 3), np.uint8))
    assert next(decoded(tiny.save(tmp_path / "tiny.mp4"))).shape == (322, 414, 3)


def test_an_overlay_draws_saliency_and_words(played, tmp_path):
    plain, drawn = (next(decoded(played.save(tmp_path / f"{overlay}.mp4", overlay=overlay)))
                    for overlay in (False, True))
    assert drawn.shape == (plain.shape[0] + 44 + 22, *plain.shape[1:])
    policy = drawn[420:464].astype(int)
    assert (policy[..., 2] - policy[..., 0]).max() > 60 and (policy[..., 0] - policy[..., 2]).max() > 60  # blue, orange
    assert drawn[464:].max() > 200  # words
    assert np.abs(drawn[:420].astype(int) - plain).max() > 40


@pytest.mark.parametrize(("name", "words"), [("film.avi", r"\.mp4 or \.gif"), ("film", r"\.mp4 or \.gif")])
def test_another_kind_of_film_is_refused(played, tmp_path, name, words):
    with pytest.raises(InvalidInput, match=words):
        played.save(tmp_path / name)


@pytest.mark.parametrize("kind", ["mp4", "gif"])
def test_a_film_that_cannot_be_written_leaves_nothing(played, tmp_path, kind):
    with pytest.raises(StorageFailed, match="No such file"):
        played.save(tmp_path / "nowhere" / f"film.{kind}")
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed, match="Not a directory"):
        played.save(tmp_path / "file" / f"film.{kind}")


def test_a_rollout_without_frames_says_why_there_is_no_film(played, tmp_path):
    blind = dataclasses.replace(played, frames=None, note="frames were not asked for")
    with pytest.raises(InvalidInput, match="no frames.*not asked for"):
        blind.save(tmp_path / "film.mp4")


@pytest.mark.full
def test_the_command_line_plays_and_films(pong, tmp_path, capsys):
    film = tmp_path / "film.gif"
    assert main(["rollout", str(pong.path), "--seed=1", "--max-steps=20", f"--output={film}"]) == 0
    told, folder, path = capsys.readouterr().out.strip().splitlines()
    assert told.startswith("Rollout(ALE/Pong-v5 at 1,200 frames, seed 1") and path == str(film)
    assert json.loads((Path(folder) / "rollout.json").read_text())["max_steps"] == 20
    assert main(["rollout", str(pong.path), "--saliency=magic"]) == 2
    assert "gradient" in capsys.readouterr().err
    assert main(["rollout", folder, f"--output={film}", "--fps=20"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == folder
    assert main(["rollout", folder, "--seed=0", "--sample"]) == 2
    assert "is a rollout already, and --seed, --sample would not change it" in capsys.readouterr().err
    assert main(["rollout", folder, "--max-steps=3", "--saliency=gradient"]) == 2
    assert "--max-steps, --saliency would not" in capsys.readouterr().err


# --- branches ---------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_a_branch_is_played_in_its_own_process_and_kept_beside_its_episode(pong, played):
    """Of a game with sticky actions, a recurrent policy, sampled actions."""
    same = played.branch(30, action=int(played.actions[30]))
    for name in ("observation_rows", "actions", "rewards", "values", "policy", "state_norm"):
        np.testing.assert_array_equal(getattr(same, name), getattr(played, name), err_msg=name)
    np.testing.assert_array_equal(np.asarray(same.frames), np.asarray(played.frames))
    other = played.branch(30, action=["LEFT"] * 10, observation={"occlude": (10, 10, 20, 20)}, hold=5)
    assert other.path.parent == played.path.with_name(f"{played.path.name}.branches")
    assert other.branched.change == ("action LEFT for 10 steps; the policy sees 20x20 pixels at (10, 10) in shade 128 "
                                     "for 5 steps")
    np.testing.assert_array_equal(other.observation_rows[:31], played.observation_rows[:31])
    assert (other.observation_rows[40] != played.observation_rows[40]).any()
    assert [one.path for one in played.branches] == [same.path, other.path]
    of_the_run = [one.path for one in wb.attach(pong.path.parent.parent).rollouts]
    assert played.path in of_the_run and other.path not in of_the_run
    wb.rollout(other.path).save(other.path.parent.parent / "other.gif")


def test_a_branch_that_takes_too_long_is_ended_and_leaves_nothing(tmp_path):
    checkpoint = checkpoint_in(tmp_path, "testing/counting-v0", environment_options={"episode_length": 50, "life": 1})
    parent = wb.rollout(checkpoint)
    with pytest.raises(WorkbenchError, match=r"the branch did not end within 0.1 s. Branch at an earlier step"):
        parent.branch(5, action=1, timeout_s=0.1)
    assert parent.branches == [] and not list(parent.path.parent.glob("*.branches/*"))
    assert parent.branch(5, action=1).steps == 50
