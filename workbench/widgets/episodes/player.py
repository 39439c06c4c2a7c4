"""The rollout player: one or two episodes, played in the page.

An episode travels in one message when a page sends a hello: its compressed pictures, and columns by step. The page
plays it without the kernel, and receives it again after a refresh. Films and other futures (`what_if`) need Python.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anywidget
import numpy as np
import traitlets

from workbench import tables
from workbench.environment_spec import ActionSpec
from workbench.environments import observations
from workbench.environments.observations import Drawable
from workbench.environments.sketches import entry_names
from workbench.errors import InvalidInput
from workbench.playing import action_words
from workbench.playing.action_bars import domain_of, strip
from workbench.playing.rollout import Rollout
from workbench.playing.store import BranchPoint
from workbench.playing.store.stored_fields import OUTPUTS
from workbench.rundir.files import free_path
from workbench.tables import evenly_spaced, number
from workbench.trajectory import Array
from workbench.widgets.episodes import filmstrip
from workbench.widgets.episodes.filmstrip import StripFrame
from workbench.widgets.episodes.what_if import WhatIf, reason_against
from workbench.widgets.kernel import assets
from workbench.widgets.kernel.refresher import Actions
from workbench.widgets.kernel.saved_view import Bundle, Shown
from workbench.wire import columns

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
        self._what_if = WhatIf(self)
        self._outputs: list[Shown] = []
        self.on_msg(self._received)

    def __repr__(self) -> str:
        return f"<RolloutPlayer of {' and '.join(map(title, self.rollouts))}>"

    def still(self) -> Bundle:
        """The outputs for a saved notebook: a strip of frames and the facts of each rollout."""
        parts = [filmstrip.bundle(title(rollout), facts(rollout), _few_frames(rollout)) for rollout in self.rollouts]
        page = "".join(part["text/html"] for part in parts)
        text = "\n".join(part["text/plain"] for part in parts)
        return {**parts[0], "text/html": page, "text/plain": text}

    def _ipython_display_(self) -> None:
        self._outputs.append(Shown(self, self.still()))

    def _received(self, _: Any, content: dict[str, Any], __: Any) -> None:
        """What a page asks for; in the main thread or in a subshell's."""
        kind = content.get("type")
        if kind == "hello":
            for index in range(len(self.rollouts)):
                self._tell_episode(index, content.get("view"))
            self._what_if.list_futures(content.get("view"))
        elif kind == "save":
            self._tell(content, f"writing the {content.get('format')} …")
            self._actions.submit(lambda: self._save(content),
                                 lambda words: self._tell(content, f"not saved: {words}", error=True))
        else:
            self._what_if.answer(content)

    def _tell_episode(self, index: int, view: str | None = None) -> None:
        message, buffers = episode(self.rollouts[index])
        place = {"type": "episode", "view": view, "index": index, "count": len(self.rollouts)}
        self.send({**place, **message}, buffers)

    def show(self, rollouts: Sequence[Rollout]) -> None:
        """Shows one or two other rollouts on all pages, and in the saved notebook."""
        before, self.rollouts = self.rollouts, tuple(rollouts)
        for index, rollout in enumerate(self.rollouts):
            if len(before) > len(self.rollouts) or before[index : index + 1] != (rollout,):
                self._tell_episode(index)
        for output in self._outputs:
            output.keep(self.still())

    def _save(self, request: dict[str, Any]) -> None:
        path = self.save(int(request["index"]), str(request["format"]), overlay=bool(request.get("overlay")))
        self._tell(request, f"saved: {path}")

    def _tell(self, request: dict[str, Any], text: str, *, error: bool = False) -> None:
        """Shows the progress of a request to save, beside its button."""
        about = {"view": request.get("view"), "index": request.get("index")}
        self.send({"type": "saved", **about, "text": text, "error": error})

    def save(self, index: int = 0, kind: str = "mp4", *, overlay: bool = False) -> Path:
        """Writes rollout `index` as a film into the notebook's folder, under a free name, and returns its path."""
        if kind not in FORMATS:
            raise InvalidInput(f"{kind!r} is not a kind of film that can be written: choose one of {FORMATS}.")
        rollout = self.rollouts[index]
        name = f"{rollout.environment.rpartition('/')[2]}-{rollout.checkpoint_frames}-seed{rollout.seed}"
        return Path(rollout.save(free_path(name, f".{kind}"), overlay=overlay))


def title(rollout: Rollout) -> str:
    """A rollout in a few words."""
    how = "greedy" if rollout.greedy else "sampled actions"
    agent = f"{rollout.algorithm} at {rollout.checkpoint_frames:,} frames, seed {rollout.seed}, {how}"
    if rollout.by_person is not None:
        agent = f"played by a person{f' and {agent}' if rollout.algorithm else f', seed {rollout.seed}'}"
    if rollout.branched is not None:
        agent += f", branch at step {rollout.branched.frame}: {rollout.branched.change}"
    return f"{rollout.environment}, {agent}: return {number(rollout.episode_return)}"


def facts(rollout: Rollout) -> dict[str, str]:
    """Facts of a rollout, by name."""
    steps = len(rollout.actions)
    by_person = {} if rollout.by_person is None else {
        "chosen by": f"a person {np.count_nonzero(rollout.by_person):,}, "
                     f"the agent {np.count_nonzero(~rollout.by_person):,} steps"}
    return {
        **({} if rollout.branched is None else {
            "branch": f"at step {rollout.branched.frame}: {rollout.branched.change}"}),
        "return": number(rollout.episode_return),
        "steps": f"{steps:,} ({steps / rollout.fps:,.1f} s), {rollout.end}",
        "rewards": f"{np.count_nonzero(rollout.rewards):,} steps with one",
        **({} if rollout.episode_score is None else {"score": number(rollout.episode_score)}),
        "an action": action_words.kind_in_words(rollout.action_spec),
        "taken": action_words.taken(rollout.action_spec, rollout.action_names, rollout.actions),
        **by_person,
        **({"checkpoint": str(rollout.checkpoint)} if rollout.algorithm else {}),
    }


def episode(
    rollout: Rollout, encoded: tuple[str, list[bytes]] | None = None
) -> tuple[dict[str, Any], list[bytes]]:
    """A rollout as one message: header and table of columns; and its buffers: columns (compressed), pictures, saliency
    (compressed).

    `encoded`: the frames as `Rollout.pictures` returns them, if not those; in place of an empty one, the page shows the
    one before.
    """
    mime, pictures = encoded or (rollout.pictures() if rollout.frames is not None else ("", []))
    saliency = None if rollout.saliency is None else np.asarray(rollout.saliency, np.uint8)
    drawable = None
    if not pictures or rollout.explains_what_frames_do_not_show:
        drawable = observations.on_page(rollout.observation_rows, parts=rollout.parts)
    table, packed = columns.pack(_columns(rollout, pictures, drawable))
    branch = rollout.branched
    size = np.shape(rollout.frames[0])[:2] if rollout.frames is not None else (0, 0)
    header = {
        "title": title(rollout), "label": repr(rollout), "fps": float(rollout.fps),
        "kind": next((kind for name, kind in OUTPUTS.items() if getattr(rollout, name) is not None), "probability"),
        **policy_header(rollout.action_spec, rollout.action_names),
        "picture": {"mime": mime, "height": size[0], "width": size[1]} if pictures else None,
        "shape": [] if drawable is None else list(drawable.values.shape[1:]),
        "entries": [] if drawable is None else entry_names(rollout.environment, drawable.names),
        "saliency": None if saliency is None else list(saliency.shape), "note": _note(rollout),
        "key": "" if rollout.path is None else rollout.path.name, "why": reason_against(rollout),
        "branch": None if branch is None else {
            "parent": branch.parent, "at": branch.frame, "change": branch.change},
    }
    compressed = b"" if saliency is None else zlib.compress(saliency.tobytes(), 1)
    return {"header": header, "columns": table}, [zlib.compress(packed, 1), b"".join(pictures), compressed]


def policy_header(actions: ActionSpec, names: Sequence[str]) -> dict[str, Any]:
    """The kind of actions, and the groups of bars that stand for them on a page."""
    return {"actions": actions.kind, "groups": [group._asdict() for group in action_words.groups(actions, names)]}


def _note(rollout: Rollout) -> str:
    if not rollout.note:
        return ""
    text = rollout.note if rollout.frames is not None else f"no pictures: {rollout.note}"
    return f"{text[0].upper()}{text[1:]}."


def _columns(rollout: Rollout, pictures: Sequence[bytes], drawable: Drawable | None) -> dict[str, Array]:
    """Columns with a row for each of T+1 frames: network outputs and action at x_t, and the reward that led to it."""
    steps = len(rollout.actions)
    rewards = np.concatenate([[0], rollout.rewards]).astype(np.float32)
    kind, nothing = (np.float32, np.nan) if rollout.action_spec.dtype == "float32" else (np.int32, -1)
    last = np.full((1, *rollout.action_spec.shape), nothing, kind)
    table: dict[str, Array] = {
        "time_s": np.arange(steps + 1) / rollout.fps, "reward": rewards,
        "episode_return": np.cumsum(rewards, dtype=np.float64),
        "action": np.concatenate([rollout.actions.astype(kind), last]), "value": _padded(rollout.values),
        "scores": _padded(rollout.said),
    }
    if rollout.scores is not None:
        table["score"] = np.concatenate([[0], rollout.scores]).astype(np.float32)
    if rollout.state_norm is not None:
        table["state_norm"] = _padded(rollout.state_norm)
    if rollout.by_person is not None:
        table["by_person"] = _padded(rollout.by_person)
    if rollout.branched is not None:
        table |= _changed(rollout, rollout.branched)
    if pictures:
        table["picture_end"] = np.cumsum([len(picture) for picture in pictures]).astype(np.uint32)
    if drawable is not None:
        table["observation"] = drawable.values
    return table


def _changed(rollout: Rollout, branch: BranchPoint) -> dict[str, Array]:
    """Where the actions of a branch were forced, and where its policy saw another observation: 1, else 0."""
    forced, edited = np.zeros((2, rollout.steps + 1), np.uint8)
    forced[branch.frame : branch.frame + branch.forced] = 1
    edited[[] if rollout.edited_at is None else rollout.edited_at] = 1
    return {"forced": forced, "edited": edited}


def _padded(values: Array) -> Array:
    """`values` with a row of NaN for the last frame, at which no action is taken."""
    last = np.full((1, *np.shape(values)[1:]), np.nan, np.float32)
    return np.concatenate([np.asarray(values, np.float32), last])


def strip_of(rollout: Rollout) -> str:
    """A strip of a few frames as HTML; "" of a rollout that has none."""
    moments = _few_frames(rollout)
    image = base64.b64encode(filmstrip.png(moments)).decode() if moments else ""
    return tables.picture(image, f"{len(moments)} frames of {title(rollout)}")


def _few_frames(rollout: Rollout) -> list[StripFrame]:
    moments = []
    domain = domain_of(rollout.action_spec, rollout.q_values)
    for step in evenly_spaced(len(rollout.actions) + 1, most=filmstrip.MOST_FRAMES):
        frame = rollout.frames[step] if rollout.frames is not None else filmstrip.picture_of(
            observations.drawable(rollout.observation_rows[step : step + 1], parts=rollout.parts).values[0])
        policy = None if step == len(rollout.actions) else partial(
            strip, rollout.action_spec, rollout.said[step], rollout.actions[step], domain=domain)
        if frame is not None:
            moments.append(StripFrame(f"step {step}", frame, policy))
    return moments
