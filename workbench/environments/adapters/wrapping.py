"""The user's wrappers around environments: callables that take one environment and return another.

They go around each environment that Gymnasium makes by name or that a factory makes, the first wrapper innermost.
Environments that step many games natively (Atari, football, ViZDoom, ...) cannot be wrapped.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from workbench.errors import EnvironmentFailed, InvalidInput

_WITH_RUNNING_MEANS = ("NormalizeObservation", "NormalizeReward")
_MOST_WRAPPERS = 100
Factory = Callable[..., Any]
Wrapper = Callable[[Any], Any]


@dataclass(frozen=True)
class Wrapped:
    """Wrappers, and the factory whose environments they wrap.

    Attributes:
        factory: None: Gymnasium makes the environment by name.
        wrappers: the first one innermost.
    """

    factory: Factory | None
    wrappers: tuple[Wrapper, ...]

    @property
    def names(self) -> str:
        """Names of the wrappers, innermost first."""
        return ", ".join(map(_name, self.wrappers))

    @property
    def learning(self) -> tuple[str, ...]:
        """Those of Gymnasium's that keep running means from episode to episode."""
        return tuple(name for name in map(_name, self.wrappers) if name in _WITH_RUNNING_MEANS)

    def around(self, make: Factory) -> Factory:
        """A factory with the arguments of `make` that wraps the environment that `make` returns."""
        if not self.wrappers:
            return make

        @functools.wraps(make, updated=())
        def make_wrapped(*arguments: Any, **keywords: Any) -> Any:
            env = make(*arguments, **keywords)
            for wrapper in self.wrappers:
                env = wrapper(env)
                if env is None:
                    raise EnvironmentFailed(f"wrapper {_name(wrapper)} returned None: a wrapper takes an environment "
                                            "and returns one.")
            return env

        return make_wrapped


def checked_wrappers(wrappers: Iterable[Wrapper]) -> tuple[Wrapper, ...]:
    """`wrappers` as a tuple. Raises InvalidInput if it is no list of callables."""
    if callable(wrappers) or isinstance(wrappers, str):
        raise InvalidInput(f"wrappers={wrappers!r} must be a list of wrappers: wrappers=[{_name(wrappers)}].")
    if not isinstance(wrappers, Iterable):
        raise InvalidInput(f"wrappers={wrappers!r} must be a list of wrappers.")
    wrappers = tuple(wrappers)
    for wrapper in wrappers:
        if not callable(wrapper):
            raise InvalidInput(f"wrapper {wrapper!r} must be something that takes an environment and returns one, such "
                               "as a subclass of gymnasium.Wrapper.")
    return wrappers


def unwrapped(names: str, env: Any) -> str:
    """Those of `Wrapped.names` that are classes', and that none of the wrappers around `env` is called."""
    around = set()
    for _ in range(_MOST_WRAPPERS):
        around.add(type(env).__name__)
        env = getattr(env, "env", None)
    return ", ".join(name for name in names.split(", ") if name[:1].isupper() and name not in around)


def _name(wrapper: Any) -> str:
    """The name of a class, function or functools.partial."""
    function = getattr(wrapper, "func", wrapper)
    return str(getattr(function, "__name__", type(function).__name__)).strip("<>")
