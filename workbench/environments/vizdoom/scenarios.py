"""ViZDoom's scenarios as environments: their names, and what an action presses.

The scenarios' own files (`<name>.cfg`, `<name>.wad`) come with the vizdoom wheel; reward, time limit and what can be
pressed are read from there. An action presses nothing, one button, or two that go together, for all the frames of a
step. Buttons that stand for an amount (mouse moves) are not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PREFIX = "vizdoom/"


@dataclass(frozen=True)
class Scenario:
    """One scenario.

    Attributes:
        file: of its .cfg, without the ending.
        bots: the engine's own players in a deathmatch, where nothing else is asked for; None: no match.
        frames: time limit of a match; of the others their .cfg says.
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
    """What the actions of a scenario press.

    Attributes:
        names: of the actions, in the order of their numbers.
        buttons: one row per action, 1 for a button that is pressed, in the scenario's order.
    """

    names: tuple[str, ...]
    buttons: tuple[tuple[int, ...], ...]


def presses(available: list[Any]) -> Presses:
    """The actions where these buttons (`vizdoom.Button`) are available.

    Nothing first, then each button alone in the scenario's order, then those that go together: forward with a turn or
    a shot, and in arenas, which are those where the player can run, a turn or a side step with a shot. Whoever can run
    always does.
    """
    have = [button.name for button in available]
    held = {"SPEED"} & set(have)
    pairs = _TOGETHER + (_TOGETHER_IN_ARENAS if held else ())
    pressed = [(), *((name,) for name in have if name in _TITLES), *(pair for pair in pairs if set(pair) <= set(have))]
    names = tuple(" + ".join(_TITLES[one] for one in group) or "nothing" for group in pressed)
    return Presses(names, tuple(tuple(int(name in held.union(group)) for name in have) for group in pressed))
