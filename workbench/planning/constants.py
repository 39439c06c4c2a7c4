"""The measured and published numbers that plans are made of.

`constants.csv`, one number a line: what it is of (an environment's name or how it begins, the service, an accelerator,
a published row), which quantity, at what (environments per message, or algorithm and environment), and its source.
`python benchmarks/planning.py --constants` writes those of benchmarks/results/ anew.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

from workbench.errors import UnknownName


@dataclass(frozen=True)
class Constant:
    """One number.

    Attributes:
        of: such as "ALE/", "service" or "v100".
        quantity: such as "steps_per_core".
        at: environments per message, algorithm and environment, or "".
        source: benchmark and date, or paper and table.
    """

    of: str
    quantity: str
    at: str
    value: float
    unit: str
    source: str


@cache
def constants() -> tuple[Constant, ...]:
    """All of them, as the file has them."""
    text = resources.files("workbench.planning").joinpath("constants.csv").read_text(encoding="utf-8")
    return tuple(Constant(row["of"], row["quantity"], row["at"], float(row["value"]), row["unit"], row["source"])
                 for row in csv.DictReader(text.splitlines()))


def constant(of: str, quantity: str, at: str = "") -> Constant | None:
    """The number of exactly that; None where there is none."""
    return next((one for one in constants() if (one.of, one.quantity, one.at) == (of, quantity, at)), None)


def known(of: str, quantity: str, at: str = "") -> float:
    """The value of a number that the file must have. Raises UnknownName."""
    found = constant(of, quantity, at)
    if found is None:
        raise UnknownName.among("constant", " ".join((of, quantity, at)).strip(),
                                {" ".join((one.of, one.quantity, one.at)).strip() for one in constants()})
    return found.value


def by_size(of: str, quantity: str) -> dict[int, float]:
    """A quantity that was measured at several numbers of environments per message, by that number."""
    found = {int(one.at): one.value for one in constants() if (one.of, one.quantity) == (of, quantity)}
    return dict(sorted(found.items()))


def environment_of(name: str) -> str | None:
    """What the numbers of the environment `name` are listed by, such as "ALE/" for all of Atari; None: not measured."""
    listed = {one.of for one in constants() if one.quantity == "steps_per_core"}
    return max((one for one in listed if name == one or (one[-1] in "/-" and name.startswith(one))), key=len,
               default=None)


def environments() -> list[str]:
    """What environments were measured."""
    return sorted({one.of for one in constants() if one.quantity == "steps_per_core"})


def accelerators() -> list[str]:
    """What accelerators there are numbers of."""
    return sorted({one.of for one in constants()
                   if one.quantity in ("learner_steps_per_second", "inference_steps_per_second")})
