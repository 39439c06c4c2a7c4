"""Wrappers that the user puts around an environment: callables that take one environment and return another.

They go around each environment that Gymnasium makes by its name, or that a factory makes, the first one innermost. What
steps many games natively (Atari, football, ViZDoom, ...) has nothing to put them around.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from workbench.errors import EnvironmentFailed, InvalidInput

Factory = Callable[..., Any]
Wrapper = Callable[[Any], Any]


@dataclass(frozen=True)
class Wrapped:
    """Wrappers, and the factory whose environments they go around.

    Attributes:
        factory: None: Gymnasium makes the environment by its name.
        wrappers: the first one innermost.
    """

    factory: Factory | None
    wrappers: tuple[Wrapper, ...]

    @property
    def names(self) -> str:
        """What the wrappers are called, innermost first."""
        return ", ".join(map(_name, self.wrappers))

    def around(self, make: Factory) -> Factory:
        """`make` with the wrappers around what it returns; it takes the same arguments."""
        if not self.wrappers:
            return make

        @functools.wraps(make, updated=())
        def made(*arguments: Any, **keywords: Any) -> Any:
            env = make(*arguments, **keywords)
            for wrapper in self.wrappers:
                env = wrapper(env)
                if env is None:
                    raise EnvironmentFailed(f"wrapper {_name(wrapper)} returned None: a wrapper takes an environment "
                                            "and returns one.")
            return env

        return made


def checked_wrappers(given: Iterable[Wrapper]) -> tuple[Wrapper, ...]:
    """`given` as a tuple. Raises InvalidInput for what is no callable."""
    if callable(given) or isinstance(given, str):
        raise InvalidInput(f"wrappers={given!r} must be a list of wrappers: wrappers=[{_name(given)}].")
    if not isinstance(given, Iterable):
        raise InvalidInput(f"wrappers={given!r} must be a list of wrappers.")
    wrappers = tuple(given)
    for one in wrappers:
        if not callable(one):
            raise InvalidInput(f"wrapper {one!r} must be something that takes an environment and returns one, such as "
                               "a subclass of gymnasium.Wrapper.")
    return wrappers


def _name(wrapper: Any) -> str:
    """What a class, function or functools.partial is called in lists."""
    named = getattr(wrapper, "func", wrapper)
    return str(getattr(named, "__name__", type(named).__name__)).strip("<>")
