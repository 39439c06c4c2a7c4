"""What `wb.plan` says, and what it refuses."""

from __future__ import annotations

import inspect
import math
import re
import time
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from workbench.config import RunConfig
from workbench.errors import InvalidInput, OutOfBounds, UnknownName
from workbench.learner import learner
from workbench.learner.inference.actor_streams import LARGEST_ACTOR
from workbench.learner.learner import Learner
from workbench.planning.constants import accelerators, by_size, constants, environment_of, environments, known
from workbench.planning.limits import LEARNER_THREADS, MOST_ACTORS, MOST_LEARNERS, STREAMS
from workbench.planning.recipes import recipe

PONG = {"accelerator": "mine", "learner_steps_per_second": 40_000, "accelerator_price": 2.0}


def test_a_plan_has_enough_of_everything_and_not_one_too_many():
    made = wb.plan(frames_per_second=1e6, utilisation=0.8, **PONG)
    busy = {part.name: part.busy for part in made.parts}
    assert made.steps_per_second == 250_000
    assert max(busy.values()) <= 0.8
    assert busy["actor cores"] * made.cores / (made.cores - 1) > 0.8
    fewer = busy["accelerators (mine)"] * made.learners / (made.learners - 1)
    assert fewer > 0.78  # averaging makes it not quite proportional
    assert made.most_frames_per_second >= 1e6 / 0.8


def test_every_part_that_is_made_scarce_is_the_one_that_is_full_first():
    def full(**fields):
        return wb.plan(frames_per_second=4e6, **{"steps_per_core": 73_000, **PONG, **fields})  # cores: 76 % busy

    assert full(service_steps_per_second=3_000).saturates_first == "learners' services"
    assert full(learner_steps_per_second=2_000).saturates_first == "accelerators (mine)"
    assert full(nic_gbit=0.5, batch_size=100_000, learner_steps_per_second=1e6).saturates_first == (
        "learners' network cards")
    assert full(steps_per_core=1_250_000, learner_steps_per_second=1e7, service_steps_per_second=1e7,
                nic_gbit=1e3).saturates_first == "actor cores"


def test_more_speed_never_needs_less():
    before = None
    for speed in (1e3, 1e4, 1e5, 1e6, 1e7):
        made = wb.plan(frames_per_second=speed, **PONG)
        now = (made.cores, made.learners, made.environments, made.gigabits_per_second, made.dollars_per_hour)
        assert before is None or all(new >= old for new, old in zip(now, before, strict=True))
        before = now


def test_given_machines_reach_the_speed_at_which_their_fullest_part_is_as_busy_as_allowed():
    made = wb.plan(cores=64, learners=2, utilisation=0.8, **PONG)
    assert (made.cores, made.learners) == (64, 2)
    assert max(part.busy for part in made.parts) == pytest.approx(0.8)
    assert made.frames_per_second == pytest.approx(0.8 * made.most_frames_per_second)
    more = wb.plan(cores=128, learners=4, utilisation=0.8, **PONG)
    assert made.frames_per_second < more.frames_per_second < 2 * made.frames_per_second  # averaging takes some


@pytest.mark.parametrize("speed", [1e4, 1e5, 1e6, 1e7])
def test_what_a_speed_takes_reaches_it_and_one_core_or_learner_less_does_not(speed):
    made = wb.plan(frames_per_second=speed, **PONG)
    assert wb.plan(cores=made.cores, learners=made.learners, **PONG).frames_per_second >= speed * (1 - 1e-5)
    for cores, learners in ((made.cores - 1, made.learners), (made.cores, made.learners - 1)):
        if cores and learners:
            assert wb.plan(cores=cores, learners=learners, **PONG).frames_per_second < speed


def test_cores_alone_have_one_learner():
    assert wb.plan(cores=8).learners == 1


@pytest.mark.parametrize("asked", [{}, {"frames_per_second": 1e5, "cores": 8}, {"learners": 2},
                                   {"frames_per_second": 1e5, "learners": 2}])
def test_a_plan_answers_one_question(asked):
    with pytest.raises(InvalidInput, match="cores=64 and learners=1"):
        wb.plan(**asked)


@pytest.mark.parametrize("basis", ["seed dmlab 2 cores", "seed dmlab 8 cores"])
def test_seeds_largest_machine_is_near_what_the_constants_of_its_smaller_ones_say(basis):
    steps, cores = known(basis, "frames_per_second") / 4, known(basis, "cores")
    made = wb.plan(
        "dmlab/published", cores=4160, learners=64, accelerator="tpu-v3-core", group_size=1, utilisation=1.0,
        steps_per_core=steps / cores, learner_steps_per_second=steps / known(basis, "accelerators", "tpu-v3-core"),
        service_steps_per_second=math.inf, nic_gbit=100, parameters=1,
    )  # fmt: skip
    assert made.frames_per_second == pytest.approx(2.4e6, rel=0.11)


def test_the_cost_is_that_of_cores_and_accelerators():
    made = wb.plan(frames_per_second=1e5, core_price=0.05, learner_cores=3, **PONG)
    hourly = (made.cores + 3 * made.learners) * 0.05 + made.learners * 2.0
    assert made.dollars_per_hour == pytest.approx(hourly)
    assert made.dollars_per_billion_frames == pytest.approx(hourly * 1e4 / 3600)


def test_machines_may_cost_nothing():
    assert wb.plan(cores=8, core_price=0, accelerator_price=0).dollars_per_hour == 0


def test_without_a_price_no_cost_is_made_up():
    made = wb.plan(frames_per_second=1e5, accelerator="mine", learner_steps_per_second=4e4)
    assert made.dollars_per_hour is None and "accelerator_price=" in repr(made)


def test_a_batch_divides_by_the_learners():
    made = wb.plan(frames_per_second=1e6, batch_size=1000, **PONG)
    assert made.batch_size % made.learners == 0 and made.batch_size >= 1000
    assert any("batch_size" in note for note in made.notes)


def test_one_learner_averages_nothing():
    made = wb.plan(frames_per_second=4e4, **PONG)
    assert made.learners == 1 and made.averaging_ms == 0


def test_a_batch_too_small_for_its_learners_is_said_not_searched_for_ever():
    with pytest.raises(OutOfBounds, match="Give a larger batch_size or nic_gbit"):
        wb.plan(frames_per_second=1e7, batch_size=32, nic_gbit=1, **PONG)


@pytest.mark.parametrize("name", environments())
def test_every_measured_environment_has_all_of_its_numbers(name):
    assert environment_of(name + ("x" if name[-1] in "/-" else "")) == name
    made = wb.plan(name, frames_per_second=1e5, **PONG)
    assert made.cores > 0 and made.frames_per_second / made.steps_per_second == known(name, "frames_per_step")


def test_every_constant_says_where_it_is_from():
    assert all(one.source for one in constants())
    assert {"cpu-core", "v100", "tpu-v3-core"} <= set(accelerators())
    assert list(by_size("service", "steps_per_second")) == [1, 32]


def test_groups_grow_until_neither_core_nor_service_loses_much():
    assert wb.plan(frames_per_second=1e5).group_size == 8  # our cores act and train on less than the service carries
    assert wb.plan(frames_per_second=1e6, accelerator="mine", learner_steps_per_second=2e4).group_size == 32
    assert wb.plan(frames_per_second=1e6, accelerator="mine", learner_steps_per_second=1e6).group_size == 128


@pytest.mark.parametrize(("fields", "says"), [
    ({"frames_per_second": 0}, "frames_per_second=0 must be a number above 0"),
    ({"frames_per_second": math.inf}, "frames_per_second=inf"),
    ({"frames_per_second": math.nan}, "frames_per_second=nan"),
    ({"frames_per_second": "fast"}, "frames_per_second='fast'"),
    ({"frames_per_second": 1e5, "utilisation": 1.2}, r"must lie in \(0, 1\]"),
    ({"frames_per_second": 1e5, "group_size": 2.5}, "group_size=2.5 must be a whole number"),
    ({"frames_per_second": 1e5, "batch_size": -1}, "batch_size=-1"),
    ({"frames_per_second": 1e6, "utilisation": 1e-300}, "utilisation=1e-300 must be a number above 0, from 1e-18"),
    ({"cores": 0}, "cores=0 must be a number above 0"),
    ({"cores": 8, "learners": 1.5}, "learners=1.5 must be a whole number"),
    ({"cores": 8, "core_price": -0.05}, "core_price=-0.05 must be a number above 0"),
    ({"cores": 8, "accelerator_price": math.nan}, "accelerator_price=nan"),
])
def test_what_is_no_quantity_is_refused(fields, says):
    with pytest.raises(OutOfBounds, match=says):
        wb.plan(**fields)


def test_speeds_beyond_reason_are_answered_at_once():
    began = time.perf_counter()
    most = wb.plan(frames_per_second=1e18, accelerator="mine", learner_steps_per_second=np.float64(1e6))
    assert most.learners > 1e9 and most.steps_per_second == pytest.approx(1e18 / 4)
    with pytest.raises(OutOfBounds, match="cannot be reached by adding learners"):
        wb.plan(frames_per_second=1e10, observation_bytes=10**9)
    assert time.perf_counter() - began < 5
    with pytest.raises(InvalidInput, match="environment=None must be a name"):
        wb.plan(None, frames_per_second=1e6)
    with pytest.raises(UnknownName, match="unknown algorithm"):
        wb.plan(frames_per_second=1e6, algorithm=[])


def test_unknown_names_come_with_what_to_give_instead():
    with pytest.raises(UnknownName, match="steps_per_core=, observation_bytes= and frames_per_step="):
        wb.plan("my-env", frames_per_second=1e5)
    with pytest.raises(UnknownName, match="learner_steps_per_second="):
        wb.plan(frames_per_second=1e5, accelerator="tpu-v9")
    with pytest.raises(InvalidInput, match="nobody has measured r2d2 on ALE/Pong-v5 on a p100"):
        wb.plan(frames_per_second=1e5, algorithm="r2d2", accelerator="p100")
    mine = {"steps_per_core": 1e3, "observation_bytes": 100, "frames_per_step": 1}
    made = wb.plan("my-env", frames_per_second=1e5, **mine, **PONG)
    assert made.cores == 125


def test_a_plan_shows_as_text_and_as_a_table():
    made = wb.plan(frames_per_second=1e5)
    assert "full first:" in repr(made) and "actor cores" in repr(made)
    assert made._repr_html_().count("<tr>") == 1 + len(made.parts)
    assert len(repr(made)) < 2000


def test_the_fields_of_a_plan_are_those_of_launch():
    made = wb.plan(frames_per_second=1e6, **PONG)
    config = RunConfig.build("ALE/Pong-v5", **made.fields)
    assert config.actors * config.envs_per_actor == made.environments and config.learners == made.learners
    assert config.hyperparameters.batch_size == made.batch_size


def test_a_plan_for_r2d2_starts_r2d2():
    made = wb.plan(frames_per_second=1e5, algorithm="r2d2", **PONG)
    config = RunConfig.build("ALE/Pong-v5", **made.fields)
    assert (config.algorithm, config.value("unroll_length")) == ("r2d2", RunConfig.build("x", algorithm="r2d2").value(
        "unroll_length"))
    assert "--algorithm r2d2 " in (text := recipe("slurm", plan=made)) and f"-length {made.unroll_length}" in text
    with pytest.raises(UnknownName, match="Did you mean 'r2d2'"):
        wb.plan(frames_per_second=1e5, algorithm="r2d3", **PONG)


def test_the_first_plan_of_the_page_is_what_it_prints():
    call, printed = re.findall(r"```(?:python)?\n(.*?)```", Path("docs/scale.md").read_text(encoding="utf-8"), re.S)[:2]
    assert str(eval(call, {"wb": wb})).startswith(printed.strip())


def test_a_plan_that_launch_would_refuse_says_so():
    assert (MOST_ACTORS, MOST_LEARNERS) == (4096, 1024)
    said = " ".join(wb.plan(frames_per_second=2e8, **PONG).notes)
    assert "4,096 actors" in said and "1,024 learners" in said


def test_the_limits_of_a_plan_are_those_of_the_code():
    assert "threads=LEARNER_THREADS" in inspect.getsource(Learner.run)
    assert learner.LEARNER_THREADS == LEARNER_THREADS
    assert MOST_ACTORS == LARGEST_ACTOR


def test_ten_thousand_actors_of_64_learners_are_more_than_a_run_takes():
    made = wb.plan(cores=10_000, learners=64, **PONG)
    assert made.limits["actors of a run"].busy == pytest.approx(10_000 / MOST_ACTORS)
    assert made.limits["streams into a learner"].needed == 157
    broken = {limit.name for limit in made.limits if limit.busy > 1}
    assert "actors of a run" in broken and "streams into a learner" not in broken
    assert made.breaks_first.startswith("actors of a run: 10,000 actors where 4,096 are the most: launch() refuses")
    assert f"breaks first: {made.breaks_first}" in repr(made)


def test_a_learner_with_more_actors_than_threads_breaks_first_and_the_plan_says_how_many_learners_it_takes():
    made = wb.plan(cores=4_000, learners=1, **PONG)
    assert made.breaks_first.startswith("streams into a learner: 4,000 streams where 1,008 are the most")
    assert any("take 4 learners" in note for note in made.notes)
    assert wb.plan(cores=4 * STREAMS, learners=4, **PONG).breaks_first == ""


def test_a_plan_that_keeps_to_all_limits_breaks_nowhere():
    made = wb.plan(frames_per_second=1e6, **PONG)
    assert made.breaks_first == "" and "breaks first" not in repr(made)
    assert all(0 < limit.busy <= 1 and limit.basis for limit in made.limits)


@pytest.mark.parametrize(("environment", "fields", "says"), [
    ("ALE/Pong-v5", {"cores": 2, "learners": 3}, "actors=2 for learners=3: each learner needs an actor of its own"),
    ("ALE/Pong-v5", {"cores": 4000, "learners": 200}, r"batch_size=6400 is out of bounds: .* \[1, 4096\] unrolls"),
    ("ALE/Pong-v5", {"cores": 8, "unroll_length": 10**6}, "unroll_length=1000000 is out of bounds"),
    ("CartPole-v1", {"cores": 8, "group_size": 8}, "groups_per_actor=74 is out of bounds"),
    ("CartPole-v1", {"cores": 8, "latency_ms": 30}, "envs_per_actor=4992 is out of bounds"),
])  # fmt: skip
def test_a_plan_whose_fields_launch_refuses_says_why(environment, fields, says):
    assert re.match(f"launch\\(\\) refuses the fields: {says}", wb.plan(environment, **fields, **PONG).breaks_first)


def test_a_plan_for_a_speed_has_an_actor_for_each_learner():
    made = wb.plan("CartPole-v1", frames_per_second=1e4, accelerator="mine", learner_steps_per_second=4000)
    assert made.breaks_first == "" and made.cores == made.learners == 4
    assert RunConfig.build("CartPole-v1", **made.fields).actors == 4


def test_a_fleet_whose_inference_batches_outlast_its_updates_is_told_to_bound_them():
    assert any("max_batch" in note for note in wb.plan(cores=10_000, learners=64, **PONG).notes)
    assert not any("max_batch" in note for note in wb.plan(frames_per_second=1e6, **PONG).notes)


def test_a_larger_network_takes_longer_to_write():
    small, large = (wb.plan(cores=8, parameters=number, **PONG).limits["writing a checkpoint"] for number in (1e6, 1e8))
    assert large.needed == pytest.approx(100 * small.needed)


def test_a_fast_fleet_says_how_long_its_episodes_must_be_for_the_metrics():
    fast = 20 * known("stand-ins", "episodes_per_second") * 4  # frames/s
    assert any("a mean episode must have 20 steps" in note for note in wb.plan(frames_per_second=fast, **PONG).notes)
    assert not any("metrics" in note for note in wb.plan(frames_per_second=1e4, **PONG).notes)


def test_a_plan_becomes_a_cluster():
    made = wb.plan(frames_per_second=1e6, **PONG)
    text = recipe("slurm", plan=made, actor_cpus=16, learners_per_machine=4)
    assert f"--actors {made.cores} " in text and f"--learners {made.learners} " in text
    assert f"#SBATCH --nodes={-(-made.cores // 16)}\n" in text and "#SBATCH --gpus-per-node=4\n" in text
    assert f"#SBATCH --nodes={-(-made.learners // 4)}\n" in text
