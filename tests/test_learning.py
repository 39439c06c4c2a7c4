"""V-trace learns, through the real processes: launch, central inference, training, checkpoint, evaluation."""

import pytest

import workbench as wb

CARTPOLE = {
    "actors": 1, "envs_per_actor": 16, "unroll_length": 20, "batch_size": 16, "learning_rate": 1e-3,
    "learning_rate_schedule": "linear", "total_frames": 1_500_000,
}
CATCH = {"actors": 1, "envs_per_actor": 16, "batch_size": 16, "learning_rate": 1e-3, "total_frames": 300_000}
RECALL = {
    "actors": 1, "envs_per_actor": 32, "batch_size": 16, "learning_rate": 2e-3, "total_frames": 1_500_000,
    "network": "mlp-lstm", "environment_options": {"length": 6},
}


def best_evaluation(run, *, wanted: float, episodes: int = 20):
    """Evaluations of checkpoints taken whenever training has reached `wanted`, until one reaches it or the run ends."""
    found = None
    while found is None or found.mean < wanted:
        done = run.wait(episode_return=wanted, timeout_s=280, progress=False)
        checkpoint = run.checkpoint() if done.alive else run.checkpoints[-1]
        found = wb.evaluate(checkpoint, episodes=episodes, seed=1, greedy=True)
        if not done.alive:
            break
        if found.mean < wanted:
            run.wait(frames=done.frames + 20_000, timeout_s=280, progress=False)
    return found


@pytest.mark.timeout(600)
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
