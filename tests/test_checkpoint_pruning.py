"""Which checkpoints stay, which lose their replay, and that no crash meanwhile costs more."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

from tests.written_checkpoints import GROUPS, WRITES_FOREVER, at, flip, meta, run, save, with_replay
from workbench import checkpoints
from workbench.checkpoints import folder
from workbench.errors import CheckpointCorrupt, StorageFailed, UnknownName
from workbench.learner.training.concurrent import Concurrent
from workbench.learner.training.exact_resume import ExactResume
from workbench.rundir import RunDirectory


def test_pruning_keeps_the_newest_automatic_ones_and_all_that_were_asked_for(tmp_path: Path) -> None:
    written = [save(tmp_path, frames, requested=frames in (2, 6)) for frames in range(1, 7)]
    removed = checkpoints.prune(tmp_path, 2)
    assert removed == [written[0].path, written[2].path]
    assert [one.frames for one in checkpoints.every(tmp_path)] == [2, 4, 5, 6]
    assert checkpoints.prune(tmp_path, 2) == []
    assert len(list(tmp_path.iterdir())) == 4


def test_a_checkpoint_that_a_process_is_to_read_is_not_pruned_before_it_has(tmp_path: Path) -> None:
    first, second, _ = (save(tmp_path, frames) for frames in (1, 2, 3))
    with checkpoints.held(first.path), checkpoints.held(first.path):
        assert checkpoints.prune(tmp_path, 1) == [second.path]
        with pytest.raises(ZeroDivisionError), checkpoints.held(second.path):  # one that is gone is no error
            1 / 0  # noqa: B018
    assert checkpoints.prune(tmp_path, 1) == [first.path]


def test_a_checkpoint_that_is_held_while_older_ones_are_removed_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = (save(tmp_path, frames) for frames in (1, 2, 3))
    remove = folder.remove
    with ExitStack() as stack:
        def removed(path: Path) -> None:
            remove(path)
            stack.enter_context(checkpoints.held(second.path))

        monkeypatch.setattr(folder, "remove", removed)
        assert checkpoints.prune(tmp_path, 1) == [first.path]
        assert second.path.exists()


def test_whoever_is_to_hold_a_checkpoint_waits_for_the_run_that_looks_whether_one_does(tmp_path: Path) -> None:
    first, _ = (save(tmp_path, frames) for frames in (1, 2))
    holds, done = Event(), Event()

    def hold() -> None:
        with checkpoints.held(first.path):
            holds.set()
            done.wait(60)

    reader = Thread(target=hold, daemon=True)
    with folder._locked(first.path, fcntl.LOCK_EX | fcntl.LOCK_NB) as is_free:
        assert is_free
        reader.start()
        assert not holds.wait(0.2)
    assert holds.wait(60)
    assert checkpoints.prune(tmp_path, 1) == []
    done.set()
    reader.join()


def test_a_checkpoint_is_held_on_nfs_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It locks a file for one process alone only if that is open for writing."""
    flock = fcntl.flock

    def of_nfs(descriptor: int, kind: int) -> None:
        access = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
        if access == (os.O_RDONLY if kind & fcntl.LOCK_EX else os.O_WRONLY):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", of_nfs)
    first, _ = (save(tmp_path, frames) for frames in (1, 2))
    with checkpoints.held(first.path):
        assert checkpoints.prune(tmp_path, 1) == []
    assert checkpoints.prune(tmp_path, 1) == [first.path]


def test_lives_that_train_nothing_push_no_other_weights_out(tmp_path: Path) -> None:
    for frames in range(1, 4):
        save(tmp_path, frames)
    for frames in range(4, 9):  # five lives at the weights of 3
        checkpoints.write(tmp_path, frames=frames, groups=at(3), meta=meta(reason="stopped"), requested=frames == 6)
        checkpoints.prune(tmp_path, 3)
    assert [one.frames for one in checkpoints.every(tmp_path)] == [1, 2, 6, 8]
    assert checkpoints.prune(tmp_path, 2) == [tmp_path / "000000000001"]


def test_repeated_weights_stay_while_there_is_room_and_where_an_exact_run_or_a_fork_begins(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    for frames, more in enumerate([{"reason": "exact"}, {"reason": "finished"}, {"fork": {"run": "a"}}, {}, {}], 1):
        checkpoints.write(run.checkpoints, frames=frames, groups=at(7), meta=meta(**more), requested=False)
    assert checkpoints.prune(run.checkpoints, 5) == [], "rollouts and evaluations name them"
    exact, _, fork, _, last = checkpoints.every(run.checkpoints)
    checkpoints.prune(run.checkpoints, 3)
    assert checkpoints.every(run.checkpoints) == [exact, fork, last]
    assert ExactResume.newest(run, replays=False)[0] == fork


def test_a_torn_best_checkpoint_does_not_push_the_best_whole_one_out(tmp_path: Path) -> None:
    for frames, mean in enumerate((8.0, 9.0, 2.0, 2.0), start=1):
        save(tmp_path, frames, **judged(mean))
    (tmp_path / "000000000002" / "model.safetensors").unlink()
    checkpoints.prune(tmp_path, 2)
    assert [one.frames for one in checkpoints.every(tmp_path)] == [1, 3, 4]


def judged(mean: float, episodes: int = 100, by: str = "episode_return") -> dict[str, Any]:
    return {"judged": {"by": by, "mean": mean, "episodes": episodes}}


def test_the_best_is_the_earliest_with_the_highest_mean_of_enough_episodes(tmp_path: Path) -> None:
    assert checkpoints.best([]) is None
    means = [(1.0, 100), (7.0, 100), (7.0, 100), (99.0, 19), (3.0, 20)]
    written = [save(tmp_path, frames, **judged(mean, episodes)) for frames, (mean, episodes) in enumerate(means)]
    assert checkpoints.best(written) == written[1] and checkpoints.best(written[3:4]) is None
    assert str(checkpoints.standing(written[1])) == "mean return 7 of 100 episodes"


def test_means_of_another_kind_are_not_compared_and_older_versions_count_their_return(tmp_path: Path) -> None:
    old = save(tmp_path, 1, episodes=500)
    few = save(tmp_path, 2, episodes=3)
    evaluated = save(tmp_path, 3, **judged(-5.0, 40, "evaluation_return"))
    assert checkpoints.best([old, few]) == old and checkpoints.best([few]) is None
    assert checkpoints.best([old, evaluated]) == evaluated, "environments evaluate since then"
    for odd in ({"by": "to_json", "mean": 1.0, "episodes": 100}, {"by": "episode_return", "mean": "high"}, [], 7, "x"):
        assert checkpoints.standing(save(tmp_path, 4, judged=odd)) is None


def test_pruning_keeps_the_best_beside_the_newest_until_there_is_a_better_one(tmp_path: Path) -> None:
    for frames, mean in enumerate((1.0, 9.0, 8.0, 2.0, 2.0, 2.0), start=1):
        save(tmp_path, frames, **judged(mean))
        checkpoints.prune(tmp_path, 2)
    assert [one.frames for one in checkpoints.every(tmp_path)] == [2, 5, 6]
    save(tmp_path, 7, requested=True, **judged(10.0))
    checkpoints.prune(tmp_path, 2)
    assert [one.frames for one in checkpoints.every(tmp_path)] == [5, 6, 7], "the best is one that is kept anyway"


def test_checkpoints_of_a_best_return_push_out_no_other_and_there_is_only_one_of_them(tmp_path: Path) -> None:
    for frames, mean in enumerate((1.0, 2.0, 3.0, 4.0, 5.0, 6.0), start=1):
        reason = "interval" if frames % 3 == 1 else checkpoints.BEST
        save(tmp_path, frames, reason=reason, **judged(mean))
        checkpoints.prune(tmp_path, 2)
    assert [one.frames for one in checkpoints.every(tmp_path)] == [1, 4, 6]


def test_a_best_checkpoint_costs_no_replay_and_a_run_with_one_goes_on_from_it(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    groups = {**GROUPS, "replay": {"unrolls": np.zeros(3, np.int32)}}
    whole = checkpoints.write(run.checkpoints, frames=1, groups=groups, meta=meta(reason="interval"), requested=False)
    best = save(run.checkpoints, 2, reason=checkpoints.BEST, **judged(5.0))
    checkpoints.prune(run.checkpoints, 2)
    assert whole.has_replay
    assert Concurrent.newest(run, replays=True) == (whole, [])
    assert Concurrent.newest(run, replays=False) == (best, [])
    save(run.checkpoints, 3, reason="interval")
    later = save(run.checkpoints, 4, reason=checkpoints.BEST, **judged(6.0))
    assert Concurrent.newest(run, replays=True) == (later, []), "what it would be passed over for has no replay either"


def test_a_best_checkpoint_is_not_passed_over_for_a_damaged_one(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    groups = {**GROUPS, "replay": {"unrolls": np.zeros(3, np.int32)}}
    whole = checkpoints.write(run.checkpoints, frames=1, groups=groups, meta=meta(reason="interval"), requested=False)
    best = save(run.checkpoints, 2, reason=checkpoints.BEST, **judged(5.0))
    flip(whole.path / "model.safetensors", -1)
    assert Concurrent.newest(run, replays=True) == (best, [])


@pytest.mark.parametrize("keep", [0, -3, 1])
def test_pruning_never_removes_the_newest(tmp_path: Path, keep: int) -> None:
    save(tmp_path, 1)
    newest = save(tmp_path, 2)
    checkpoints.prune(tmp_path, keep)
    assert checkpoints.every(tmp_path) == [newest]


def test_pruning_after_a_resume_keeps_the_new_ones_and_not_the_damaged_ones_with_more_frames(tmp_path: Path) -> None:
    save(tmp_path, 1000)
    for frames in (2000, 3000):
        flip(save(tmp_path, frames).path / "model.safetensors", 100)
    resumed = save(tmp_path, 1500)
    checkpoints.prune(tmp_path, 2)
    assert checkpoints.newest_good(tmp_path) == (resumed, [])


def test_only_the_newest_automatic_checkpoint_and_those_asked_for_keep_the_replay(tmp_path: Path) -> None:
    written = [with_replay(tmp_path, frames, requested=frames in (2, 6)) for frames in range(1, 7)]
    assert all(one.has_replay for one in written)
    assert checkpoints.prune(tmp_path, 4) == []
    assert [one.has_replay for one in written] == [False, True, False, False, True, True]
    for one in written:
        one.verify()
        assert one == checkpoints.at(one.path)
        assert ("replay" in one.groups) == one.has_replay == (one.path / "replay.safetensors").exists()
    with pytest.raises(UnknownName, match="unknown group of tensors 'replay'"):
        written[0].load("replay")
    assert (written[4].open("replay")["unrolls"] == 5).all()
    save(tmp_path, 7)  # without one: what the older have is of no use to a resume
    checkpoints.prune(tmp_path, 3)
    assert [one.frames for one in checkpoints.every(tmp_path) if one.has_replay] == [2, 6]


def test_a_changed_replay_is_found_unless_it_does_not_matter(tmp_path: Path) -> None:
    good, bad = with_replay(tmp_path, 1), with_replay(tmp_path, 2)
    flip(bad.path / "replay.safetensors", -1)
    found, passed_over = checkpoints.newest_good(tmp_path)
    assert found == good and "replay.safetensors was changed" in passed_over[0]
    assert checkpoints.newest_good(tmp_path, replay=False) == (bad, [])
    with pytest.raises(CheckpointCorrupt, match=r"replay\.safetensors was changed"):
        bad.open("replay")


def test_a_replay_that_cannot_be_removed_is_named_and_leaves_every_checkpoint_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = [with_replay(tmp_path, frames) for frames in (1, 2, 3)]

    def refuse(path: Path, *_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        patch.setattr(Path, "unlink", refuse)
        with pytest.raises(StorageFailed, match=r"Read-only file system \(.*000000000001/replay\.safetensors\)"):
            checkpoints.prune(tmp_path, 3)
    assert checkpoints.every(tmp_path) == written
    for one in written:
        one.verify()
    checkpoints.prune(tmp_path, 3)
    assert [one.has_replay for one in written] == [False, False, True]


PRUNES = """
import os, signal, sys
from pathlib import Path
from workbench import checkpoints
left = int(sys.argv[2])
def counted(call):
    def counting(*arguments, **more):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **more)
    return counting
for name in ("rename", "unlink", "rmdir", "replace", "link"):
    setattr(os, name, counted(getattr(os, name)))
checkpoints.prune(Path(sys.argv[1]), 2)
"""


def test_a_crash_between_any_two_steps_of_pruning_leaves_whole_checkpoints(tmp_path: Path) -> None:
    for steps in range(20):
        folder = tmp_path / str(steps)
        written = [with_replay(folder, frames) for frames in (1, 2, 3)]
        ended = run(PRUNES, folder, steps)
        assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
        found = checkpoints.every(folder)
        assert found[-2:] == written[1:] and len(found) <= 3
        for one in found:
            one.verify()
        assert (written[2].open("replay")["unrolls"] == 3).all()
        checkpoints.prune(folder, 2)
        save(folder, 4)
        assert len(list(folder.iterdir())) == 3, "what a crash left is gone"
        assert not written[1].has_replay
        if ended.returncode == 0:
            break
    assert ended.returncode == 0 and steps >= 3


def test_whoever_looks_while_another_process_writes_and_prunes_meets_whole_checkpoints(tmp_path: Path) -> None:
    writes = WRITES_FOREVER.replace('{"model":', '{"replay": {"r": np.full(300_000, frames)}, "model":')
    writes = writes.replace("argv[1]), 3)", "argv[1]), 100)")
    child = subprocess.Popen([sys.executable, "-c", writes, tmp_path, "1"], text=True, stdout=subprocess.PIPE,
                             env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        assert child.stdout is not None
        child.stdout.readline()
        pruned = 0
        while pruned < 20:
            for one in checkpoints.every(tmp_path)[-2:]:
                try:
                    assert (one.open("replay")["r"] == one.frames).all()
                except UnknownName:
                    pruned += 1
                one.verify()
    finally:
        child.kill()
        child.communicate(timeout=240)
