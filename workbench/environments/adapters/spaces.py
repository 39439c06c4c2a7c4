"""Which Gymnasium spaces are supported, how an observation becomes a row of a batch, and how an action goes back.

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

Where only one member is left, it is the observation. Where there are several, or bits, they travel as the bytes of one
uint8 row.

    action space                     here (`ActionSpec`)                as the environment gets it
    Discrete(n, start=s)             categorical: a in [0, n)           a + s
    MultiDiscrete(sizes, start=s)    multi_discrete: a_k in [0, n_k)    a + s, in the space's shape
    MultiBinary(shape)               bernoulli: 0 or 1 each             the same, in the space's shape
    Box of float32 or float64        tanh_normal: numbers in [-1, 1]    stretched to low..high, in its dtype and shape
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.environments.contract import Array
from workbench.errors import ShapeMismatch
from workbench.trajectory import ActionSpec, EnvironmentSpec, Part

ToGiven = Callable[[Array], Array]  # checked actions [N, *action] as the environment's own, [N, *space.shape]

_SUPPORTED = (
    "Supported are Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of them; images are uint8 or bool "
    "(H, W), (H, W, C) or (C, H, W). Wrap the environment, for instance in gymnasium.wrappers.FlattenObservation."
)
_SUPPORTED_ACTIONS = (
    "Supported are Discrete, MultiDiscrete, MultiBinary and Box spaces of float32 or float64 with finite bounds."
)
_MOST_CHOICES = 2**16  # of a Discrete observation: a one-hot of more is hardly meant


@dataclass(frozen=True)
class Member:
    """One array of an observation.

    Attributes:
        path: the keys that lead to it; () where it is the whole observation.
        part: how it is named and seen.
        given_shape, given_dtype: what the environment must return.
        arranged: from arrays [..., *given_shape] to [..., *part.shape], or packed bits; None: they are as they travel.
        at, end: its bytes in the row of a packed observation.
    """

    path: tuple[Any, ...]
    part: Part
    given_shape: tuple[int, ...]
    given_dtype: Any
    arranged: Callable[[Array], Array] | None
    at: int = 0
    end: int = 0

    def place(self, observation: Any, target: Array, lead: tuple[int, ...]) -> None:
        """Writes `observation` [*lead, *given_shape] into `target`. Raises ValueError naming the broken rule."""
        observation = np.asarray(observation)
        if observation.shape != lead + self.given_shape:
            raise ValueError(f"{self._named('of shape', observation.shape)} has shape {lead + self.given_shape}")
        if observation.dtype != self.given_dtype and not np.can_cast(observation.dtype, self.given_dtype, "same_kind"):
            raise ValueError(f"{self._named('of dtype', observation.dtype)} has dtype {self.given_dtype}")
        target[...] = observation if self.arranged is None else self.arranged(observation)

    def view(self, rows: Array) -> Array:
        """Its place in packed rows [..., bytes]: [..., *part.shape], or packed bits [..., bytes of it]."""
        own = rows[..., self.at : self.end]
        if self.part.dtype == "bits":
            return own
        if self.part.dtype == "float32":
            return own.view(np.float32)  # one axis always
        return own.reshape(*rows.shape[:-1], *self.part.shape)

    def _named(self, what: str, found: Any) -> str:
        name = f" {self.part.name!r}" if self.part.name else ""
        return f"observation{name} {what} {found}; the observation space"


@dataclass(frozen=True)
class Layout:
    """How observations of one space are laid out.

    Attributes:
        shape, dtype: of one row on the wire.
        members: what is in it, in the order of the bytes.
        parts: for `EnvironmentSpec`: () where the row is the only member as it is.
        left_out: names of members that no network gets to see.
    """

    shape: tuple[int, ...]
    dtype: str
    members: tuple[Member, ...]
    parts: tuple[Part, ...]
    left_out: tuple[str, ...]

    def place(self, observation: Any, rows: Array, lead: tuple[int, ...] = ()) -> None:
        """Writes `observation`, or [*lead] of them in the structure of one, into `rows` [*lead, *shape].

        Raises ValueError naming the rule that it breaks.
        """
        if not self.parts:
            member = self.members[0]
            member.place(observation if not member.path else _found(observation, member), rows, lead)
            return
        for member in self.members:
            member.place(_found(observation, member), member.view(rows), lead)

    def numbers(self, rows: Array) -> list[Array]:
        """Views [N, ...] of all float32 in `rows`, which must be finite."""
        if not self.parts:
            return [] if self.dtype == "uint8" else [rows]
        return [member.view(rows) for member in self.members if member.part.dtype == "float32"]

    def not_finite(self, rows: Array) -> tuple[int, float] | None:
        """The first of `rows` [N, *shape] with a value that is not finite, and that value; None: all are finite."""
        for numbers in self.numbers(rows):
            finite = np.isfinite(numbers)
            if np.count_nonzero(finite) != finite.size:  # half the time of finite.all()
                row, entry = np.argwhere(~finite)[0]
                return int(row), float(numbers[row, entry])
        return None


def layout_of(space: Any, name: str) -> Layout:
    """The layout of observation space `space`. Raises ShapeMismatch naming the space and what is supported."""
    left_out: list[str] = []
    members = tuple(_members(space, (), left_out, name))
    names = [member.part.name for member in members]
    if not members or len(set(names)) < len(names):
        why = f"two members are both named {max(names, key=names.count)!r}" if members else "nothing in it is a number"
        raise ShapeMismatch(f"{name} has the observation space {space}, which is not supported: {why}. {_SUPPORTED}")
    if len(members) == 1:
        members = (_renamed(members[0], "", 0),)
        part = members[0].part
        if part.dtype != "bits":
            return Layout(part.shape, part.dtype, members, (), tuple(left_out))
    return packed(members, left_out=tuple(left_out))


def packed(members: tuple[Member, ...], *, left_out: tuple[str, ...] = ()) -> Layout:
    """The layout of `members` as the bytes of one row, one after another."""
    placed, at = [], 0
    for member in members:
        placed.append(_renamed(member, member.part.name, at))
        at += member.part.wire_bytes
    return Layout((at,), "uint8", tuple(placed), tuple(member.part for member in placed), left_out)


def _renamed(member: Member, name: str, at: int) -> Member:
    part = Part(name, member.part.shape, member.part.dtype)
    return Member(member.path, part, member.given_shape, member.given_dtype, member.arranged, at, at + part.wire_bytes)


def _found(observation: Any, member: Member) -> Any:
    """The member's own array in the whole observation. Raises ValueError."""
    for key in member.path:
        try:
            observation = observation[key]
        except (KeyError, IndexError, TypeError):
            raise ValueError(f"observation has no member {member.part.name or '/'.join(map(str, member.path))!r}, "
                             "which the observation space has") from None
    return observation


def _members(space: Any, path: tuple[Any, ...], left_out: list[str], name: str) -> Iterator[Member]:
    """Every array in `space`, which is found by `path`; what has no numbers goes to `left_out`."""
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
            return _image(title, path, shape, dtype, binary=binary)
        if dtype.kind in "fiub" and (dtype != np.uint8 or len(shape) < 2):
            size = int(np.prod(shape))
            flat = None if len(shape) == 1 else _Flat(size, len(shape))
            return Member(path, Part(title, (size,), "float32"), shape, dtype, flat)
    where = f" as its member {title!r}" if title else ""
    raise ShapeMismatch(f"{name} has the observation space {space}{where}, which is not supported. {_SUPPORTED}")


def _image(title: str, path: tuple[Any, ...], shape: tuple[int, ...], dtype: Any, *, binary: bool) -> Member:
    """An image: channels first, bits packed."""
    last = len(shape) == 3 and shape[2] <= shape[0]
    seen = (1, *shape) if len(shape) == 2 else (shape[2], *shape[:2]) if last else shape
    part = Part(title, seen, "bits" if binary else "uint8")
    plain = seen == shape and not binary and not last
    return Member(path, part, shape, dtype, None if plain else _Planes(len(shape), last, binary))


class _Planes:
    """Images with the channels first; bits packed."""

    def __init__(self, axes: int, channels_last: bool, binary: bool) -> None:
        self._axes, self._channels_last, self._binary = axes, channels_last, binary

    def __call__(self, images: Array) -> Array:
        if self._channels_last:
            images = np.moveaxis(images, -1, -3)
        elif self._axes == 2:
            images = images[..., None, :, :]
        return np.packbits(images.reshape(*images.shape[:-3], -1) != 0, axis=-1) if self._binary else images


class _Flat:
    """Numbers one after another."""

    def __init__(self, size: int, axes: int) -> None:
        self._size, self._axes = size, axes

    def __call__(self, values: Array) -> Array:
        return values.reshape(*values.shape[: values.ndim - self._axes], self._size)


class _OneHot:
    """A numbered choice as a one-hot. Raises ValueError for a number that is no choice."""

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
    """Numbered choices as one-hots, one after another. Raises ValueError for a number that is no choice."""

    def __init__(self, sizes: tuple[int, ...], start: Array, axes: int) -> None:
        self.size = sum(sizes)
        self._sizes, self._start, self._axes = np.array(sizes), start, axes
        self._which = np.repeat(np.arange(len(sizes)), sizes)  # of each entry, the number that it is for
        self._choice = np.concatenate([first + np.arange(size) for first, size in zip(start, sizes, strict=True)])

    def __call__(self, values: Array) -> Array:
        lead = values.shape[: values.ndim - self._axes]
        rows = values.reshape(-1, len(self._sizes))  # [N, K]
        hot: Array = rows.take(self._which, 1) == self._choice
        if np.count_nonzero(hot) != rows.size:  # each number is one choice
            raise ValueError(f"observation {values.tolist()} is not in a space of {self._sizes.tolist()} choices from "
                             f"{self._start.tolist()}")
        return hot.reshape(*lead, self.size)


def actions_of(space: Any, name: str) -> tuple[ActionSpec, ToGiven]:
    """What actions of `space` are here, and the function that turns N of them into N that the space contains.

    Raises ShapeMismatch naming the space and what is supported, or what to do about a Box without bounds.
    """
    from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

    if isinstance(space, Discrete):
        return ActionSpec("categorical", (int(space.n),)), _Shifted(np.int64(space.start), space.dtype, ())
    if isinstance(space, MultiDiscrete) and space.nvec.size:
        sizes = tuple(int(size) for size in space.nvec.reshape(-1))
        start = np.asarray(space.start, np.int64).reshape(-1)
        return ActionSpec("multi_discrete", sizes), _Shifted(start, space.dtype, tuple(space.nvec.shape))
    if isinstance(space, MultiBinary) and 0 not in space.shape:
        return ActionSpec("bernoulli", (2,) * int(np.prod(space.shape))), _Shifted(0, space.dtype, tuple(space.shape))
    if isinstance(space, Box) and np.dtype(space.dtype).kind == "f" and 0 not in space.shape:
        if not np.isfinite(space.low).all() or not np.isfinite(space.high).all():
            raise ShapeMismatch(
                f"{name} has the action space {space}, whose bounds are not all finite. Say which numbers make sense: "
                "gymnasium.wrappers.TransformAction(env, lambda action: action, gymnasium.spaces.Box(low, high)); or "
                "leave out the ClipAction that made them infinite.")
        return ActionSpec("tanh_normal", (0,) * int(np.prod(space.shape))), _Stretched(space)
    raise ShapeMismatch(f"{name} has the action space {space}, which is not supported. {_SUPPORTED_ACTIONS}")


class _Shifted:
    """Numbered choices from 0 as those of a space: of its own start, dtype and shape."""

    def __init__(self, start: Any, dtype: Any, shape: tuple[int, ...]) -> None:
        self._start, self._dtype, self._shape = start, dtype, shape
        self._shifts = np.any(start)

    def __call__(self, actions: Array) -> Array:
        given = actions + self._start if self._shifts else actions
        return given.astype(self._dtype).reshape(len(given), *self._shape)  # never the caller's own


class _Stretched:
    """Numbers in [-1, 1] stretched to the bounds of a Box."""

    def __init__(self, space: Any) -> None:
        low, high = (np.asarray(bound, np.float64).reshape(-1) for bound in (space.low, space.high))
        self._middle, self._half = low / 2 + high / 2, high / 2 - low / 2  # low + high may overflow
        self._low, self._high, self._dtype, self._shape = space.low, space.high, space.dtype, tuple(space.shape)
        self._as_given = self._dtype == np.float32 and (low == -1).all() and (high == 1).all()

    def __call__(self, actions: Array) -> Array:
        if self._as_given:
            return actions.reshape(len(actions), *self._shape).copy()  # an environment may write into its own
        given = (self._middle + self._half * actions).astype(self._dtype).reshape(len(actions), *self._shape)
        return given.clip(self._low, self._high)  # where rounding went beyond a bound


def spec_of(name: str, layout: Layout, actions: ActionSpec, *, agents: int = 1) -> EnvironmentSpec:
    """What a learner must know of an environment with such observations and actions."""
    return EnvironmentSpec(name, layout.shape, layout.dtype, actions.encoded_size, actions=actions, parts=layout.parts,
                           agents=agents)
