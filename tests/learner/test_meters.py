"""Seconds that are spent: none twice, none lost, also where a look comes in the middle of a block."""

import pytest

from workbench.learner.metrics import meters as module
from workbench.learner.metrics.meters import Meters


def test_a_look_in_the_middle_of_a_block_sees_what_has_passed(monkeypatch):
    now = 10.0
    monkeypatch.setattr(module.time, "perf_counter", lambda: now)
    meters = Meters()
    with meters.timing("training"):
        now = 13.0
        seen = meters.drain()
        assert (seen.total("training"), seen.mean("training")) == (3.0, None)
        now = 13.5
        assert meters.drain().total("training") == 0.5
        now = 15.0
    seen = meters.drain()
    assert seen.total("training") == 1.5
    assert seen.mean("training") == 5.0, "a mean is of whole blocks"
    now = 99.0
    assert meters.drain().total("training") == 0.0


def test_values_are_summed_and_averaged_by_name_and_blocks_that_fail_count_too():
    meters = Meters()
    meters.add("size", 3)
    meters.add("size", 5)
    with pytest.raises(RuntimeError), meters.timing("failed"):
        raise RuntimeError
    seen = meters.drain()
    assert (seen.total("size"), seen.mean("size")) == (8, 4)
    assert seen.mean("failed") is not None
    assert (seen.total("other"), seen.mean("other")) == (0.0, None)
