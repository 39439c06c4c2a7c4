"""A class typed in a cell, sent to another process of the same user."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from workbench.environments import make
from workbench.environments.adapters import sent_modules
from workbench.environments.adapters.code_by_value import dumps, load_factory, loads
from workbench.errors import AlgorithmFailed, EnvironmentFailed, InvalidInput, NetworkFailed
from workbench.rundir import sealed
from workbench.testing import CountingEnv, check_environment

# What a kernel does with a cell: compiled under a file name that is not on disk, its lines known to linecache alone.
CELL = '''
import gymnasium, numpy
LENGTH = 4
class Base(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 9, (1,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return numpy.zeros(1, numpy.float32), {}
class Corridor(Base):
    def __init__(self, fail_at=100):
        self.fail_at = fail_at
    def step(self, action):
        self.steps += 1
        if self.steps == self.fail_at:
            return [1, 2][self.steps]  # off the end of the corridor
        return numpy.full(1, self.steps, numpy.float32), 1.0, self.steps == LENGTH, False, {}
'''

KERNEL = """
import linecache, sys
cell, out = sys.argv[1:]
name = "/nowhere/ipykernel_1/cell.py"
linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)
exec(compile(cell, name, "exec"), globals())
from workbench.environments.adapters.code_by_value import dumps
open(out, "wb").write(dumps(Corridor))
"""

RECEIVER = """
import sys
import numpy
from workbench.environments import make
from workbench.environments.adapters.code_by_value import loads
factory = loads(open(sys.argv[1], "rb").read())
env = make("Corridor", num_envs=2, seed=0, options={"fail_at": int(sys.argv[2])}, factory=factory)
env.reset()
print([env.step(numpy.zeros(2, int)).flags.tolist() for _ in range(5)])
"""


def run(code: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=240,
                          check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return done.stdout if done.returncode == 0 else done.stderr


def test_a_class_typed_in_main_runs_in_another_process_and_its_errors_show_the_line_of_the_cell(tmp_path):
    file = tmp_path / "factory"
    assert run(KERNEL, CELL, str(file)) == ""
    assert run(RECEIVER, str(file), "100") == "[[0, 0], [0, 0], [0, 0], [9, 9], [0, 0]]\n"
    shown = run(RECEIVER, str(file), "3")
    assert "EnvironmentFailed: environment 'Corridor' (index 0) raised IndexError in step" in shown
    assert 'File "/nowhere/ipykernel_1/cell.py", line 17, in step' in shown
    assert "return [1, 2][self.steps]  # off the end of the corridor" in shown


def test_a_class_typed_in_a_notebook_cell_is_sent_with_its_lines(tmp_path):
    """As above with a real kernel."""
    manager = pytest.importorskip("jupyter_client.manager")
    file = tmp_path / "factory"
    kernel, client = manager.start_new_kernel(kernel_name="python3")
    try:
        code = (f"{CELL}\nfrom workbench.environments.adapters.code_by_value import dumps\n"
                f"open({str(file)!r}, 'wb').write(dumps(Corridor))")
        assert client.execute_interactive(code, timeout=240)["content"]["status"] == "ok"
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
    shown = run(RECEIVER, str(file), "3")
    assert "return [1, 2][self.steps]  # off the end of the corridor" in shown


def test_a_function_with_what_it_refers_to_makes_the_round_trip():
    length = 3
    factory = loads(dumps(lambda: CountingEnv(episode_length=length, life=1)))
    assert check_environment(factory).episodes > 0


def test_a_module_beside_the_notebook_is_found_in_the_other_process(tmp_path):
    (tmp_path / "beside.py").write_text(CELL)
    sender = ("import sys; sys.path.insert(0, sys.argv[1])\nfrom beside import Corridor\n"
              "from workbench.environments.adapters.code_by_value import dumps\n"
              "open(sys.argv[2], 'wb').write(dumps(Corridor))")
    assert run(sender, str(tmp_path), str(tmp_path / "factory")) == ""
    assert run(RECEIVER, str(tmp_path / "factory"), "100").startswith("[[0, 0]")


def test_what_cannot_be_sent_is_said_before_anything_starts():
    lock = threading.Lock()
    with pytest.raises(InvalidInput, match=r"<lambda> cannot be sent to another process: .*lock"):
        dumps(lambda: lock)


def test_code_that_cannot_be_loaded_here_says_whose_it_is(home, tmp_path, monkeypatch):
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / "vanishing.py").write_text("def build(): pass")
    monkeypatch.setattr(sent_modules, "_installed", lambda: ({tmp_path / "installed"}, set()))
    monkeypatch.syspath_prepend(tmp_path / "installed")
    import vanishing

    data = dumps(vanishing.build)
    (tmp_path / "installed" / "vanishing.py").unlink()
    monkeypatch.delitem(sys.modules, "vanishing")
    for failure in (EnvironmentFailed, NetworkFailed, AlgorithmFailed):
        path = tmp_path / f"{failure.__name__.removesuffix('Failed').lower()}.pkl"
        path.write_bytes(sealed.sealed(path.name, data))
        with pytest.raises(failure, match="could not be loaded in another process: ModuleNotFoundError"):
            load_factory(path)


def test_a_loaded_factory_makes_environments():
    env = make("mine", num_envs=2, seed=0, factory=loads(dumps(CountingEnv)))
    assert env.reset().observation.shape == (2, 4)
    assert env.step(np.zeros(2, int)).reward.shape == (2,)
