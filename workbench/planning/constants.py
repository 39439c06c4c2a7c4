"""The measured and published numbers behind plans.

`constants.csv` has one number in each line: its subject (an environment's name or its prefix, the service, an
accelerator, a published row), quantity, condition (environments per message, or algorithm and environment), and source.
`python benchmarks/planning.py --constants` rewrites those of benchmarks/results/.
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
    """All numbers of the file, in its order."""
    text = resources.files("workbench.planning").joinpath("constants.csv").read_text(encoding="utf-8")
    return tuple(Constant(row["of"], row["quantity"], row["at"], float(row["value"]), row["unit"], row["source"])
                 for row in csv.DictReader(text.splitlines()))


def constant(of: str, quantity: str, at: str = "") -> Constant | None:
    """The number with exactly this subject, quantity and condition; None if there is none."""
    return next((row for row in constants() if (row.of, row.quantity, row.at) == (of, quantity, at)), None)


def known(of: str, quantity: str, at: str = "") -> float:
    """The value of a number that the file must have. Raises UnknownName."""
    row = constant(of, quantity, at)
    if row is None:
        raise UnknownName.among("constant", " ".join((of, quantity, at)).strip(),
                                {" ".join((row.of, row.quantity, row.at)).strip() for row in constants()})
    return row.value


def by_size(of: str, quantity: str) -> dict[int, float]:
    """Values of a quantity by the number of environments per message at which they were measured."""
    return dict(sorted((int(row.at), row.value) for row in constants() if (row.of, row.quantity) == (of, quantity)))


def environment_of(name: str) -> str | None:
    """The subject that has the numbers of environment `name`, such as "ALE/" for all of Atari; None: not measured."""
    return max((of for of in environments() if name == of or (of[-1] in "/-" and name.startswith(of))), key=len,
               default=None)


def environments() -> list[str]:
    """The measured environments."""
    return sorted({row.of for row in constants() if row.quantity == "steps_per_core"})


def accelerators() -> list[str]:
    """The accelerators with numbers."""
    return sorted({row.of for row in constants()
                   if row.quantity in ("learner_steps_per_second", "inference_steps_per_second")})
