"""Draws docs/overview-light.svg and docs/overview-dark.svg: the processes of a run, for newcomers.

    python docs/drawings/overview.py [FOLDER]

FOLDER: where to, instead of docs.
"""

from __future__ import annotations

from shapes import Colours, svg, text, write

TITLE = "The processes of a run"
SUMMARY = ("Actors step environments and send observations and rewards to one learner. It chooses all actions in "
           "batches and trains, with one copy of the weights on one accelerator. A supervisor starts and restarts "
           "actors and learner. A notebook steers the supervisor and reads what the run writes to its directory.")


def drawing(colours: Colours) -> str:
    """The SVG in these colours."""
    heads = "".join(_head(name, colours[name]) for name in ("line", "out", "back"))
    shapes = [f"<defs>{heads}</defs>", *_frame(colours), *_actors(colours), *_learner(colours), *_streams(colours)]
    return svg(880, 500, colours, title=TITLE, summary=SUMMARY, shapes=shapes)


def _frame(colours: Colours) -> list[str]:
    """Notebook, run directory, and the frame of the background processes with their supervisor."""
    quiet = colours["quiet"]
    return [
        *_box(colours, (20, 16, 300, 70), "Notebook", "launch, steer, watch: nothing trains here"),
        *_box(colours, (600, 16, 260, 70), "Run directory", "metrics, checkpoints, rollouts", fill="store"),
        _arrow(colours, (600, 51), (324, 51)),
        text(462, 43, "charts, checkpoints, players", quiet),
        '<rect x="10" y="128" width="860" height="362" rx="10" fill="none" stroke-dasharray="3 4" '
        f'stroke="{colours["line"]}"/>',
        text(858, 480, "background processes: they outlive the cell, the kernel and the browser tab", quiet, "end"),
        *_box(colours, (30, 146, 640, 50), "Supervisor",
              "starts and restarts the others, checks and records each change"),
        _arrow(colours, (170, 86), (170, 142), both=True),
        text(182, 112, "launch, tune, stop", quiet, "start"),
        _arrow(colours, (120, 196), (120, 232), dashed=True),
        _arrow(colours, (560, 196), (560, 226), dashed=True),
        _arrow(colours, (765, 230), (765, 90)),
    ]


def _actors(colours: Colours) -> list[str]:
    """Two of the actors, each with its environments."""
    shapes = []
    for y, name in ((236, "Actor 1"), (350, "Actor n")):
        shapes += _box(colours, (30, y, 250, 78), name, "steps environments, has no network", at=18)
        shapes += [f'<rect x="{47 + 28 * one}" y="{y + 50}" width="20" height="18" rx="3" fill="{colours["pale"]}"/>'
                   for one in range(8)]
    return [*shapes, text(155, 338, "⋮", colours["text"])]


def _learner(colours: Colours) -> list[str]:
    """The learner and the way round in it."""
    inside = ((462, 274, "Inference", "all actions, in batches"), (668, 274, "Weights", "one copy"),
              (462, 376, "Unrolls", "a queue, or replay"), (668, 376, "Training", "V-trace, R2D2, PPO, ..."))
    return [
        *_box(colours, (444, 230, 412, 230), "Learner: one accelerator acts and trains", "", at=24),
        *(shape for x, y, name, note in inside for shape in _box(colours, (x, y, 170, 60), name, note, fill="part")),
        _arrow(colours, (547, 334), (547, 372)), _arrow(colours, (632, 406), (664, 406)),
        _arrow(colours, (753, 376), (753, 338)), _arrow(colours, (668, 304), (636, 304)),
    ]


def _streams(colours: Colours) -> list[str]:
    """One stream an actor: observations there, actions back."""
    lines = [((280, 264), (458, 290), "out"), ((462, 306), (284, 286), "back"),
             ((280, 376), (458, 316), "out"), ((462, 328), (284, 398), "back")]
    notes = ("one stream per actor:", "shared memory,", "or gRPC with TLS")
    return [
        *(_arrow(colours, start, end, colour) for start, end, colour in lines),
        text(362, 256, "observations, rewards", colours["out"]), text(404, 378, "actions", colours["back"]),
        *(text(362, 424 + 17 * line, note, colours["quiet"]) for line, note in enumerate(notes)),
    ]


def _box(
    colours: Colours, place: tuple[int, int, int, int], title: str, note: str, *, fill: str = "box", at: int = 0
) -> list[str]:
    """A box with its title, `at` px below its top, and a line below that; without `at`, both in its middle."""
    x, y, width, height = place
    at = at or height // 2 - 4
    return [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" fill="{colours[fill]}" '
        f'stroke="{colours["line"]}"/>',
        text(x + width / 2, y + at, title, colours["text"], weight=600),
        *([text(x + width / 2, y + at + 19, note, colours["quiet"])] if note else []),
    ]


def _arrow(
    colours: Colours, start: tuple[int, int], end: tuple[int, int], colour: str = "line", *, dashed: bool = False,
    both: bool = False,
) -> str:
    more = (' stroke-dasharray="5 4"' if dashed else "") + (f' marker-start="url(#{colour})"' if both else "")
    return (f'<line x1="{start[0]}" y1="{start[1]}" x2="{end[0]}" y2="{end[1]}" stroke="{colours[colour]}" '
            f'stroke-width="1.6" marker-end="url(#{colour})"{more}/>')


def _head(name: str, colour: str) -> str:
    return (f'<marker id="{name}" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 Z" fill="{colour}"/></marker>')


if __name__ == "__main__":
    write("overview", drawing)
