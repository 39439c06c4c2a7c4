"""ViZDoom's scenarios as environments: their names, and the buttons that an action presses.

The scenarios' own files (`<name>.cfg`, `<name>.wad`) come with the vizdoom wheel; reward, time limit and available
buttons are read from them. An action presses nothing, one button, or two that go together, for all frames of a step.
Buttons that stand for an amount (mouse moves) are not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PREFIX = "vizdoom/"


@dataclass(frozen=True)
class Scenario:
    """One scenario.

    Attributes:
        file: name of its .cfg, without the extension.
        bots: default number of the engine's own players in a deathmatch; None: no match.
        frames: time limit of a match; that of other scenarios is in their .cfg.
    """

    file: str
    bots: int | None = None
    frames: int = 0


SCENARIOS = {
    PREFIX + "basic": Scenario("basic"),
    PREFIX + "deadly-corridor": Scenario("deadly_corridor"),
    PREFIX + "deathmatch": Scenario("deathmatch"),  # one player against monsters
    PREFIX + "deathmatch-bots": Scenario("cig", bots=7, frames=4200),  # the other map has no places for a match
    PREFIX + "defend-the-center": Scenario("defend_the_center"),
    PREFIX + "defend-the-line": Scenario("defend_the_line"),
    PREFIX + "health-gathering": Scenario("health_gathering"),
    PREFIX + "health-gathering-supreme": Scenario("health_gathering_supreme"),
    PREFIX + "my-way-home": Scenario("my_way_home"),
    PREFIX + "predict-position": Scenario("predict_position"),
    PREFIX + "rocket-basic": Scenario("rocket_basic"),
    PREFIX + "simpler-basic": Scenario("simpler_basic"),
    PREFIX + "take-cover": Scenario("take_cover"),
}

_TITLES = {
    "MOVE_FORWARD": "forward",
    "MOVE_BACKWARD": "backward",
    "MOVE_LEFT": "left",
    "MOVE_RIGHT": "right",
    "TURN_LEFT": "turn left",
    "TURN_RIGHT": "turn right",
    "ATTACK": "attack",
    "SELECT_NEXT_WEAPON": "next weapon",
    "SELECT_PREV_WEAPON": "previous weapon",
}
_TOGETHER = (("MOVE_FORWARD", "TURN_LEFT"), ("MOVE_FORWARD", "TURN_RIGHT"), ("MOVE_FORWARD", "ATTACK"))
_TOGETHER_IN_ARENAS = (("TURN_LEFT", "ATTACK"), ("TURN_RIGHT", "ATTACK"), ("MOVE_LEFT", "ATTACK"),
                       ("MOVE_RIGHT", "ATTACK"))


@dataclass(frozen=True)
class Presses:
    """The actions of a scenario as buttons.

    Attributes:
        names: of the actions, in the order of their numbers.
        buttons: one row per action, 1 for a button that is pressed, in the scenario's order.
    """

    names: tuple[str, ...]
    buttons: tuple[tuple[int, ...], ...]


def presses(available: list[Any]) -> Presses:
    """The actions for the buttons (`vizdoom.Button`) that a scenario has.

    Nothing first, then each button alone in the scenario's order, then pairs: forward with a turn or a shot, and in
    arenas, which are those where the player can run, a turn or a side step with a shot. A player who can run always
    does.
    """
    buttons = [button.name for button in available]
    always = {"SPEED"} & set(buttons)
    pairs = _TOGETHER + (_TOGETHER_IN_ARENAS if always else ())
    groups = [(), *((name,) for name in buttons if name in _TITLES), *(pair for pair in pairs if {*pair} <= {*buttons})]
    names = tuple(" + ".join(_TITLES[name] for name in group) or "nothing" for group in groups)
    return Presses(names, tuple(tuple(int(name in always.union(group)) for name in buttons) for group in groups))
