"""Names, and what is said about wrong ones."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest

from workbench.environments import check_name, make, register_environment, registered_factory, registration
from workbench.errors import EnvironmentFailed, InvalidInput, MissingPackage, OutOfBounds, UnknownName
from workbench.testing import CountingEnv


@pytest.mark.parametrize("name, near", [
    ("ALE/Pnog-v5", "'ALE/Pong-v5'"),
    ("CartPole-v9", "'CartPole-v1'"),
    ("Cartpole", "'CartPole-v1'"),
    ("testing/cuonting-v0", "'testing/counting-v0'"),
])  # fmt: skip
def test_an_unknown_environment_is_refused_with_the_nearest_name(name, near):
    with pytest.raises(UnknownName, match=near):
        check_name(name)
    with pytest.raises(UnknownName, match=near):
        make(name, num_envs=1, seed=0)


def test_a_name_is_checked_without_making_an_environment(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("an environment was made")

    monkeypatch.setattr(gymnasium, "make", refuse)
    monkeypatch.setattr(registration, "AtariVector", refuse)
    check_name("ALE/Breakout-v5", {"life_loss": True})
    check_name("CartPole-v1", {"max_episode_steps": 10})
    with pytest.raises(UnknownName, match="life_loss"):
        check_name("ALE/Breakout-v5", {"lifeloss": True})
    with pytest.raises(UnknownName, match="option of CartPole-v1 'sutton_barto'"):
        check_name("CartPole-v1", {"sutton_barto": True})


def test_a_missing_package_comes_with_the_command_that_installs_it(monkeypatch):
    found = registration.importlib.util.find_spec
    monkeypatch.setattr(registration.importlib.util, "find_spec",
                        lambda name: None if name in ("mujoco", "absent") else found(name))
    with pytest.raises(MissingPackage, match=r"pip install .*'mujoco<5,>=4'"):
        check_name("HalfCheetah-v5")
    with pytest.raises(MissingPackage, match="'absent'"):
        check_name("absent:Thing-v0")


def test_without_ale_py_an_atari_name_says_what_to_install():
    """In a process of its own, where ale_py cannot be imported."""
    code = ("import sys; sys.modules['ale_py'] = None\nimport importlib.util as u; f = u.find_spec\n"
            "u.find_spec = lambda name: None if name == 'ale_py' else f(name)\n"
            "from workbench.environments import check_name\ncheck_name('CartPole-v1')\ncheck_name('ALE/Pong-v5')")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False)
    assert done.stderr.splitlines()[-1].endswith(
        "MissingPackage: environment 'ALE/Pong-v5' needs ale_py, which is not installed: pip install ale-py")


def test_importing_environments_and_stepping_them_loads_no_torch():
    code = ("import sys, numpy\nfrom workbench.environments import make\n"
            "for name in ('ALE/Pong-v5', 'testing/catch-v0'):\n"
            "    env = make(name, num_envs=1, seed=0); env.reset(); env.step(numpy.zeros(1, int)); env.close()\n"
            "print('torch' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout == "False\n"


def test_a_registered_factory_is_made_by_its_name_and_may_be_given_anew():
    own_name = "my/env-v0"
    register_environment(own_name, CountingEnv)
    register_environment(own_name, lambda: CountingEnv(image=True))
    assert registered_factory("CartPole-v1") is None
    assert registered_factory(own_name) is not None
    check_name(own_name)
    env = make(own_name, num_envs=2, seed=0)
    assert env.spec.name == own_name
    assert env.reset().observation.shape == (2, 1, 36, 36)
    with pytest.raises(UnknownName, match="my/env-v0"):
        check_name("my/env-v1")


@pytest.mark.parametrize("name, factory, words", [
    ("CartPole-v1", CountingEnv, "exists in Gymnasium already"),
    ("mine", 3, "must be a class or a callable"),
    ("two words", CountingEnv, "letters, digits"),
    ("football/mine", CountingEnv, "begin with football/ are those of Google Research Football"),
])  # fmt: skip
def test_a_wrong_registration_is_refused(name, factory, words):
    with pytest.raises(InvalidInput, match=words):
        register_environment(name, factory)
    assert registered_factory(name) is None


def test_the_number_of_environments_is_checked():
    with pytest.raises(OutOfBounds, match="num_envs=0"):
        make("CartPole-v1", num_envs=0, seed=0)


def test_different_seeds_give_different_games_and_the_same_seed_the_same():
    one, two, three = (make("CartPole-v1", num_envs=2, seed=seed).reset().observation for seed in (1, 1, 2))
    assert np.array_equal(one, two) and not np.array_equal(one, three)


def test_gymnasiums_own_vectors_are_made_by_an_option():
    vector = make("CartPole-v1", num_envs=3, seed=0, options={"vectorization_mode": "sync", "max_episode_steps": 2})
    assert type(vector).__name__ == "NativeVector" and vector.reset().observation.shape == (3, 4)
    vector.step(np.zeros(3, int))
    assert vector.step(np.zeros(3, int)).final_index.tolist() == [0, 1, 2]
    vector.close()
    with pytest.raises(OutOfBounds, match="vectorization_mode='threads' must be"):
        make("CartPole-v1", num_envs=1, seed=0, options={"vectorization_mode": "threads"})
    with pytest.raises(UnknownName, match="Did you mean 'vectorization_mode'"):
        check_name("CartPole-v1", {"vectorisation_mode": "sync"})


def test_minigrids_ids_are_known_without_an_import():
    pytest.importorskip("minigrid", reason="the extra minigrid is not installed")
    code = "from workbench.environments import check_name; print(check_name('MiniGrid-Empty-5x5-v0').id)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout == "MiniGrid-Empty-5x5-v0\n"
    with pytest.raises(UnknownName, match="Did you mean 'MiniGrid-Empty-5x5-v0'"):
        check_name("MiniGrid-Empty-5x4-v0")


def test_a_module_that_fails_to_be_imported_is_named(tmp_path, monkeypatch):
    (tmp_path / "broken_corridors.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EnvironmentFailed, match="'broken_corridors' of .* raised ZeroDivisionError when it"):
        check_name("broken_corridors:Corridor-v0")


def test_a_module_that_registers_no_such_environment_is_said_to_have_been_imported(tmp_path, monkeypatch):
    (tmp_path / "corridors.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnknownName, match=r"'corridors' was imported, and registers no environment 'Corridor-v0'"):
        check_name("corridors:Corridor-v0")


def test_the_command_finds_modules_of_its_folder(tmp_path):
    (tmp_path / "corridors.py").write_text("")
    command = [sys.executable, "-c", "import sys; sys.path.remove(''); from workbench.__main__ import main; main()",
               "launch", "corridors:Corridor-v0"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert "'corridors' was imported" in done.stderr
