"""What a learner says of itself before its first actor, whatever is asked of it meanwhile."""

import pytest

from workbench import rundir
from workbench.config import RunConfig
from workbench.learner.learner import Learner


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
