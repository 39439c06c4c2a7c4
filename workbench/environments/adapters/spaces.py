"""Supported Gymnasium spaces of observations, as rows of a batch. Those of actions: `action_spaces`.

    observation space                             here
    Box (H, W, C) or (C, H, W) uint8              uint8 (C, H, W); the channel axis is the shorter of first and last
    Box (H, W) uint8                              uint8 (1, H, W)
    Box or MultiBinary of 2 or 3 axes, bool       the same, packed to bits: 0 or 255 each as a network sees it
    Box of 1 axis, or not of uint8 or bool        float32 (F,): all numbers one after another, last axis fastest
    Discrete(n, start=s)                          float32 (n,): one-hot
    MultiDiscrete                                 float32 (sum of sizes,): a one-hot for each
    MultiBinary of 1 axis                         float32 (n,)
    Dict, Tuple, also nested                      a `Part` for each member, named "outer/inner"; a Tuple's "0", "1", ...
    Text, and other spaces of words               left out, and named in `Layout.left_out`

A single member is the observation itself. Several members, or bits, travel as the bytes of one uint8 row. One of a Dict
that is called "action_mask" says which choices are allowed: see `EnvironmentSpec.action_mask`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from workbench.environment_spec import ACTION_MASK, ACTION_WORDS, ActionSpec, EnvironmentSpec, Part
from workbench.environments.contract import Array
from workbench.errors import ShapeMismatch

_SUPPORTED = (
    "Supported are Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of them; images are uint8 or bool "
    "(H, W), (H, W, C) or (C, H, W). Wrap the environment, for instance in gymnasium.wrappers.FlattenObservation."
)
_MOST_CHOICES = 2**16  # of a Discrete observation: a larger one-hot is surely a mistake


@dataclass(frozen=True)
class Member:
    """One array of an observation.

    Attributes:
        path: the keys that lead to it; () if it is the whole observation.
        part: its name, shape and dtype on the wire.
        native_shape, native_dtype: of the array that the environment must return.
        convert: from arrays [..., *native_shape] to [..., *part.shape], or packed bits; None: no change.
        begin, end: its bytes in the row of a packed observation.
    """

    path: tuple[Any, ...]
    part: Part
    native_shape: tuple[int, ...]
    native_dtype: Any
    convert: Callable[[Array], Array] | None
    begin: int = 0
    end: int = 0

    def place(self, observation: Any, target: Array, lead: tuple[int, ...]) -> None:
        """Writes `observation` [*lead, *native_shape] into `target`. Raises ValueError naming the broken rule."""
        observation, shape = np.asarray(observation), lead + self.native_shape
        if observation.shape != shape:
            raise ValueError(f"{self._mismatch('of shape', observation.shape)} has shape {shape}")
        wraps = target.dtype == self.native_dtype == np.uint8 and observation.dtype.itemsize > 1
        if observation.dtype != self.native_dtype and (
                wraps or not np.can_cast(observation.dtype, self.native_dtype, "same_kind")):
            raise ValueError(f"{self._mismatch('of dtype', observation.dtype)} has dtype {self.native_dtype}")
        try:
            target[...] = observation if self.convert is None else self.convert(observation)
        except ValueError as error:
            raise ValueError(f"{self.title} {error}") from None

    @property
    def title(self) -> str:
        """As messages call it."""
        return f"observation {self.part.name!r}" if self.part.name else "observation"

    def view(self, rows: Array) -> Array:
        """A view of its bytes in packed rows [..., bytes]: [..., *part.shape], or packed bits [..., own bytes]."""
        wire = rows[..., self.begin : self.end]
        if self.part.dtype == "bits":
            return wire
        if self.part.dtype == "float32":
            return wire.view(np.float32)  # always one axis
        return wire.reshape(*rows.shape[:-1], *self.part.shape)

    def _mismatch(self, what: str, value: Any) -> str:
        return f"{self.title} {what} {value}; the observation space"


@dataclass(frozen=True)
class Layout:
    """The layout of the observations of one space.

    Attributes:
        shape, dtype: of one row on the wire.
        members: its arrays, in the order of their bytes.
        parts: for `EnvironmentSpec`; () if the row is a single member, not packed.
        left_out: names of members that networks do not get.
    """

    shape: tuple[int, ...]
    dtype: str
    members: tuple[Member, ...]
    parts: tuple[Part, ...]
    left_out: tuple[str, ...]

    @property
    def is_plain(self) -> bool:
        """Whether observations of the space's own dtype and shape are rows as they are."""
        return not self.parts and self.members[0].convert is None

    def place(self, observation: Any, rows: Array, lead: tuple[int, ...] = ()) -> None:
        """Writes `observation`, or [*lead] of them in the structure of one, into `rows` [*lead, *shape].

        Raises ValueError naming the broken rule.
        """
        if not self.parts:
            self.members[0].place(_member_of(observation, self.members[0]), rows, lead)
            return
        for member in self.members:
            member.place(_member_of(observation, member), member.view(rows), lead)

    def not_finite(self, rows: Array) -> tuple[int, str] | None:
        """The index of the first of `rows` [N, *shape] that is not finite, and that as a sentence; None if all are."""
        for member in self.members:
            if member.part.dtype != "float32":
                continue
            numbers = member.view(rows) if self.parts else rows
            finite = np.isfinite(numbers)
            if np.count_nonzero(finite) != finite.size:  # half the time of finite.all()
                row, entry = np.argwhere(~finite)[0]
                return int(row), f"{member.title} has the value {numbers[row, entry]}, which is not finite"
        return None


def layout_of(space: Any, name: str) -> Layout:
    """The layout of observation space `space`. Raises ShapeMismatch naming the space and what is supported."""
    left_out: list[str] = []
    members = tuple(_members(space, (), left_out, name))
    names = [member.part.name for member in members]
    if not members or len(set(names)) < len(names):
        why = f"two members are both named {max(names, key=names.count)!r}" if members else "nothing in it is a number"
        raise ShapeMismatch(f"{name} has the observation space {space}, which is not supported: {why}. {_SUPPORTED}")
    if len(members) == 1 and members[0].part.name != ACTION_MASK:  # by whose name it is one
        part = dataclasses.replace(members[0].part, name="")
        members = (dataclasses.replace(members[0], part=part),)
        if part.dtype != "bits":
            return Layout(part.shape, part.dtype, members, (), tuple(left_out))
    return packed(members, left_out=tuple(left_out))


def packed(members: tuple[Member, ...], *, left_out: tuple[str, ...] = ()) -> Layout:
    """The layout of `members` as the bytes of one row, one after another."""
    row, begin = [], 0
    for member in members:
        row.append(dataclasses.replace(member, begin=begin, end=begin + member.part.wire_bytes))
        begin = row[-1].end
    return Layout((begin,), "uint8", tuple(row), tuple(member.part for member in row), left_out)


def _member_of(observation: Any, member: Member) -> Any:
    """The member's array in the whole observation. Raises ValueError if it is missing."""
    for key in member.path:
        try:
            observation = observation[key]
        except (KeyError, IndexError, TypeError):
            raise ValueError(f"observation has no member {member.part.name or '/'.join(map(str, member.path))!r}, "
                             "which the observation space has") from None
    return observation


def _members(space: Any, path: tuple[Any, ...], left_out: list[str], name: str) -> Iterator[Member]:
    """Yields a Member for each array in `space`, which lies at `path`; adds members of words to `left_out`."""
    from gymnasium.spaces import Dict, Tuple

    if isinstance(space, (Dict, Tuple)):
        items = space.spaces.items() if isinstance(space, Dict) else enumerate(space.spaces)
        for key, inner in items:
            yield from _members(inner, (*path, key), left_out, name)
    elif np.dtype(getattr(space, "dtype", None) or object).kind == "U":  # Text, and MiniGrid's missions
        left_out.append("/".join(map(str, path)))
    else:
        yield _member(space, path, name)


def _member(space: Any, path: tuple[Any, ...], name: str) -> Member:
    from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

    title = "/".join(map(str, path))
    if isinstance(space, Discrete) and space.n <= _MOST_CHOICES:
        return Member(path, Part(title, (int(space.n),), "float32"), (), space.dtype,
                      _OneHot(int(space.n), int(space.start)))
    if isinstance(space, MultiDiscrete) and space.nvec.size and space.nvec.sum() <= _MOST_CHOICES:
        shape = tuple(space.nvec.shape)
        hots = _OneHots(tuple(space.nvec.reshape(-1).tolist()), np.asarray(space.start).reshape(-1), len(shape))
        return Member(path, Part(title, (hots.size,), "float32"), shape, space.dtype, hots)
    if isinstance(space, (Box, MultiBinary)) and 0 not in space.shape:
        shape, dtype = tuple(int(size) for size in space.shape), np.dtype(space.dtype)
        binary = isinstance(space, MultiBinary) or dtype.kind == "b"
        if len(shape) in (2, 3) and (binary or dtype == np.uint8):
            return image_member(title, path, shape, dtype, binary=binary)
        if dtype.kind in "fiub" and (dtype != np.uint8 or len(shape) < 2):
            size = int(np.prod(shape))
            flat = None if len(shape) == 1 else partial(_flat, size=size, axes=len(shape))
            return Member(path, Part(title, (size,), "float32"), shape, dtype, flat)
    where = f" as its member {title!r}" if title else ""
    raise ShapeMismatch(f"{name} has the observation space {space}{where}, which is not supported. {_SUPPORTED}")


def image_member(title: str, path: tuple[Any, ...], shape: tuple[int, ...], dtype: Any, *, binary: bool) -> Member:
    """An image: channels first, bits packed."""
    channels_last = len(shape) == 3 and shape[2] <= shape[0]
    planes = (1, *shape) if len(shape) == 2 else (shape[2], *shape[:2]) if channels_last else shape
    part = Part(title, planes, "bits" if binary else "uint8")
    unchanged = planes == shape and not binary and not channels_last
    convert = partial(_planes, axes=len(shape), channels_last=channels_last, binary=binary)
    return Member(path, part, shape, dtype, None if unchanged else convert)


def _planes(images: Array, *, axes: int, channels_last: bool, binary: bool) -> Array:
    """Images with the channels first; bits packed."""
    if channels_last:
        images = np.moveaxis(images, -1, -3)
    elif axes == 2:
        images = images[..., None, :, :]
    return np.packbits(images.reshape(*images.shape[:-3], -1) != 0, axis=-1) if binary else images


def _flat(values: Array, *, size: int, axes: int) -> Array:
    """Arrays with their last `axes` as one of that size."""
    return values.reshape(*values.shape[: values.ndim - axes], size)


class _OneHot:
    """One-hots of a numbered choice. Raises ValueError for a number that is no choice."""

    def __init__(self, size: int, start: int) -> None:
        self._many = _OneHots((size,), np.array([start]), 0)
        self._size, self._start = size, start

    def __call__(self, values: Array) -> Array:
        if values.ndim:
            return self._many(values)
        number = int(values) - self._start
        if not 0 <= number < self._size:
            return self._many(values)  # which raises
        hot = np.zeros(self._size, np.float32)
        hot[number] = 1
        return hot


class _OneHots:
    """One-hots of several numbered choices, side by side. Raises ValueError for a number that is no choice."""

    def __init__(self, sizes: tuple[int, ...], start: Array, axes: int) -> None:
        self.size = sum(sizes)
        self._sizes, self._start, self._axes = np.array(sizes), start, axes
        self._which = np.repeat(np.arange(len(sizes)), sizes)  # the choice that each entry belongs to
        self._choice = np.concatenate([first + np.arange(size) for first, size in zip(start, sizes, strict=True)])

    def __call__(self, values: Array) -> Array:
        lead = values.shape[: values.ndim - self._axes]
        rows = values.reshape(-1, len(self._sizes))  # [N, K]
        hot: Array = rows.take(self._which, 1) == self._choice
        if np.count_nonzero(hot) != rows.size:  # each number is one choice
            raise ValueError(f"{values.tolist()} is not in a space of {self._sizes.tolist()} choices from "
                             f"{self._start.tolist()}")
        return hot.reshape(*lead, self.size)


def spec_of(name: str, layout: Layout, actions: ActionSpec, *, agents: int = 1) -> EnvironmentSpec:
    """The EnvironmentSpec of an environment with these observations and actions. Raises ShapeMismatch for a mask of
    other actions."""
    spec = EnvironmentSpec(name, layout.shape, layout.dtype, actions.encoded_size, actions=actions, parts=layout.parts,
                           agents=agents)
    mask = next((one for one in layout.members if one.part.name.rpartition("/")[2] == ACTION_MASK), None)
    if mask is not None and mask.part.name != ACTION_MASK:
        raise ShapeMismatch(f"{name} has an observation {mask.part.name!r}, and a mask of actions is a member of the "
                            "outermost Dict. Move it there, or give it another name.")
    chooses = mask is not None and isinstance(mask.convert, _OneHot | _OneHots)
    if mask is not None and (spec.action_mask is None or chooses):
        what = "of choices" if chooses else f"of shape {list(mask.native_shape)}"
        raise ShapeMismatch(f"{name} has an observation {ACTION_MASK!r} {what}, and no mask of its actions, which are "
                            f"{ACTION_WORDS[actions.kind]} ({actions.encoded_size}). A mask is a MultiBinary or a Box "
                            "of one axis, with an entry for each choice, above 0 where it is allowed, and actions are "
                            "Discrete or MultiDiscrete. Mend it, or give that observation another name.")
    return spec
