"""What a run is launched with where nobody says otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from gymnasium.wrappers import FlattenObservation

from workbench import algorithms, networks
from workbench.config import NETWORKS, RunConfig
from workbench.environments import check_name, make_configured
from workbench.environments.families import family_of
from workbench.environments.presets import PRESETS, preset_of, presets_of, with_preset
from workbench.errors import InvalidInput, MissingPackage, UnknownName
from workbench.running.starts.checking import checked_config
from workbench.testing import CountingEnv


def config_of(
    environment: Any, *, algorithm: str = "vtrace", network: Any = None, preset: str | None = None, **fields: Any
) -> tuple[RunConfig, str | None]:
    """The configuration that `launch` makes of its arguments, and the preset that it records."""
    config, _, chosen = checked_config(environment, algorithm, network, preset, (), fields)
    return config, chosen


EXAMPLES = {
    "football/": "football/11_vs_11_easy_stochastic", "football/academy_": "football/academy_empty_goal_close",
    "vizdoom/": "vizdoom/basic", "dmlab/": "dmlab/rooms_watermaze",
}


@pytest.mark.parametrize("preset", PRESETS, ids=lambda one: one.name)
def test_every_preset_is_a_configuration_with_a_source(preset: Any) -> None:
    assert preset.source and preset.title
    for algorithm, fields in preset.algorithms.items():
        assert fields.get("network") in (None, *NETWORKS)
        config = RunConfig.build("x", algorithm=algorithm, **preset.fields(algorithm))
        assert all(config.value(name) == value for name, value in fields.items())


@pytest.mark.parametrize("preset", [one for one in PRESETS if one.fits in EXAMPLES], ids=lambda one: one.name)
def test_a_presets_options_are_options_of_its_environments(preset: Any) -> None:
    name = EXAMPLES[preset.fits]
    family = family_of(name)
    assert family is not None
    if not family.installed:
        pytest.skip(f"{name} needs {family.packages[0]}: {family.install}")
    try:
        check_name(name, preset.run.get("environment_options", {}))
    except MissingPackage as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(("environment", "own"), [
    ("CartPole-v1", "classic"), ("gymnasium:Acrobot-v1", "classic"), ("MountainCar-v0", "classic"),
    ("phys2d/CartPole-v1", None), ("CartPoleOfMine-v1", None), ("testing/catch-v0", None), ("Pusher-v5", "mujoco"),
    ("HalfCheetah-v5", "mujoco"), ("gymnasium:Humanoid-v5", "mujoco"), ("MiniGrid-MemoryS7-v0", "minigrid"),
    ("HalfCheetahOfMine", None), ("football/5_vs_5", "football"), ("football/academy_corner", "academy"),
    ("vizdoom/basic", "vizdoom"), ("dmlab/rooms_watermaze", "dmlab"),
])  # fmt: skip
def test_the_environments_own_preset_is_found_by_its_name(environment: str, own: str | None) -> None:
    found = preset_of(environment, None, algorithm="vtrace")
    assert (None if found is None else found.name) == own
    assert [one.name for one in presets_of(environment)][:1] == ([] if own is None else [own])


def test_a_preset_that_says_nothing_of_an_algorithm_is_left_out() -> None:
    assert preset_of("ALE/Pong-v5", None, algorithm="vtrace") is None
    for name in ("ALE/Pong-v5", "PongNoFrameskip-v4"):
        found = preset_of(name, None, algorithm="ppo")
        assert found is not None and found.fields("ppo")["max_abs_reward"] == 1.0
    with pytest.raises(InvalidInput, match="preset='atari' is for ppo, not for 'vtrace'"):
        preset_of("ALE/Pong-v5", "atari", algorithm="vtrace")


def test_a_preset_is_used_alone_and_the_users_fields_win() -> None:
    pytest.importorskip("mujoco", reason="the extra mujoco is not installed")
    config, chosen = config_of("HalfCheetah-v5")
    assert chosen == "mujoco" and config.network == "mlp" and config.value("normalize_observations") is True
    assert config.value("max_abs_reward") == 0.0
    config, chosen = config_of("HalfCheetah-v5", learning_rate=1e-3, network="mlp-lstm", discount=0.9)
    assert chosen == "mujoco" and config.network == "mlp-lstm" and config.value("normalize_observations") is True
    assert (config.value("learning_rate"), config.value("discount")) == (1e-3, 0.9)
    config, chosen = config_of("HalfCheetah-v5", preset="none")
    assert chosen is None and config == RunConfig.build("HalfCheetah-v5")
    config, chosen = config_of("HalfCheetah-v5", network=lambda spec: None)
    assert config.network is None and chosen == "mujoco"


def test_each_learner_has_an_actor_whatever_the_preset_says() -> None:
    for learners, actors in ((1, 1), (2, 2)):
        config, _, name = checked_config("Pendulum-v1", "sac", None, None, (), {"learners": learners})
        assert (config.actors, config.envs_per_actor, name) == (actors, 8, "classic-continuous")


def test_options_of_the_environment_are_merged_one_by_one() -> None:
    pytest.importorskip("envpool", reason="the extra football is not installed")
    config, chosen = config_of("football/11_vs_11_easy_stochastic", preset="seed-scoring",
                               environment_options={"render_width": 640})
    assert chosen == "seed-scoring"
    assert config.environment_options == {"rewards": "scoring", "render_width": 640}
    config, _ = config_of("football/11_vs_11_easy_stochastic", preset="seed-checkpoints",
                          environment_options={"rewards": "scoring"})
    assert config.environment_options == {"rewards": "scoring"}


def test_seeds_published_sets_are_as_published() -> None:
    """Learning rate, entropy cost and λ of each set, as in SEED RL's scripts."""
    sets = {one.name: one.algorithms["vtrace"] for one in PRESETS if one.name.startswith("seed-")}
    told = {name: (one["learning_rate"], one["entropy_cost"], one["lambda_"]) for name, one in sets.items()}
    assert told == {
        "seed-scoring": (5.534e-5, 3.195e-5, 0.9), "seed-checkpoints": (1.254e-4, 7.331e-4, 1.0),
        "seed-explore-goal": (2.259e-4, 9.706e-4, 0.95), "seed-keys-doors": (1e-4, 2e-3, 0.922),
        "seed-watermaze": (1e-4, 1e-5, 0.99)}
    assert {one["adam_epsilon_form"] for one in sets.values()} == {"keras"}
    football = sets["seed-scoring"]
    assert (football["unroll_length"], football["batch_size"], football["discount"]) == (32, 32, 0.997)
    assert football["network"] == "football" and football["adam_epsilon"] == 1e-7


def test_a_wrong_preset_is_refused_with_the_near_ones() -> None:
    with pytest.raises(UnknownName, match="preset of football/5_vs_5 'seed-scorin'. Did you mean 'seed-scoring'"):
        preset_of("football/5_vs_5", "seed-scorin", algorithm="vtrace")
    with pytest.raises(UnknownName, match="preset of CartPole-v1 'seed-scoring'. Known: classic, none"):
        preset_of("CartPole-v1", "seed-scoring", algorithm="vtrace")
    with pytest.raises(InvalidInput, match="preset='seed-scoring' is for vtrace, not for 'r2d2'"):
        preset_of("football/5_vs_5", "seed-scoring", algorithm="r2d2")


def test_an_environment_of_ones_own_has_no_preset_whatever_it_is_called() -> None:
    def factory() -> CountingEnv:
        return CountingEnv()

    factory.__name__ = "HalfCheetah-v5"
    config, chosen = config_of(factory)
    assert chosen is None and config.network is None
    with pytest.raises(InvalidInput, match="'mujoco': presets are for environments by name, and HalfCheetah-v5 is"):
        config_of(factory, preset="mujoco")
    assert config_of(factory, preset="none")[1] is None


def test_a_presets_network_is_left_out_where_something_else_is_seen() -> None:
    pytest.importorskip("minigrid", reason="the extra minigrid is not installed")
    config, _, chosen = checked_config("MiniGrid-Empty-5x5-v0", "vtrace", None, None, [FlattenObservation], {})
    assert (chosen, config.network, config.value("discount")) == ("minigrid", None, 0.99)
    config, _, _ = checked_config("MiniGrid-Empty-5x5-v0", "vtrace", "mlp", None, [FlattenObservation], {})
    assert config.network == "mlp"
    academy = preset_of("football/academy_corner", None, algorithm="vtrace")
    for representation, network in (("extracted", "nature"), ("simple115v2", None)):
        options = {"environment_options": {"representation": representation}}
        assert with_preset(academy, options, algorithm="vtrace").get("network") == network


def test_another_algorithm_gets_what_is_not_of_v_trace() -> None:
    pytest.importorskip("minigrid", reason="the extra minigrid is not installed")
    config, chosen = config_of("MiniGrid-Empty-5x5-v0", algorithm="r2d2")
    assert chosen == "minigrid" and config.network == "small-cnn-lstm" and config.value("n_steps") == 5
    assert config.value("max_abs_reward") == 0.0 and config.value("unroll_length") == 40


@pytest.mark.parametrize(("name", "package"), [
    ("football/academy_empty_goal_close", "envpool"), ("football/11_vs_11_easy_stochastic", "envpool"),
    ("vizdoom/basic", "vizdoom"), ("HalfCheetah-v5", "mujoco"), ("MiniGrid-MemoryS7-v0", "minigrid"),
])  # fmt: skip
def test_its_network_reads_what_the_environment_shows(name: str, package: str) -> None:
    pytest.importorskip(package, reason=f"{name} needs {package}")
    config, chosen = config_of(name)
    assert chosen is not None
    environment = make_configured(config, num_envs=1, seed=0)
    spec = environment.spec
    environment.close()
    heads = algorithms.build(config, spec=spec).heads
    network = networks.build(config.network, spec=spec, heads=heads, seed=0,
                             normalise=config.value("normalize_observations"))
    networks.check(network, spec=spec, output=heads.output)
