"""Writes docs/fields.md: every field of a run and of its algorithm, from the code. `python docs/fields.py`"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path

from workbench.cli.parser import APART, field_groups
from workbench.config import (
    ALGORITHMS,
    WEIGHT_FIELDS,
    DemonstrationsConfig,
    EpochsConfig,
    LearningConfig,
    ReplayConfig,
    RunConfig,
    Setting,
    settings,
)
from workbench.config.settings import ELSEWHERE
from workbench.config.signatures import bounds_of
from workbench.tables import shown

PAGE = Path(__file__).with_suffix(".md")
BASES = {
    LearningConfig: ("Every algorithm", "Batches, unrolls, the optimizer. An algorithm may have other defaults: see "
                     "its own table below."),
    EpochsConfig: ("Algorithms that train in epochs", "PPO, AWR, and any `wb.EpochsConfig`."),
    ReplayConfig: ("Algorithms with a replay", "R2D2, SAC, and any `wb.ReplayConfig`."),
    DemonstrationsConfig: ("Algorithms that learn from demonstrations", "BC, and any `wb.DemonstrationsConfig`."),
}

HEAD = """# Fields

Made from the code by `python docs/fields.py`; a test keeps it fresh. In a notebook, `wb.fields()`,
`wb.fields("r2d2")` and `wb.fields("learning_rate")` show the same facts as tables.

All fields are flat: `wb.launch("CartPole-v1", actors=4, learning_rate=1e-3)`. A
[preset](environments.md#presets) may change defaults for its environment. A value out of bounds, of a wrong type or
misspelt is refused before anything starts; [errors](errors.md) says how. The column *changes* says how a run's value
can be changed:

| changes | how |
|---|---|
| live (group) | while the run learns: `run.tune(...)`, `workbench tune` or a control in the panel, in this group |
| scale | while the run learns: `run.scale(actors=8)` |
| fork | in a second run from a checkpoint: `run.fork(batch_size=64)`, which takes live fields, too |
| new run | not in a fork, because what is learnt depends on it: `wb.launch(...)` |

`wb.resume` takes live fields, `actors`, `launcher` and `address`.
"""


def cell(text: object) -> str:
    """Text for a cell of a table."""
    return str(text).replace("|", "\\|").replace("\n", " ")


def row(field: Setting) -> str:
    """A line of a table."""
    default = f"`{cell(shown(field.default))}`" if shown(field.default) else ""
    return (f"| `{field.name}` | {default} | {cell(bounds_of(field) or field.unit)} | {changes(field)} | "
            f"{cell(field.help)} | {cell(field.source)} |")


def changes(field: Setting) -> str:
    """How a run's value is changed, in the words of HEAD's table."""
    if field.live:
        return f"live ({field.group})"
    if field.name == "actors":
        return "scale"
    return "new run" if field.name in WEIGHT_FIELDS or field.initial else "fork"


def table(fields: Iterable[Setting]) -> list[str]:
    """A table of fields."""
    return ["", "| field | default | values | changes | meaning | source |", "|---|---|---|---|---|---|",
            *(row(field) for field in fields)]


def run_sections() -> list[str]:
    """The fields of every run, grouped as the command line has them."""
    own = settings(RunConfig)
    lines = ["", "## Every run", "", "### What runs", *table(own[name] for name in APART)]
    for title, names in field_groups():
        if set(names) <= own.keys():
            lines += ["", f"### {title[0].upper()}{title[1:]}", *table(own[name] for name in names)]
    return lines


def algorithm_sections() -> list[str]:
    """The fields that algorithms share, and then what each has of its own."""
    lines: list[str] = []
    for base, (title, text) in BASES.items():
        inherited = {} if base is LearningConfig else settings(LearningConfig)
        fields = [field for field in settings(base).values() if inherited.get(field.name) != field]
        lines += ["", f"## {title}", "", text, *table(fields)]
    for name, config in ALGORITHMS.items():
        base = next(each for each in (*list(BASES)[1:], LearningConfig) if issubclass(config, each))
        inherited = settings(base)
        fields = [field for field in settings(config).values() if inherited.get(field.name) != field]
        text = inspect.cleandoc(config.__doc__ or "")
        lines += ["", f"## {name}", "", f"{text} Its own fields, and those of the tables above that have another "
                  "default here:", *table(fields)]
    return lines


def names_elsewhere() -> list[str]:
    """What other libraries and papers call a field."""
    rows = [f"| {', '.join(f'`{word}`' for word in sorted(words))} | `{field}` |" for field, words in ELSEWHERE.items()]
    return ["", "## Names elsewhere", "", "What other libraries and papers call a field; a call with such a name is "
            "refused with ours.", "", "| there | here |", "|---|---|", *rows]


def page() -> str:
    """The text of docs/fields.md."""
    return HEAD + "\n".join([*run_sections(), *algorithm_sections(), *names_elsewhere()]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name} is written.")
