"""The newest steps of many environments: each of its own, none twice, and nothing while nobody asks."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.learner.inference import wall_tap
from workbench.learner.inference.wall_tap import WallTap
from workbench.wire import columns


def act(tap: WallTap, envs: list[int], step: int, *, shape: tuple[int, ...] = (2,)) -> int:
    """A batch of `envs` at `step`, as the inference thread hands it over; returns the number of recorded rows."""
    rows = np.array(envs)
    due = tap.due(rows)
    if due:
        seen = np.stack([np.full(shape, 100 * env + step, np.float32) for env in rows[due]])
        tap.record(rows[due].tolist(), observations=seen, actions=rows[due] % 3, returns=rows[due] * 1.5,
                   lengths=np.full(len(due), step))
    return len(due)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(wall_tap.time, "monotonic", lambda: now[0])
    return now


def test_each_environment_comes_with_its_own_step(clock: list[float]) -> None:
    tap = WallTap()
    assert tap.since([0, 5, 2], "")["envs"] == []
    assert act(tap, [0, 1, 2], 7) == 2
    assert act(tap, [3, 4, 5], 8) == 1
    answer = tap.since([0, 5, 2], "")
    steps = columns.received(answer)
    assert answer["envs"] == [0, 2, 5]
    assert steps["observation"].tolist() == [[7, 7], [207, 207], [508, 508]]
    assert steps["episode_return"].tolist() == [0, 3, 7.5] and steps["action"].tolist() == [0, 2, 2]
    assert steps["episode_step"].tolist() == [7, 7, 8]


def test_a_step_comes_once_and_the_next_only_in_the_next_round(clock: list[float]) -> None:
    tap = WallTap()
    tap.since([0], "")
    assert [act(tap, [0], step) for step in range(3)] == [1, 0, 0]
    cursor = tap.since([0], "")["cursor"]
    assert tap.since([0], cursor)["envs"] == []
    clock[0] += wall_tap.ROUND_S
    assert act(tap, [0], 9) == 1
    assert columns.received(tap.since([0], cursor))["episode_step"].tolist() == [9]


def test_it_copies_nothing_once_nobody_has_asked_for_a_while(clock: list[float]) -> None:
    tap = WallTap()
    assert act(tap, [0], 0) == 0
    tap.since([0, 1], "")
    clock[0] += wall_tap.LINGER_S / 2
    tap.since([1], "")
    clock[0] += wall_tap.LINGER_S / 2 + 1
    assert act(tap, [0, 1], 1) == 1, "somebody still looks at environment 1"
    clock[0] += wall_tap.LINGER_S
    assert act(tap, [0, 1], 2) == 0


def test_two_walls_do_not_take_each_others_environments(clock: list[float]) -> None:
    tap = WallTap()
    for envs in ([0], [1]):
        tap.since(envs, "")
    act(tap, [0, 1], 3)
    assert [tap.since([env], "")["envs"] for env in (0, 1)] == [[0], [1]]


def test_the_cursor_of_an_earlier_life_gets_all(clock: list[float]) -> None:
    tap = WallTap()
    tap.since([0], "")
    act(tap, [0], 3)
    assert tap.since([0], "abc:99")["envs"] == [0]


def test_what_does_not_fit_into_one_answer_comes_with_the_next(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wall_tap, "MOST_BYTES", 24)  # three observations of two numbers
    tap = WallTap()
    envs, seen, cursor = list(range(8)), [], ""
    tap.since(envs, "")
    act(tap, envs, 1)
    for _ in range(3):
        answer = tap.since(envs, cursor)
        seen += answer["envs"]
        cursor = answer["cursor"]
    assert sorted(seen) == envs


def test_a_large_picture_loses_rows_and_columns(clock: list[float]) -> None:
    tap = WallTap()
    tap.since([0], "")
    act(tap, [0], 1, shape=(3, 210, 160))
    assert columns.received(tap.since([0], ""))["observation"].shape == (1, 3, 70, 54)
