"""Every algorithm learns, through the real processes: launch, central inference, training, checkpoint, evaluation."""

import pytest

import workbench as wb
from workbench.config import ALGORITHMS, DemonstrationsConfig
from workbench.errors import ConnectionLost, RunNotAlive

LEARNT_S = 900  # leaves the time limit of the tests some time to evaluate
CARTPOLE = {
    "actors": 1, "envs_per_actor": 16, "unroll_length": 20, "batch_size": 16, "learning_rate": 1e-3,
    "learning_rate_schedule": "linear", "total_frames": 1_500_000,
}
CATCH = {"actors": 1, "envs_per_actor": 16, "batch_size": 16, "learning_rate": 1e-3, "total_frames": 300_000}
RECALL = {
    "actors": 1, "envs_per_actor": 32, "batch_size": 16, "learning_rate": 2e-3, "total_frames": 1_500_000,
    "network": "mlp-lstm", "environment_options": {"length": 6},
}


# Of its 22 steps an episode shows the cue in the first and asks for it in the last. Unrolls are shorter, so that only
# the stored state brings the cue into most of those that end with the question.
T_MAZE = {
    "algorithm": "r2d2", "actors": 1, "envs_per_actor": 32, "unroll_length": 15, "burn_in": 5, "batch_size": 32,
    "replay_size": 4000, "replay_min_size": 200, "replay_ratio": 4.0, "learning_rate": 1e-3, "adam_epsilon": 1e-5,
    "lstm_size": 64, "dueling_size": 64, "target_update_period": 100, "discount": 0.99, "total_frames": 1_500_000,
    "environment_options": {"length": 21},
}
HIDDEN_CARTPOLE = {
    **T_MAZE, "environment_options": {}, "envs_per_actor": 16, "unroll_length": 40, "replay_min_size": 100,
}


SHORT = {"actors": 1, "envs_per_actor": 16, "total_frames": 600_000}

# The smallest task of each algorithm, and a return that chance does not reach: 22 and 0.
SMALLEST = {
    "ppo": ("CartPole-v1", {**SHORT, "learning_rate": 1e-3}, 75.0),
    "awr": ("CartPole-v1", {**SHORT, "learning_rate": 1e-3}, 75.0),
    "vmpo": ("CartPole-v1", SHORT, 75.0),
    "sac": ("CartPole-v1", {**SHORT, "envs_per_actor": 8, "learning_rate": 1e-3}, 60.0),
    "vtrace": ("CartPole-v1", {**CARTPOLE, "batch_size": 8, "warmup_updates": 0}, 75.0),
    "r2d2": ("testing/recall-v0", {**T_MAZE, "environment_options": {"length": 3}}, 0.7),
    "bc": ("CartPole-v1", {**SHORT, "total_frames": 60_000}, 150.0),
}
DEMONSTRATIONS = 4  # of a policy that keeps the pole up for 500 steps


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_an_algorithm_learns_its_smallest_task(home, algorithm):
    environment, fields, learnt = SMALLEST[algorithm]
    if issubclass(ALGORITHMS[algorithm], DemonstrationsConfig):
        expert = wb.pretrained("cartpole")
        fields = {**fields, "demonstrations": [wb.rollout(expert, seed=seed, render=False)
                                               for seed in range(DEMONSTRATIONS)]}
    run = wb.launch(environment, **{**fields, "algorithm": algorithm})
    assert run.wait(episode_return=learnt, timeout_s=LEARNT_S, progress=False).episode_return >= learnt


def best_evaluation(run, *, wanted: float, episodes: int = 20, trained: float | None = None):
    """The best of evaluations of checkpoints, the first when training has reached `trained`, until one reaches `wanted`
    or the run ends."""
    trained, frames, best = wanted if trained is None else trained, 0, None
    while best is None or best.mean < wanted:
        try:
            run.wait(frames=frames, timeout_s=LEARNT_S, progress=False)
            frames = 20_000 + run.wait(episode_return=trained, timeout_s=LEARNT_S, progress=False).frames
            checkpoint, goes_on = run.checkpoint(), True
        except (RunNotAlive, ConnectionLost):
            run.wait(timeout_s=240, progress=False)
            checkpoint, goes_on = run.checkpoints[-1], False
        found = wb.evaluate(checkpoint, episodes=episodes, seed=1, greedy=True)
        best = found if best is None else max(best, found, key=lambda one: one.mean)
        if not goes_on:
            break
    return best


@pytest.mark.full
@pytest.mark.parametrize(
    ("environment", "fields", "wanted"),
    [("CartPole-v1", CARTPOLE, 475.0), ("testing/catch-v0", CATCH, 0.98), ("testing/recall-v0", RECALL, 0.95)],
    ids=["CartPole to 475", "an image task to its optimum", "a task that needs memory"],
)
def test_vtrace_learns(home, environment, fields, wanted):
    run = wb.launch(environment, **fields)
    result = best_evaluation(run, wanted=wanted)
    assert result.mean >= wanted, (result, run.status)
    assert len(result.returns) == 20


@pytest.mark.full
def test_r2d2_remembers_what_was_shown_once_and_without_memory_it_guesses(home):
    """The best of some checkpoints counts: at this learning rate a network that has learnt it loses it now and then,
    for some tens of updates, and a checkpoint may fall there."""
    run = wb.launch("testing/recall-v0", **T_MAZE)
    remembered = best_evaluation(run, wanted=0.92, episodes=100, trained=0.8)
    frames = run.stop().frames
    assert remembered.mean >= 0.92, (remembered, run.status)
    blind = wb.launch("testing/recall-v0", network="mlp", **T_MAZE)
    blind.wait(frames=frames // 4, timeout_s=240, progress=False)  # what it does not see it never learns
    guessed = wb.evaluate(blind.checkpoint(), episodes=100, seed=1, greedy=True)
    assert abs(guessed.mean) < 0.4, "a task that needs no memory"  # four standard deviations


@pytest.mark.full
def test_r2d2_balances_a_pole_whose_velocity_it_cannot_see(home):
    run = wb.launch("testing/cartpole-positions-v0", **HIDDEN_CARTPOLE)
    result = best_evaluation(run, wanted=450.0, trained=250.0)
    assert result.mean >= 450.0, (result, run.status)
