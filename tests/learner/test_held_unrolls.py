"""How long the training loop holds the unrolls of an update whose frames a device may not have read yet."""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from workbench.learner.metrics.meters import Meters
from workbench.learner.training.loop import TrainingLoop


class Frames:
    """Stands for an unroll that lies in a device's table."""

    flight = None


@pytest.mark.parametrize(("lags", "keeps_frames", "held"), [(True, True, 3), (True, False, 1), (False, False, 0)])
def test_unrolls_are_free_again_once_their_update_has_surely_ended(lags: bool, keeps_frames: bool, held: int) -> None:
    device = SimpleNamespace(lags=lags, keeps_frames=keeps_frames, tracing=nullcontext)
    trainer = SimpleNamespace(updates=0, update=lambda *_, **__: "loss", arriving=lambda loss: lambda: loss)
    parts = SimpleNamespace(
        device=device, trainer=trainer, policy=SimpleNamespace(publish=lambda _: None, version=0),
        experience=SimpleNamespace(between_rounds=True, after_update=lambda *_: None))
    state: Any = SimpleNamespace(parts=parts, hyperparameters=None, learning_rate=0.0,
                                 learners=SimpleNamespace(batch=lambda draw: draw))
    nothing: Any = None
    loop = TrainingLoop(state, orders=nothing, commands=nothing, log=nothing, meters=Meters(), schedule=nothing,
                        checkpoints=nothing)
    made: list[weakref.ref[Frames]] = []
    for _ in range(7):
        draw: Any = SimpleNamespace(unrolls=[Frames()])
        made.append(weakref.ref(draw.unrolls[0]))
        loop._update(draw)
        del draw
    # A device that runs ahead is known to have ended the update before the last two only.
    assert [one() is not None for one in made] == [False] * (7 - held) + [True] * held
