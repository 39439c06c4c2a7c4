"""A score beside a shaped reward: from the environment to the status, the metrics and an evaluation."""

import pytest

import workbench as wb
from tests.conftest import SMALL
from tests.learner.test_agents import Scored
from workbench.errors import InvalidInput

pytestmark = pytest.mark.full


def scored(num_envs, seed):
    return Scored(num_envs)


def test_the_score_of_a_run_is_seen_wherever_its_return_is(home):
    run = wb.launch(scored, total_frames=10**9, algorithm="r2d2", burn_in=0, evaluation_envs_per_actor=1,
                    replay_min_size=20, replay_size=200, lstm_size=8, dueling_size=8, **SMALL)
    status = run.wait(evaluation_score=5.0, timeout_s=240, progress=False)
    assert status.evaluation_score == pytest.approx(3 * status.evaluation_return + 5)
    status = run.wait(episode_score=5.0, timeout_s=240, progress=False)
    assert status.episode_score == pytest.approx(3 * status.episode_return + 5)
    assert f"(score {status.episode_score:.4g})" in status.line()
    assert {"episode_score", "evaluation_score", "episode_score_mean", "evaluation_score_mean"} <= set(run.metric_names)
    assert run.metrics("episode_score")["value"].min() >= 5.0
    told = wb.evaluate(run.checkpoint(), episodes=4)
    assert told.scores == pytest.approx([3 * one + 5 for one in told.returns])


def test_a_wait_for_a_score_that_no_environment_tells_ends_with_the_remedy(home):
    run = wb.launch("CartPole-v1", total_frames=10**9, **SMALL)
    with pytest.raises(InvalidInput, match="never reaches episode_score=0.5: its environment tells no score. Wait for"):
        run.wait(episode_score=0.5, timeout_s=240, progress=False)
