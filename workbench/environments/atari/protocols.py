"""The standard evaluation protocols on Atari: their options of the environment, and their sources.

    name                  sticky  starts               longest episode          source
    sticky-actions        0.25    the game's own       18,000 frames (5 min)    Machado et al. 2018
    sticky-actions-30min  0.25    the game's own       108,000 frames (30 min)  Castro et al. 2018
    noop-starts           none    up to 30 no-ops      108,000 frames           Wang et al. 2016
    human-starts          none    what people played   108,000 frames           Nair et al. 2015

In all of them an episode is a whole game with all lives, returns are not clipped, and FIRE is not pressed for the
agent. 4 frames per step, as in training. Machado et al. require all 18 actions: a policy that was trained with the
game's minimal set is evaluated with that set, and `Protocol.differences` says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from workbench.environments.atari.scores import Starts
from workbench.errors import UnknownName

_HALF_HOUR = 108_000  # frames at 60 Hz
_FIVE_MINUTES = 18_000
_WHOLE_GAMES = {"life_loss": False, "use_fire_reset": False}


@dataclass(frozen=True)
class Protocol:
    """One evaluation protocol.

    Attributes:
        title: a short description.
        source: the papers that define it.
        options: of the environment (`AtariOptions`); they override the run's.
        starts_file: whether it takes a file of starts.
        all_actions: whether it requires all 18 actions.
        normalised_by: the table of human scores that fits it.
    """

    name: str
    title: str
    source: str
    options: MappingProxyType[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    starts_file: bool = False
    all_actions: bool = False
    normalised_by: Starts = "no-ops"

    def differences(self, *, full_action_space: bool) -> str:
        """How an evaluation deviates from the protocol, in words; "" if it does not."""
        return "the game's minimal action set instead of all 18" if self.all_actions and not full_action_space else ""


def _sticky(name: str, title: str, source: str, frames: int) -> Protocol:
    options = {**_WHOLE_GAMES, "repeat_action_probability": 0.25, "noop_max": 0, "max_frames_per_episode": frames}
    return Protocol(name, title, source, MappingProxyType(options), all_actions=True)


def _deterministic(name: str, title: str, source: str, *, noop_max: int, **more: Any) -> Protocol:
    options = {**_WHOLE_GAMES, "repeat_action_probability": 0.0, "noop_max": noop_max,
               "max_frames_per_episode": _HALF_HOUR}
    return Protocol(name, title, source, MappingProxyType(options), **more)


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        _sticky("sticky-actions", "sticky actions, 5 minutes", "Machado et al. 2018, arXiv 1709.06009", _FIVE_MINUTES),
        _sticky("sticky-actions-30min", "sticky actions, 30 minutes", "Castro et al. 2018 (Dopamine), arXiv 1812.06110",
                _HALF_HOUR),
        _deterministic("noop-starts", "up to 30 no-ops, 30 minutes",
                       "Mnih et al. 2015; Wang et al. 2016, arXiv 1511.06581", noop_max=30),
        _deterministic("human-starts", "from what people played, 30 minutes",
                       "Nair et al. 2015, arXiv 1507.04296; Wang et al. 2016", noop_max=0, starts_file=True,
                       normalised_by="human"),
    )
}


def protocol_of(name: str) -> Protocol:
    """The protocol of that name. Raises UnknownName."""
    if name not in PROTOCOLS:
        raise UnknownName.among("evaluation protocol", name, PROTOCOLS)
    return PROTOCOLS[name]


def starts_of(protocol: str | None) -> Starts:
    """The table of human scores that fits episodes played by that protocol; None: the run's own environment."""
    return "no-ops" if protocol is None else PROTOCOLS[protocol].normalised_by
