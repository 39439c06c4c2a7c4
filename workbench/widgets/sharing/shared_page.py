"""`Run.share`: a run as one HTML file below 10 MB that any browser opens without a network.

It holds the panel's facts and charts (which zoom), the best rollout (which plays), the card, and the configuration with
its changes. A content security policy allows the page's own script and style sheet by their digests and nothing else,
so that no text of a run, whoever wrote it, becomes more than text, and no request leaves the page.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from workbench import imports, tables
from workbench.config.hardware import version
from workbench.errors import InvalidInput
from workbench.metrics import History, MetricsReader
from workbench.rundir.files import free_path, saving
from workbench.running.card.card import AS_LAUNCHED, Card
from workbench.running.connection import still_there
from workbench.running.handle import Run
from workbench.running.reading.changes import Change, changes, courses
from workbench.widgets.kernel import assets
from workbench.widgets.panel import dashboard, snapshot
from workbench.widgets.panel.badge import BADGES
from workbench.widgets.panel.snapshot import Snapshot
from workbench.widgets.sharing import fitted_film, plain_charts
from workbench.widgets.sharing.fitted_film import Film

LARGEST = 10_000_000  # bytes of a file
MARGIN = 20_000  # bytes for what is around the film
POINTS = 1000  # of a line
_SUFFIXES = (".html", ".htm")
_POLICY = ("default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data: blob:; base-uri 'none'; "
           "form-action 'none'")


def share(run: Run, path: str | Path | None = None) -> Path:
    """Write the run as one HTML file, and return its absolute path.

    `path`: ends in .html, and replaces a file that is there; None: a free name in the working directory.

    Raises InvalidInput for another ending, RunNotFound, StorageFailed.
    """
    target = free_path(run.name, ".html") if path is None else Path(path).expanduser().absolute()
    if target.suffix.lower() not in _SUFFIXES:
        raise InvalidInput(f"{target.name!r} is no name of a page. End it in .html.")
    text = page(run).encode("utf-8", "replace")
    with saving(target) as beside:
        beside.write_bytes(text)
        beside.chmod(0o644)  # it is made to be read by others
    return target


def page(run: Run) -> str:
    """The page."""
    directory = still_there(run.directory)
    now = dashboard.read(directory, status=run.status, history=History(directory.metrics, most_points=POINTS))
    card = run.card()
    events = MetricsReader(directory.metrics).events()
    before = [_header(now), '<main><section id="charts" aria-label="Charts"></section>']
    after = [_card(card), _configuration(now, changes(events)), f"</main>{_footer()}"]
    data = _data("charts-data", plain_charts.charts(now))
    script, style = assets.text("share.js"), f"{assets.text('player.css')}{assets.text('share.css')}"
    around = _document(now.name, [*before, *after, data], script=script, style=style)
    found = fitted_film.best_rollout(run)
    left = (LARGEST - MARGIN - len(around.encode("utf-8", "replace"))) * 3 // 4  # base64 takes four bytes for three
    shown = fitted_film.fitted(found, left) if not isinstance(found, str) else found
    return _document(now.name, [*before, _rollout(shown), *after, data, *_film_data(shown)], script=script, style=style)


def _document(title: str, parts: Iterable[str], *, script: str, style: str) -> str:
    policy = _POLICY.format(script=_digest(script), style=_digest(style))
    body = "\n".join(parts)
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{html.escape(policy, quote=True)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,"><title>{_text(title)}</title>
<style>{style}</style></head>
<body>{body}
<script type="module">{script}</script></body></html>
"""


def _digest(text: str) -> str:
    """The source expression of a content security policy that allows an element with this text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _text(text: object) -> str:
    """Text of a run as HTML; control characters, such as those that reverse text, become escapes."""
    return html.escape(tables.plain(str(text)))


# --- parts of the page ------------------------------------------------------------------------------------------------


def _header(now: Snapshot) -> str:
    written = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    facts = "".join(f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in snapshot.facts(now))
    sentences = [now.status.collapse, snapshot.reason(now) if now.ended else ""]
    reason = "".join(f"<p>{_text(sentence)}</p>" for sentence in sentences if sentence)
    known = now.status.state if now.status.state in BADGES else "unknown"
    return (f'<header><h1>{_text(now.name)} <span class="badge badge-{known}">{_text(now.status.state)}</span></h1>'
            f'<p class="quiet">As it was on {written}. {_text(snapshot.progress(now))}.</p>{reason}'
            f'<dl class="facts">{facts}</dl></header><noscript><p>The charts and the player need JavaScript.</p>'
            "</noscript>")


def _rollout(shown: Film | str | None) -> str:
    if shown is None:
        said = "The best rollout does not fit into this file."
    elif isinstance(shown, str):
        said = shown
    else:
        said = shown.note
    paragraph = f'<p class="quiet">{_text(said)}</p>' if said else ""
    return f'<section id="rollout"><h2>Best rollout</h2><div id="player"></div>{paragraph}</section>'


def _card(card: Card) -> str:
    parts = [f"<h2>Card</h2><p>{_text(card.summary)}</p>"]
    for section in card.sections:
        if section.title != AS_LAUNCHED:  # the configuration follows by itself, with its changes
            rows = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in section.rows)
            parts.append(f"<h3>{_text(section.title)}</h3>{_scrolling(f'<table>{rows}</table>')}")
    parts.append(f"<h3>Again</h3><pre tabindex=0>{'<br>'.join(map(_text, card.code.splitlines()))}</pre>")
    return f'<section id="card">{"".join(parts)}</section>'


def _configuration(now: Snapshot, made: Sequence[Change]) -> str:
    """Every field with its value and its default; those that changed while the run learnt come first."""
    course, fields = courses(made), now.config.all_settings()
    rows = []
    for name in sorted(fields, key=lambda name: name not in course):
        setting = fields[name]
        cells = (name, tables.brief(now.config.value(name)), course.get(name, ""), tables.brief(setting.default),
                 setting.unit, setting.help)
        rows.append(f'<tr{" class=changed" if name in course else ""}>'
                    + "".join(f"<td>{_text(cell)}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th scope=col>{name}</th>" for name in (
        "field", "value", "changed while it learnt", "default", "unit", "what it is"))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f'<section id="configuration"><h2>Configuration</h2>{_scrolling(table)}</section>'


def _scrolling(table: str) -> str:
    return f'<div class="scrolling" tabindex="0" role="group">{table}</div>'


def _footer() -> str:
    written_by = f"RL Workbench {version(imports.DISTRIBUTION)}".rstrip()
    return (f'<footer class="quiet">Written by {_text(written_by)}. This file is all there is: it loads '
            "nothing from anywhere.</footer>")


# --- data of the page -------------------------------------------------------------------------------------------------


def _data(name: str, value: Any) -> str:
    """A value as JSON in the page; no text in it ends the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'


def _film_data(shown: Film | str | None) -> list[str]:
    if not isinstance(shown, Film):
        return []
    buffers = [f'<script type="text/plain" id="film-{at}">{base64.b64encode(part).decode()}</script>'
               for at, part in enumerate(shown.buffers)]
    return [_data("film", {**tables.with_texts(shown.message, tables.plain), "buffers": len(shown.buffers)}), *buffers]
