"""Prioritized replay against the equations of its paper, and against a dictionary of all that was ever put in."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.replay.test_sum_tree import chi_square_is_plausible
from workbench.algorithms.batch import Batch, Sample, collate
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import OutOfBounds, ShapeMismatch
from workbench.replay.prioritized import PrioritizedReplay
from workbench.replay.storage import UnrollStorage
from workbench.replay.unroll_fields import UnrollLayout
from workbench.trajectory import Unroll

T = 3
LAYOUT = UnrollLayout(
    EnvironmentSpec("small", (1, 3, 2), "uint8", 4, frame_stack=3), T, overlap=2,
    behaviour={"q_value": ((), "float32"), "q_values": ((4,), "float32")}, state_shapes=((3,), (2, 2)),
)


def unroll(number: int, *, env_id: int = 0, run_id: int = 1) -> Unroll:
    """An unroll whose every value depends on `number`."""
    random = np.random.default_rng(number)
    values = {name: (random.integers(0, 250, shape) + random.random(shape)).astype(dtype)
              for name, (shape, dtype) in LAYOUT.fields.items()}
    return Unroll.of(values, env_id=env_id, run_id=run_id)


def empty(capacity: int, *, seed: int = 0, layout: UnrollLayout = LAYOUT) -> PrioritizedReplay:
    return PrioritizedReplay(UnrollStorage(layout, capacity=capacity), random=np.random.default_rng(seed))


def with_priorities(priorities: np.ndarray, *, capacity: int = 0) -> PrioritizedReplay:
    replay = empty(capacity or len(priorities))
    for number, priority in enumerate(priorities):
        replay.insert(unroll(number, env_id=number), priority)
    return replay


def draw(replay: PrioritizedReplay, size: int = 8, *, alpha: float = 0.9, beta: float = 0.6) -> tuple[Batch, Sample]:
    """A batch, and where it comes from."""
    batch = replay.sample(size, priority_exponent=alpha, importance_exponent=beta)
    assert batch.sample is not None
    return batch, batch.sample


def counted(replay: PrioritizedReplay, *, alpha: float, draws: int = 100_000) -> np.ndarray:
    """How often each row is drawn."""
    rows = [draw(replay, 10_000, alpha=alpha)[1].rows for _ in range(draws // 10_000)]
    return np.bincount(np.concatenate(rows), minlength=replay.capacity)


def priorities_of(replay: PrioritizedReplay) -> list[float]:
    return replay.arrays()["priority"].tolist()


def states_of(replay: PrioritizedReplay) -> dict[int, tuple[np.ndarray, ...]]:
    """Stored recurrent states by serial."""
    arrays = replay.arrays()
    return {int(serial): tuple(arrays[f"unroll.state.{part}"][row].copy() for part in range(2))
            for row, serial in enumerate(arrays["serial"])}


def refreshed(value: float, size: int = 1) -> tuple[np.ndarray, ...]:
    return tuple(np.full((size, *shape), value, np.float32) for shape in LAYOUT.state_shapes)


def sample_of(*serials: int, replay: PrioritizedReplay) -> Sample:
    """As if these had been drawn."""
    row_of = {int(serial): row for row, serial in enumerate(replay.arrays()["serial"])}
    return Sample(np.array([row_of[serial] for serial in serials]), np.array(serials))


def assert_equal(batch, expected) -> None:
    mine, theirs = batch.arrays(), expected.arrays()
    assert list(mine) == list(theirs)
    for name in theirs:
        torch.testing.assert_close(mine[name], theirs[name], rtol=0, atol=0)


# Sampling


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9, 2.0])
def test_unrolls_are_drawn_by_their_priorities_to_the_power_alpha(alpha: float) -> None:
    priorities = np.random.default_rng(0).uniform(0.3, 3, 50)
    slow = [p**alpha / sum(q**alpha for q in priorities) for p in priorities]  # Schaul et al. 2016, eq. 1
    assert chi_square_is_plausible(counted(with_priorities(priorities), alpha=alpha), np.array(slow))


def test_a_live_change_of_alpha_changes_the_distribution() -> None:
    priorities = np.random.default_rng(1).uniform(0.3, 3, 50)
    replay = with_priorities(priorities, capacity=64)
    for alpha in (0.9, 0.2, 1.5):
        draw(replay, alpha=alpha)
        _, sample = draw(replay, 4, alpha=alpha)  # and what is learnt afterwards counts with the same power
        priorities[sample.rows] = np.linspace(0.5, 2, 4)
        replay.update(sample, priorities[sample.rows], None)
        expected = np.append(priorities**alpha, np.zeros(14))
        counts = counted(replay, alpha=alpha)
        assert chi_square_is_plausible(counts, expected / expected.sum())
        assert not chi_square_is_plausible(counts, np.append(priorities, np.zeros(14)) / priorities.sum())


@pytest.mark.parametrize("beta", [0.0, 0.4, 0.6, 1.0])
def test_importance_weights_are_those_of_the_paper(beta: float) -> None:
    priorities = np.random.default_rng(2).lognormal(0, 2, 30)
    replay, alpha = with_priorities(priorities, capacity=40), 0.7
    for _ in range(20):
        batch, sample = draw(replay, 6, alpha=alpha, beta=beta)
        probability = [priorities[i] ** alpha / sum(priorities**alpha) for i in sample.rows]  # eq. 1
        weight = [(1 / 30 * 1 / p) ** beta for p in probability]  # section 3.4
        expected = [w / max(weight) for w in weight]
        assert batch.weight.dtype == torch.float32
        assert batch.weight.tolist() == pytest.approx(expected, rel=1e-6)


def test_a_priority_of_zero_can_still_be_drawn() -> None:
    replay = with_priorities(np.array([0.0, 0.0, 0.0]))
    assert set(draw(replay, 100)[1].rows.tolist()) == {0, 1, 2}
    replay.update(sample_of(1, replay=replay), np.array([0.0]), None)
    assert 0 < min(priorities_of(replay)) <= 1e-6
    assert draw(replay)[0].weight.isfinite().all()


def test_the_largest_priorities_and_powers_stay_within_float64() -> None:
    replay = with_priorities(np.array([3e38, 1e300, 1.0, 0.0]))
    batch, sample = draw(replay, 100, alpha=10.0, beta=10.0)
    assert set(sample.rows.tolist()) == {0, 1}
    assert batch.weight.isfinite().all()


def test_there_is_nothing_to_draw_from_an_empty_replay() -> None:
    with pytest.raises(OutOfBounds):
        draw(empty(4))


# What is learnt


@pytest.mark.parametrize("found", [np.nan, np.inf, -np.inf])
def test_a_priority_that_is_not_finite_leaves_all_of_its_unroll_as_it_was(found: float) -> None:
    replay = empty(4)
    for number in range(3):
        replay.insert(unroll(number), number + 1.0)
    before = states_of(replay)
    replay.update(sample_of(1, 2, replay=replay), np.array([found, 9.0]), refreshed(5.0, 2))
    assert priorities_of(replay) == [1.0, 9.0, 3.0]
    after = states_of(replay)
    assert (after[2][0] == before[2][0]).all() and (after[3][0] == 5).all()


@pytest.mark.parametrize("given", [np.nan, np.inf])
def test_an_unroll_whose_first_priority_is_not_finite_comes_in_with_the_lowest(given: float) -> None:
    replay = with_priorities(np.array([1.0, given, 2.0]))
    lowest = with_priorities(np.array([0.0]))
    assert priorities_of(replay) == [1.0, priorities_of(lowest)[0], 2.0]


def test_an_unroll_without_a_priority_of_its_own_comes_in_with_the_largest() -> None:
    replay = empty(4)
    replay.insert(unroll(0), None)
    assert priorities_of(replay) == [1.0]
    replay = with_priorities(np.array([0.5, 7.0, 3.0]), capacity=4)
    replay.insert(unroll(3), None)
    assert priorities_of(replay)[3] == 7.0


def test_what_is_learnt_late_does_not_touch_a_row_that_was_overwritten() -> None:
    replay = empty(3)
    for number in range(3):
        replay.insert(unroll(number), 1.0)
    late = sample_of(1, 2, 3, replay=replay)
    replay.insert(unroll(3), 4.0)  # over serial 1
    before = states_of(replay)
    states = tuple(np.concatenate(parts) for parts in zip(*map(refreshed, (5.0, 6.0, 7.0)), strict=True))
    replay.update(late, np.array([7.0, 8.0, 9.0]), states)
    assert priorities_of(replay) == [4.0, 8.0, 9.0]
    after = states_of(replay)
    assert (after[2][0] == before[2][0]).all(), "what serial 1 said of its successor came too late"
    assert (after[3][0] == 6).all() and (after[4][0] == 7).all()


def test_of_an_unroll_drawn_twice_the_last_is_kept() -> None:
    replay = with_priorities(np.array([1.0, 1.0]))
    replay.update(sample_of(2, 2, replay=replay), np.array([5.0, 6.0]), None)
    assert priorities_of(replay) == [1.0, 6.0]
    assert chi_square_is_plausible(counted(replay, alpha=1.0), np.array([1 / 7, 6 / 7]))


def test_priorities_of_another_number_are_refused() -> None:
    replay = with_priorities(np.ones(3))
    with pytest.raises(ShapeMismatch, match="2 unrolls"):
        replay.update(sample_of(1, 2, replay=replay), np.ones(3), None)


def test_a_refreshed_state_goes_into_the_unroll_that_follows_and_into_no_other() -> None:
    replay = empty(8)
    lives = [(0, 1), (1, 1), (0, 1), (1, 2), (0, 1), (1, 2)]  # serials 1, 3, 5 follow each other, and 4, 6
    for number, (env_id, run_id) in enumerate(lives):
        replay.insert(unroll(number, env_id=env_id, run_id=run_id), 1.0)
    for serial, follower in {1: 3, 2: None, 3: 5, 4: 6, 5: None, 6: None}.items():
        before = states_of(replay)
        replay.update(sample_of(serial, replay=replay), np.ones(1), refreshed(-float(serial)))
        changed = {one for one, states in states_of(replay).items()
                   if any((new != old).any() for new, old in zip(states, before[one], strict=True))}
        assert changed == ({follower} if follower else set())
        if follower:
            assert all((part == -serial).all() for part in states_of(replay)[follower])


def test_nothing_follows_an_unroll_that_was_overwritten_or_whose_follower_was() -> None:
    replay = empty(2)
    for number, env_id in enumerate((0, 0, 1, 1, 0)):  # serials 3 and 4 take the rows of 1 and 2, 5 that of 3
        replay.insert(unroll(number, env_id=env_id), 1.0)
    before = states_of(replay)
    replay.update(sample_of(4, 5, replay=replay), np.ones(2), refreshed(5.0, 2))
    after = states_of(replay)
    assert sorted(after) == [4, 5]
    assert all((after[serial][0] == before[serial][0]).all() for serial in after)


def test_an_unroll_never_follows_itself_in_a_replay_of_one() -> None:
    replay = empty(1)
    for number in range(3):
        replay.insert(unroll(number), 1.0)
        replay.update(draw(replay, 1)[1], np.ones(1), refreshed(5.0))
    assert not (states_of(replay)[3][0] == 5).any()


# A long life


@pytest.mark.parametrize("capacity", [1, 7, 32, 1000])
def test_what_is_drawn_is_what_was_put_in(capacity: int) -> None:
    random = np.random.default_rng(capacity)
    replay = empty(capacity)
    known: dict[int, Unroll] = {}
    follows: dict[int, int] = {}
    last: dict[tuple[int, int], int] = {}
    run_ids = [0] * 5
    for serial in range(1, 400):
        env_id = int(random.integers(5))
        run_ids[env_id] += random.random() < 0.1
        life = env_id, run_ids[env_id]
        known[serial] = unroll(serial, env_id=env_id, run_id=run_ids[env_id])
        follows[last.get(life, 0)] = serial
        last[life] = serial
        replay.insert(known[serial], float(random.lognormal()))
        batch, sample = draw(replay, 5)
        assert sample.serials.min() > serial - capacity, "older ones were overwritten"
        expected = collate([known[one] for one in sample.serials.tolist()])
        assert_equal(batch, replace(expected, weight=batch.weight))
        found = random.normal(size=(5, 7)).astype(np.float32)
        states = tuple(np.stack([unroll(-serial - one + 1000).initial_state[part] for one in sample.serials.tolist()])
                       for part in range(2))
        replay.update(sample, np.abs(found).max(1), states)
        for place, one in enumerate(sample.serials.tolist()):
            follower = follows.get(one, 0)
            if follower:
                known[follower] = replace(known[follower], initial_state=tuple(part[place] for part in states))
    assert len(replay) == min(capacity, 399) and replay.inserted == 399


# Metrics


def test_the_age_of_a_sample_is_the_steps_that_came_in_after_it() -> None:
    replay = empty(20)
    ages = []
    for number in range(50):
        replay.insert(unroll(number), 1.0)
        _, sample = draw(replay, 3)
        ages += [(number + 1 - serial) * T for serial in sample.serials.tolist()]
    scalars, distributions = replay.metrics()
    assert scalars["sample_age_steps"] == pytest.approx(sum(ages) / len(ages))
    edges, counts = distributions["sample_age"]
    clipped = np.clip(ages, edges[0], edges[-1])
    assert counts == np.histogram(clipped, edges)[0].tolist() and sum(counts) == 150
    assert edges[0] == T and edges[-1] == pytest.approx(20 * T) and max(ages) == 19 * T


def test_a_look_tells_of_what_was_sampled_since_the_last() -> None:
    replay = with_priorities(np.ones(4))
    draw(replay, 5)
    replay.metrics()
    scalars, distributions = replay.metrics()
    assert "sample_age_steps" not in scalars and "sample_age" not in distributions
    _, sample = draw(replay, 7)
    scalars, distributions = replay.metrics()
    assert scalars["sample_age_steps"] == pytest.approx(((4 - sample.serials) * T).mean())
    assert sum(distributions["sample_age"][1]) == 7


def test_a_look_tells_of_the_priorities_and_of_how_full_it_is() -> None:
    replay = with_priorities(np.array([0.5, 2.0, 1e9, 0.0]), capacity=5)
    scalars, distributions = replay.metrics()
    assert scalars["replay_unrolls"] == 4 and scalars["replay_fill"] == 0.8
    assert scalars["replay_gb"] == 4 * LAYOUT.unroll_bytes / 2**30
    assert scalars["priority_max"] == 1e9 and scalars["priority_mean"] == pytest.approx((2.5 + 1e9) / 4)
    edges, counts = distributions["priority"]
    assert len(edges) == len(counts) + 1 and sum(counts) == 4
    assert counts[0] == counts[-1] == 1, "what lies beyond counts at the ends"
    for number in range(9):
        replay.insert(unroll(number), 1.0)
    assert replay.metrics()[0]["replay_fill"] == 1.0


def test_a_look_at_an_empty_replay_has_nothing_to_say_of_priorities() -> None:
    scalars, distributions = empty(5).metrics()
    assert scalars == {"replay_unrolls": 0.0, "replay_fill": 0.0, "replay_gb": 0.0} and not distributions


def test_another_thread_may_look_all_the_time() -> None:
    replay = empty(50)
    ages, lowest, failures, done = [], [], [], threading.Event()

    def look() -> None:
        scalars, histograms = replay.metrics()
        lowest.append(scalars.get("priority_mean", 1.0))
        ages.append(sum(histograms["sample_age"][1]) if "sample_age" in histograms else 0)

    def watch() -> None:
        try:
            # Not without a pause: a thread that never lets go of the interpreter holds up the other for minutes.
            while not done.wait(0.0002):
                look()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        some = [unroll(number) for number in range(20)]
        for number in range(1000):
            replay.insert(some[number % 20], 1.0 + number)
            replay.update(draw(replay, 3, alpha=0.9 + 0.1 * (number % 2))[1], np.full(3, 2.0 + number), None)
    finally:
        done.set()
        thread.join(240)
    look()
    assert not failures
    assert len(ages) > 100
    assert sum(ages) == 3000
    assert min(lowest) >= 1, "a row that is not filled yet was read"


# Saved and loaded


def saved(replay: PrioritizedReplay) -> dict[str, np.ndarray]:
    return {name: array.copy() for name, array in replay.arrays().items()}


def go_on(replay: PrioritizedReplay, first: int, last: int) -> list[tuple[list[int], list[float]]]:
    """Serials and weights of what is drawn while more comes in and is learnt, in lives that begin now."""
    told = []
    for number in range(first, last):
        replay.insert(unroll(number, env_id=number % 3, run_id=first), 0.5 + number % 7)
        batch, sample = draw(replay, 4)
        told.append((sample.serials.tolist(), batch.weight.tolist()))
        replay.update(sample, 0.1 + batch.reward.abs().mean(0).numpy() / 100, refreshed(float(number), 4))
    return told


def assert_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert list(one) == list(other)
    for name, array in one.items():
        assert array.dtype == other[name].dtype, name
        np.testing.assert_array_equal(array, other[name], err_msg=name)


@pytest.mark.parametrize("inserted", [0, 5, 20, 47])
def test_samples_go_on_exactly_after_loading(inserted: int) -> None:
    replay, loaded = empty(20), empty(20, seed=9)
    go_on(replay, 0, inserted)
    go_on(loaded, 500, 533)  # what was there before is forgotten
    kept = saved(replay)
    loaded.load(kept)
    assert len(loaded) == len(replay) and loaded.inserted == inserted
    assert_same(saved(loaded), kept)
    told = go_on(replay, 100, 160)
    assert go_on(loaded, 100, 160) == told
    assert_same(saved(loaded), saved(replay))


def test_only_filled_rows_are_saved_and_unrolls_without_a_copy() -> None:
    replay = with_priorities(np.ones(5), capacity=100)
    arrays = replay.arrays()
    rows = {name: array for name, array in arrays.items() if name not in ("priority_exponent", "random")}
    assert {len(array) for array in rows.values()} == {5}
    assert {f"unroll.{name}" for name in LAYOUT.fields} < set(arrays)
    again = replay.arrays()
    assert all(np.shares_memory(arrays[f"unroll.{name}"], again[f"unroll.{name}"]) for name in LAYOUT.fields)


@pytest.mark.parametrize("inserted", [6, 12, 31])
@pytest.mark.parametrize("capacity", [5, 9, 12, 40])
def test_a_replay_of_another_size_takes_the_newest_and_overwrites_the_oldest_first(
    inserted: int, capacity: int
) -> None:
    replay, loaded = empty(12), empty(capacity)
    go_on(replay, 0, inserted)
    kept = saved(replay)
    loaded.load(kept)
    newest = sorted(kept["serial"].tolist())[-capacity:]
    assert sorted(loaded.arrays()["serial"].tolist()) == newest
    mine, theirs = by_serial(loaded.arrays()), by_serial(kept)
    for serial in newest:
        assert_same(mine[serial], theirs[serial])
    for number in range(30):
        loaded.insert(unroll(number), 1.0)
        first = max(newest[0], inserted + number + 2 - capacity)
        assert sorted(loaded.arrays()["serial"].tolist()) == list(range(first, inserted + number + 2))


def by_serial(arrays: dict[str, np.ndarray]) -> dict[int, dict[str, np.ndarray]]:
    """What each row holds, with links as serials."""
    rows = {name: array for name, array in arrays.items() if name not in ("priority_exponent", "random")}
    following = np.where(arrays["successor"] >= 0, arrays["serial"][arrays["successor"]], -1)
    return {int(serial): {**{name: array[row] for name, array in rows.items()}, "successor": following[row]}
            for row, serial in enumerate(arrays["serial"])}


def test_what_comes_in_after_loading_follows_nothing_from_before() -> None:
    replay, loaded = empty(8), empty(8)
    replay.insert(unroll(0), 1.0)
    loaded.insert(unroll(1), 1.0)
    loaded.load(saved(replay))
    loaded.insert(unroll(2), 1.0)
    loaded.insert(unroll(3), 1.0)
    assert loaded.arrays()["successor"].tolist() == [-1, 2, -1]


def test_what_was_drawn_before_loading_does_not_fill_rows_that_are_empty_now() -> None:
    replay = with_priorities(np.ones(10))
    late = sample_of(9, 10, replay=replay)
    replay.load(saved(with_priorities(np.ones(3))))
    replay.update(late, np.array([100.0, 100.0]), None)
    assert draw(replay, 100)[1].rows.max() < 3


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"unroll_length": T + 1}, "unroll.observation .*6.*7"),
        ({"state_shapes": ((3,), (5,))}, "unroll.state.1"),
        ({"state_shapes": ((3,),)}, "unroll.state.1"),
        ({"behaviour": {**LAYOUT.behaviour, "q_value": ((), "float64")}}, "unroll.behaviour.q_value .*32.*64"),
    ],
)
def test_a_replay_of_another_layout_is_refused_and_changes_nothing(change: dict, named: str) -> None:
    other = empty(4, layout=replace(LAYOUT, **change))
    before = saved(other)
    with pytest.raises(ShapeMismatch, match=named):
        other.load(saved(with_priorities(np.ones(3))))
    assert_same(saved(other), before)


def test_a_saved_replay_that_lacks_a_row_or_a_field_is_refused() -> None:
    arrays = saved(with_priorities(np.ones(3)))
    with pytest.raises(ShapeMismatch, match="^priority of a saved replay is float64 .2. and must be float64 .3."):
        empty(4).load({**arrays, "priority": arrays["priority"][:2]})
    with pytest.raises(ShapeMismatch, match="serial"):
        empty(4).load({name: array for name, array in arrays.items() if name != "serial"})


def test_a_replay_that_was_saved_before_final_observations_were_kept_has_none() -> None:
    arrays, now = saved(with_priorities(np.ones(3))), empty(4, layout=replace(LAYOUT, keeps_finals=True))
    now.load(arrays)
    loaded = saved(now)
    assert_same({name: loaded[name] for name in arrays}, arrays)
    assert loaded["unroll.final_step"].tolist() == [[0], [0], [0]]
    assert draw(now)[0].final_step.shape == (8, 0)
    del loaded["unroll.final_step"]
    with pytest.raises(ShapeMismatch, match="final_step"):
        now.load(loaded)


def test_an_unroll_of_another_layout_is_refused_and_changes_nothing() -> None:
    replay = with_priorities(np.ones(3))
    before = saved(replay)
    with pytest.raises(ShapeMismatch, match="reward"):
        replay.insert(replace(unroll(9), reward=np.zeros(2, np.float32)), 5.0)
    assert_same(saved(replay), before)
