"""A learner before its first actor: what it says of itself, whatever is asked of it meanwhile, and whom it admits."""

from types import SimpleNamespace

import pytest

from workbench import rundir
from workbench.config import RunConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import ConnectionLost
from workbench.learner.learner import Learner
from workbench.wire.messages import Hello


@pytest.fixture
def learner(home):
    record = {"config": RunConfig.build("testing/counting-v0").to_json(), "created": 0.0, "state": "starting"}
    made = Learner(rundir.create("waits", record))
    yield made
    made.log.close()


def test_it_says_its_state_while_it_waits_is_paused_held_and_stopped(learner):
    status, state = learner.calls.status, learner.state
    assert status() | {"state": "waiting", "reason": "waiting for the first actor"} == status()
    state.pause("paused by hand")
    assert status() | {"state": "paused", "reason": "paused by hand"} == status()
    state.pause(None)
    state.hold("the disk is full")
    assert status() | {"state": "paused", "reason": "the disk is full"} == status()
    state.hold("")
    state.stop()
    assert status() | {"state": "stopped", "reason": ""} == status()


def test_an_actor_that_died_while_the_learner_was_built_takes_no_place(learner):
    """With exact resume the next life of that actor would count as one that came back, which ends the learner."""
    admitted = []
    learner.schedule = SimpleNamespace(admit=lambda hello: admitted.append(hello.run_id) or 7)
    learner.state.ready.set()
    spec = EnvironmentSpec("x", (2,), "float32", 2)
    with pytest.raises(ConnectionLost, match="has gone"):
        learner._admit(Hello(0, 1, 4, 1, spec), lambda: False)
    assert learner._admit(Hello(0, 2, 4, 1, spec), lambda: True) == 7 and admitted == [2]
