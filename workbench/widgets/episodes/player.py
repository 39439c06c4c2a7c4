"""The rollout player: one or two episodes, played in the page.

An episode travels in one message, when a page says hello: its pictures as they are kept, and columns by step. The page
plays it without the kernel, and gets it anew after a refresh. Only saving a film asks Python again.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anywidget
import numpy as np
import traitlets

from workbench.environments import observations
from workbench.environments.observations import Drawable
from workbench.errors import InvalidInput
from workbench.playing import action_words
from workbench.playing.action_bars import domain_of, strip
from workbench.playing.rollout import Rollout
from workbench.tables import number
from workbench.trajectory import ActionSpec, Array
from workbench.widgets.episodes import filmstrip
from workbench.widgets.episodes.filmstrip import Moment
from workbench.widgets.kernel import assets
from workbench.widgets.kernel.refresher import Actions
from workbench.widgets.kernel.saved_view import Bundle, Shown
from workbench.wire import columns

KINDS = {"q_values": "q_value", "means": "mean"}  # of scores, as `Outlook` has them, by the array that keeps them
FORMATS = ("mp4", "gif")


class RolloutPlayer(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget is not typed
    """One rollout, or two side by side on one clock. Raises InvalidInput for none or more."""

    _esm = assets.text("player.js")
    _css = assets.text("player.css")
    mode = traitlets.Unicode("rollouts").tag(sync=True)
    label = traitlets.Unicode("Rollout player").tag(sync=True)

    def __init__(self, rollouts: Sequence[Rollout]) -> None:
        self.rollouts = tuple(rollouts)
        if not 1 <= len(self.rollouts) <= 2:
            raise InvalidInput(f"the player shows one rollout, or two side by side, not {len(self.rollouts)}.")
        super().__init__(label=f"Rollout player: {' and '.join(map(title, self.rollouts))}")
        self._actions = Actions()
        self._shown: list[Shown] = []
        self.on_msg(self._received)

    def __repr__(self) -> str:
        return f"<RolloutPlayer of {' and '.join(map(title, self.rollouts))}>"

    def still(self) -> Bundle:
        """What a saved notebook keeps: a strip of frames and the facts of each rollout."""
        parts = [filmstrip.bundle(title(one), facts(one), _few_frames(one)) for one in self.rollouts]
        page = "".join(part["text/html"] for part in parts)
        text = "\n".join(part["text/plain"] for part in parts)
        return {**parts[0], "text/html": page, "text/plain": text}

    def _ipython_display_(self) -> None:
        self._shown.append(Shown(self, self.still()))

    def _received(self, _: Any, content: dict[str, Any], __: Any) -> None:
        """What a page asks for; in the main thread or in a subshell's."""
        if content.get("type") == "hello":
            for index, rollout in enumerate(self.rollouts):
                message, buffers = episode(rollout)
                place = {"type": "episode", "view": content.get("view"), "index": index, "count": len(self.rollouts)}
                self.send({**place, **message}, buffers)
        elif content.get("type") == "save":
            self._tell(content, f"writing the {content.get('format')} …")
            self._actions.submit(lambda: self._save(content))

    def _save(self, asked: dict[str, Any]) -> None:
        try:
            path = self.save(int(asked["index"]), str(asked["format"]), overlay=bool(asked.get("overlay")))
            self._tell(asked, f"saved: {path}")
        except Exception as error:  # shown beside the button, whatever it is
            self._tell(asked, f"not saved: {error}", error=True)

    def _tell(self, asked: dict[str, Any], text: str, *, error: bool = False) -> None:
        """Show how a request to save goes on, beside its button."""
        about = {"view": asked.get("view"), "index": asked.get("index")}
        self.send({"type": "saved", **about, "text": text, "error": error})

    def save(self, index: int = 0, kind: str = "mp4", *, overlay: bool = False) -> Path:
        """Write rollout `index` as a film into the notebook's folder, under a name that is free; its path."""
        if kind not in FORMATS:
            raise InvalidInput(f"{kind!r} is not a kind of film that can be written: choose one of {FORMATS}.")
        rollout = self.rollouts[index]
        return Path(rollout.save(_free_name(rollout, kind), overlay=overlay))


def title(rollout: Rollout) -> str:
    """A rollout in a few words."""
    how = "greedy" if rollout.greedy else "sampled actions"
    agent = f"{rollout.algorithm} at {rollout.checkpoint_frames:,} frames, seed {rollout.seed}, {how}"
    if rollout.by_person is not None:
        agent = f"played by a person{f' and {agent}' if rollout.algorithm else f', seed {rollout.seed}'}"
    return f"{rollout.environment}, {agent}: return {number(rollout.episode_return)}"


def facts(rollout: Rollout) -> dict[str, str]:
    """What is to be known of a rollout, by name."""
    steps = len(rollout.actions)
    by_person = {} if rollout.by_person is None else {
        "chosen by": f"a person {np.count_nonzero(rollout.by_person):,}, "
                     f"the agent {np.count_nonzero(~rollout.by_person):,} steps"}
    return {
        "return": number(rollout.episode_return),
        "steps": f"{steps:,} ({steps / rollout.fps:,.1f} s), {rollout.end}",
        "rewards": f"{np.count_nonzero(rollout.rewards):,} steps with one",
        **({} if rollout.episode_score is None else {"score": number(rollout.episode_score)}),
        "an action": action_words.kind_in_words(rollout.action_spec),
        "taken": action_words.taken(rollout.action_spec, rollout.action_names, rollout.actions),
        **by_person,
        **({"checkpoint": str(rollout.checkpoint)} if rollout.algorithm else {}),
    }


def episode(rollout: Rollout) -> tuple[dict[str, Any], list[bytes]]:
    """A rollout as one message: header and table of columns, and the buffers columns and saliency, compressed, with
    the pictures between them."""
    mime, pictures = rollout.pictures() if rollout.frames is not None else ("", [])
    saliency = None if rollout.saliency is None else np.asarray(rollout.saliency, np.uint8)
    seen = None
    if not pictures or rollout.explains_what_frames_do_not_show:
        seen = observations.on_page(rollout.observation_rows, parts=rollout.parts)
    table, packed = columns.pack(_columns(rollout, pictures, seen))
    size = np.shape(rollout.frames[0])[:2] if rollout.frames is not None else (0, 0)
    header = {
        "title": title(rollout), "label": repr(rollout), "fps": float(rollout.fps),
        "kind": next((kind for name, kind in KINDS.items() if getattr(rollout, name) is not None), "probability"),
        **policy_header(rollout.action_spec, rollout.action_names),
        "picture": {"mime": mime, "height": size[0], "width": size[1]} if pictures else None,
        "shape": [] if seen is None else list(seen.values.shape[1:]),
        "entries": [] if seen is None else list(seen.names),
        "saliency": None if saliency is None else list(saliency.shape), "note": _note(rollout),
    }
    compressed = b"" if saliency is None else zlib.compress(saliency.tobytes(), 1)
    return {"header": header, "columns": table}, [zlib.compress(packed, 1), b"".join(pictures), compressed]


def policy_header(actions: ActionSpec, names: Sequence[str]) -> dict[str, Any]:
    """What the page must know of actions: their kind, and the bars that stand for them."""
    return {"actions": actions.kind, "groups": [one._asdict() for one in action_words.groups(actions, names)]}


def _note(rollout: Rollout) -> str:
    if not rollout.note:
        return ""
    said = rollout.note if rollout.frames is not None else f"no pictures: {rollout.note}"
    return f"{said[0].upper()}{said[1:]}."


def _columns(rollout: Rollout, pictures: Sequence[bytes], seen: Drawable | None) -> dict[str, Array]:
    """Columns by frame, T+1 rows: what was said and done at x_t, and the reward that came with it."""
    steps = len(rollout.actions)
    rewards = np.concatenate([[0], rollout.rewards]).astype(np.float32)
    kind, nothing = (np.float32, np.nan) if rollout.action_spec.kind == "tanh_normal" else (np.int32, -1)
    last = np.full((1, *rollout.action_spec.shape), nothing, kind)
    found: dict[str, Array] = {
        "time_s": np.arange(steps + 1) / rollout.fps, "reward": rewards,
        "episode_return": np.cumsum(rewards, dtype=np.float64),
        "action": np.concatenate([rollout.actions.astype(kind), last]), "value": _padded(rollout.values),
        "scores": _padded(rollout.said),
    }
    if rollout.scores is not None:
        found["score"] = np.concatenate([[0], rollout.scores]).astype(np.float32)
    if rollout.state_norm is not None:
        found["state_norm"] = _padded(rollout.state_norm)
    if rollout.by_person is not None:
        found["by_person"] = _padded(rollout.by_person)
    if pictures:
        found["picture_end"] = np.cumsum([len(picture) for picture in pictures]).astype(np.uint32)
    if seen is not None:
        found["observation"] = seen.values
    return found


def _padded(values: Array) -> Array:
    """With a row of NaN for the last frame, at which nothing is done any more."""
    last = np.full((1, *np.shape(values)[1:]), np.nan, np.float32)
    return np.concatenate([np.asarray(values, np.float32), last])


def _few_frames(rollout: Rollout) -> list[Moment]:
    found = []
    domain = domain_of(rollout.action_spec, rollout.q_values)
    for step in filmstrip.chosen(len(rollout.actions) + 1):
        frame = rollout.frames[step] if rollout.frames is not None else filmstrip.seen(
            observations.drawable(rollout.observation_rows[step : step + 1], parts=rollout.parts).values[0])
        said = None if step == len(rollout.actions) else partial(
            strip, rollout.action_spec, rollout.said[step], rollout.actions[step], domain=domain)
        if frame is not None:
            found.append(Moment(f"step {step}", frame, said))
    return found


def _free_name(rollout: Rollout, kind: str) -> Path:
    """A path in the notebook's folder that nothing has yet, such as Pong-v5-1200000-seed0.mp4."""
    environment = re.sub(r"\W+", "-", rollout.environment.rpartition("/")[2]).strip("-")
    stem = f"{environment}-{rollout.checkpoint_frames}-seed{rollout.seed}"
    names = (Path.cwd() / f"{stem}{suffix}.{kind}" for suffix in ["", *(f"-{n}" for n in range(2, 10_000))])
    return next(name for name in names if not name.exists())
