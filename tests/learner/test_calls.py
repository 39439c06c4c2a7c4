"""What a learner says of itself."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from workbench.learner.calls import LeaderCalls


@pytest.mark.parametrize(("filling", "updates", "ready", "said"), [
    ("", 8, False, ("waiting", False)), ("", 8, True, ("waiting", False)),
    ("filling the replay", 8, True, ("training", False)), ("", 9, True, ("training", True)),
])
def test_a_learner_has_trained_once_it_has_made_an_update_in_this_life(
    monkeypatch: pytest.MonkeyPatch, filling: str, updates: int, ready: bool, said: tuple[str, bool]
) -> None:
    parts = SimpleNamespace(experience=SimpleNamespace(filling=filling, awaited=""),
                            trainer=SimpleNamespace(updates=updates))
    run: Any = SimpleNamespace(finished=False, stopping=False, stands_still=False, ready=threading.Event(), parts=parts,
                               first_updates=8, paused=None, hold_reason="", writing_replay=False, progress=None)
    others: Any = {"log": SimpleNamespace(silence=""), "disk": SimpleNamespace(hold=""), "orders": None,
                   "commands": None, "checkpoints": None}
    streams: Any = SimpleNamespace(connected=1)
    calls = LeaderCalls(run, streams, **others)
    if ready:
        run.ready.set()
    assert (calls.state, calls.has_trained) == said
