"""`Run.card`: one page of Markdown or HTML to judge a run by and to repeat it.

It is read from the run's directory alone, whether the run trains, has ended or is dead.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workbench import checkpoints, tables
from workbench.checkpoints.checkpoint import NAME
from workbench.config import RunConfig
from workbench.errors import InvalidInput
from workbench.metrics import MetricsReader
from workbench.metrics.status import RunStatus
from workbench.metrics.status_facts import FACTS
from workbench.rundir import RunDirectory
from workbench.rundir.files import saving
from workbench.rundir.record_folder import RECORD_NAME
from workbench.running.card import curve as card_curve
from workbench.running.card import sections as card_sections
from workbench.running.card.sections import Row
from workbench.running.connection import still_there, stored_status
from workbench.running.reading.changes import Change, changes

AS_LAUNCHED = "Hyperparameters as launched"  # title of a section
POINTS = 300  # of a curve, at most: each is a mean


@dataclass(frozen=True)
class Section:
    """A table of a card; its rows are (name, value, remark)."""

    title: str
    rows: tuple[Row, ...]

    @property
    def markdown(self) -> str:
        """The title and the table."""
        lines = [f"| {' | '.join(map(escaped, row))} |" for row in self.rows]
        return f"## {self.title}\n\n" + "\n".join(["| | | |", "|---|---|---|", *lines])


@dataclass(frozen=True, repr=False)
class Card:
    """A run on one page. A cell shows it; `print(card)` prints its Markdown.

    Attributes:
        name: of the run.
        summary: in one sentence.
        sections: tables, in the order of the page.
        curve: the learning curve as SVG; "" before its second point.
        code: Python that starts such a run again.
    """

    name: str
    summary: str
    sections: tuple[Section, ...]
    curve: str
    code: str

    @property
    def markdown(self) -> str:
        """The page as Markdown, with the curve as SVG in it."""
        parts = [f"# {escaped(self.name)}", escaped(self.summary)]
        if self.curve:
            parts.append(f"<p>\n{self.curve}\n</p>")
        parts += [section.markdown for section in self.sections]
        return "\n\n".join([*parts, "## Again", fenced(self.code)]) + "\n"

    @property
    def html(self) -> str:
        """The page as HTML, without other files."""
        return ('<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
                f"<title>{html.escape(self.name)}</title>\n"
                "<style>body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
                f"</style></head>\n<body>{self._repr_html_()}</body></html>\n")

    def _repr_html_(self) -> str:
        parts = [f"<h1>{html.escape(self.name)}</h1><p>{html.escape(self.summary)}</p>", self.curve]
        for section in self.sections:
            rows = "\n".join(
                "<tr>" + "".join(f'<td style="text-align:left;vertical-align:top">{html.escape(cell)}</td>'
                                 for cell in row) + "</tr>" for row in section.rows)
            parts.append(f"<h2>{html.escape(section.title)}</h2>\n<table>{rows}</table>")
        return tables.output("\n".join([*parts, f"<h2>Again</h2>\n<pre>{html.escape(self.code)}</pre>"]))

    def save(self, path: str | Path) -> Path:
        """Write the card as .md or .html, and return its path; a link there is replaced. Raises InvalidInput,
        StorageFailed."""
        if not isinstance(path, str | Path):
            raise InvalidInput(f"{path!r} is no path. Give one such as 'pong.md'.")
        target = Path(path).expanduser().absolute()
        texts = {".md": self.markdown, ".html": self.html}
        if target.suffix not in texts:
            raise InvalidInput(f"{target.name!r} says no format. End it in one of {', '.join(texts)}.")
        with saving(target) as beside:
            beside.write_text(texts[target.suffix], encoding="utf-8", errors="backslashreplace")
        return target

    def __str__(self) -> str:
        return self.markdown

    def __repr__(self) -> str:
        return tables.plain(f"Card({self.name}: {self.summary})")


def card(directory: RunDirectory) -> Card:
    """The card of a run. Raises RunNotFound, StorageFailed."""
    record, status = still_there(directory).read(), stored_status(directory)
    reader = MetricsReader(directory.metrics)
    config, events = directory.config(), reader.events()
    written = checkpoints.every(directory.checkpoints)
    newest, best = next(reversed(written), None), checkpoints.best_whole(written)
    launched = _as_launched(config, events)
    sections = (
        Section("Result", tuple(card_sections.result(status, config, directory, best, newest))),
        Section("Environment and preprocessing", tuple(card_sections.environment(launched, newest))),
        Section("Run", tuple(card_sections.run(record, launched, newest, directory))),
        Section(AS_LAUNCHED, tuple(card_sections.hyperparameters(launched))),
        Section("What happened", tuple(card_sections.happened(events))),
        Section("Machine and versions", tuple(card_sections.machine(record, status))),
        Section("Units", card_sections.UNITS),
    )
    filled = tuple(section for section in sections if section.rows)
    return Card(
        directory.name, _summary(status, launched), filled, _curve(reader, config), _code(record, launched, events))


def _as_launched(config: RunConfig, events: Sequence[Mapping[str, Any]]) -> RunConfig:
    """The configuration before the first change."""
    before: dict[str, Any] = {}
    for change in changes(events):
        before.setdefault(change.name, change.old)
    for name, value in before.items():
        config = _changed(config, name, value) or config
    return config


def _changed(config: RunConfig, name: str, value: Any) -> RunConfig | None:
    """The configuration after a live change; None for one that no run makes, which a stranger's events can hold."""
    with suppress(InvalidInput):
        return config.replaced(actors=value) if name == "actors" else config.with_live(**{name: value})
    return None


def _summary(status: RunStatus, config: RunConfig) -> str:
    now = status.collapse or FACTS[status.judged_by or "episode_return"].said(status)
    best = FACTS["best_return"].said(status)
    at = FACTS["frames"].written(status.best_return_frames or 0, unit=True)
    reached = [FACTS["frames"].said(status), now, f"{best} at {at}" if best and not status.collapsed else ""]
    parts = ", ".join(text for text in reached if text)
    return f"{config.algorithm} on {config.environment}, seed {config.seed}: {status.state} after {parts}."


def _curve(reader: MetricsReader, config: RunConfig) -> str:
    names = {"episode_return": "training episodes", "evaluation_return": "evaluation episodes"}
    recorded, lines = reader.names(), {}
    for name, title in names.items():
        if name in recorded:
            points = reader.means(name, points=POINTS)
            lines[title] = (points["frames"], points["value"])
    return card_curve.curve(lines, x_title="frames", y_title="return")


def _taken(events: Sequence[Mapping[str, Any]]) -> list[Change]:
    """The changes as they led to the weights of now, oldest first.

    After a restore the run made the frames behind the checkpoint again, under the changes that it had by then. So a
    change holds from the earliest checkpoint that was restored later, and only the last one of a field there.
    """
    restores = [(event["id"], event["frames"]) for event in events
                if event["kind"] == "restore" and event["frames"] is not None]
    taken: dict[tuple[str, int], Change] = {}
    for change in changes(events):
        later = [frames for event, frames in restores if event > change.event and change.frames is not None]
        moved = replace(change, frames=min(later)) if later and min(later) < (change.frames or 0) else change
        key = (change.name, change.event if moved is change else -(moved.frames or 0) - 1)
        taken.pop(key, None)
        taken[key] = moved
    return list(taken.values())


def _code(record: Mapping[str, Any], config: RunConfig, events: Sequence[Mapping[str, Any]]) -> str:
    """Python that launches such a run and repeats its changes."""
    fields = {"algorithm": config.algorithm, "seed": config.seed}
    if not record.get("code", {}).get("environment"):  # those have no presets
        fields["preset"] = "none"  # the values of the run's follow as fields, and it may have had none
    fields |= {name: value for name, value in config.changed.items() if name not in (*fields, "wrappers")}
    kinds = [kind for kind in ("environment", "algorithm", "network") if record.get("code", {}).get(kind)]
    lines = [f"# {' and '.join(kinds)} of its user's own: define it first"] if kinds else []
    parent = record.get("parent") if isinstance(record.get("parent"), dict) else None
    if parent is not None:
        forks = ", and as a fork also its counters and optimizer" if parent["take"] == "all" else ""
        lines.append(f"# checkpoint: of which it took the weights{forks}")
    if config.imitates:
        lines.append("# demonstrations: the recorded episodes that it learns from")
    mine = "environment" in kinds and config.environment.isidentifier()
    lines += ["import workbench as wb", "",
              f"run = wb.launch({config.environment if mine else repr(config.environment)},"]
    written = {name: repr(value) for name, value in fields.items()}
    if "algorithm" in kinds:
        written["algorithm"] = config.algorithm  # the class, not its name
    if parent is not None:
        one = f"{parent['run']}@{Path(parent['checkpoint']).name}"
        written["checkpoint"] = repr(one) if _OF_A_RUN.fullmatch(one) else "..."  # no other text of a record is code
    if config.imitates:
        written["demonstrations"] = "..."
    lines += [f"                {name}={value}," for name, value in written.items()]
    lines[-1] = lines[-1].removesuffix(",") + ")"
    for change in _taken(events):
        if _changed(config, change.name, change.new) is None:
            continue
        call = f"run.{'scale' if change.name == 'actors' else 'tune'}({change.name}={change.new!r})"
        lines.append(f"run.wait(frames={change.frames}); {call}" if change.frames else call)
    return "\n".join(lines)


_OF_A_RUN = re.compile(f"{RECORD_NAME.pattern}@{NAME.pattern}", re.ASCII)

# Markup of Markdown: a mark anywhere, an underscore at the edge of a word, and the beginning of a list or a line.
_MARKUP = re.compile(r"[\\`*\[\]|~#$]|(?<![^\W_])_|_(?![^\W_])|^[-+=:]")
_NUMBERED = re.compile(r"^(\d{1,9})(?=[.)](?: |$))")


def fenced(code: str) -> str:
    """Python as a block of Markdown, whatever is in it."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", code)), default=0))
    return f"{fence}python\n{code}\n{fence}"


def escaped(text: str) -> str:
    """Text for a title or a table's cell in Markdown, which then shows it unchanged."""
    text = _MARKUP.sub(r"\\\g<0>", tables.plain(" ".join(text.split())))
    return html.escape(_NUMBERED.sub(r"\1\\", text), quote=False)
