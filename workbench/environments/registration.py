"""Environments by name, and from the user's own factories.

Names are `ALE/*` (native, with standard preprocessing), those of `families`, `testing/*` (workbench.testing), names
of `register_environment`, and all other ids of Gymnasium, such as "CartPole-v1" or "package:Name-v0".
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from workbench.config import RunConfig, Setting
from workbench.config.settings import check_keywords
from workbench.environments.adapters.adapt import check_spreadable, vector_by_id, vector_of
from workbench.environments.adapters.rendering import drawing
from workbench.environments.adapters.wrapping import Factory, Wrapped
from workbench.environments.atari.scores import VARIANT
from workbench.environments.atari.vector import AtariVector, atari_options, is_playable
from workbench.environments.contract import Show, VectorEnvironment
from workbench.environments.families import family_of, importing, package_of
from workbench.errors import EnvironmentFailed, InvalidInput, MissingPackage, UnknownName
from workbench.imports import deferred

_factories: dict[str, Factory] = {}

_TESTING = {
    "testing/counting-v0": "CountingEnv",
    "testing/cartpole-positions-v0": "HiddenVelocityCartPoleEnv",
    "testing/catch-v0": "CatchEnv",
    "testing/recall-v0": "RecallEnv",
    "testing/failing-v0": "FailingEnv",
}
_GYMNASIUM_OPTIONS = ("max_episode_steps", "render_mode", "disable_env_checker",  # of gymnasium.make itself
                      "vectorization_mode", "vector_kwargs")  # of gymnasium.make_vec


def make(
    name: str,
    *,
    num_envs: int,
    seed: int,
    threads: int = 1,
    processes: int = 1,
    options: Mapping[str, Any] | None = None,
    factory: Factory | Wrapped | None = None,
    frame_stack: int = 0,
    show: Show = None,
) -> VectorEnvironment:
    """`num_envs` copies of the environment `name`, or of the one that `factory` makes, stepped together.

    Args:
        name: see the module; with a factory only a label.
        seed: for `reset` without a seed.
        threads: native threads; Atari, football and ViZDoom use more than one.
        processes: number of processes that share environments written in Python, see `spread`; 1: this process.
        options: of Atari (`atari.AtariOptions`) or of the family, else keyword arguments of `gymnasium.make` or of the
            factory; `vectorization_mode` ("sync", "async", "vector_entry_point") takes `gymnasium.make_vec` instead.
        factory: a gymnasium.Env class, or a callable that returns an environment (`adapters.adapt.vector_of`); with
            wrappers around it, or around what Gymnasium makes by the name, a `Wrapped`.
        frame_stack: frames that the learner joins; 0: the environment's default, 4 for Atari.
        show: "endings": `ending` returns how episodes ended; "frames": `render` also returns colour in full size, if
            the environment has it. Episodes are the same; steps take longer.

    Raises:
        UnknownName, OutOfBounds, InvalidInput, MissingPackage, ShapeMismatch, EnvironmentFailed.
    """
    vector = _vector(name, num_envs=num_envs, seed=seed, threads=threads, processes=processes,
                     options=dict(options or {}), factory=factory, show=show)
    if frame_stack:
        vector.spec = dataclasses.replace(vector.spec, frame_stack=frame_stack)
    return vector


def make_configured(
    config: RunConfig, *, num_envs: int, seed: int, threads: int = 1, processes: int = 1,
    factory: Factory | Wrapped | None = None, show: Show = None,
) -> VectorEnvironment:
    """`num_envs` copies of a run's environment, as its configuration says.

    Raises as `make`, and InvalidInput if the run has wrappers and `factory` lacks them.
    """
    if config.wrappers and not isinstance(factory, Wrapped):
        raise InvalidInput(f"the wrappers around {config.environment} ({config.wrappers}) were typed for its run and "
                           "are not exported with a checkpoint: play the checkpoint in its run, or give environment=.")
    return make(
        config.environment, num_envs=num_envs, seed=seed, threads=threads, processes=processes,
        options=config.environment_options, factory=factory, frame_stack=config.frame_stack, show=show,
    )


def _vector(
    name: str, *, num_envs: int, seed: int, threads: int, processes: int, options: dict[str, Any],
    factory: Factory | Wrapped | None, show: Show,
) -> VectorEnvironment:
    num_envs = Setting("num_envs", int, 1, "", low=1, high=65_536).check(num_envs)
    call = factory_call(name, options, factory=factory, draws=show == "frames")
    if processes > 1:
        check_spreadable(call, name)
        assert call is not None
        from workbench.environments.spread.spread_vector import SpreadVector  # loads multiprocess

        return SpreadVector(name, call, num_envs=num_envs, seed=seed, processes=processes, show=show)
    if call is not None:
        return vector_of(name, call, num_envs=num_envs, seed=seed, show=show)
    family = family_of(name)
    if family is not None:
        return family.adapter(name).make(
            name, num_envs=num_envs, seed=seed, threads=threads, options=options, show=show)
    spec = _spec(name)
    if _is_atari(spec):
        return AtariVector(name, spec.kwargs["game"], num_envs=num_envs, seed=seed, threads=threads,
                           options=atari_options(spec.kwargs, options), show=show)
    keywords = {**drawing(_entry_point(spec)), **options} if show == "frames" else options
    mode = keywords.pop("vectorization_mode")
    return vector_by_id(name, num_envs=num_envs, seed=seed, show=show, vectorization_mode=mode, options=keywords)


def factory_call(
    name: str, options: dict[str, Any], *, factory: Factory | Wrapped | None = None, draws: bool = False
) -> Factory | None:
    """The factory of the environment for `adapters.adapt.vector_of`; None for names that step many at once.

    Args:
        draws: whether the environment should draw itself, if it can.

    Raises UnknownName, OutOfBounds, InvalidInput, MissingPackage.
    """
    wrapped = factory if isinstance(factory, Wrapped) else Wrapped(factory, ())
    own = wrapped.factory or _factories.get(name)
    if own is not None:
        check_options(name, options, own)
        return functools.partial(wrapped.around(own), **{**(drawing(own) if draws else {}), **options})
    spec = check_name(name, options)
    if wrapped.wrappers:
        check_wrappable(name)
    if spec is None or _is_atari(spec):
        return None
    if "vectorization_mode" in options:
        if wrapped.wrappers:
            raise InvalidInput("wrappers go around one environment, and vectorization_mode="
                               f"{options['vectorization_mode']!r} makes a vector of them. Leave one of the two out.")
        return None
    keywords = {**(drawing(_entry_point(spec)) if draws else {}), **options}
    return wrapped.around(functools.partial(_make_gymnasium, name, keywords))


def check_wrappable(name: str) -> None:
    """Raises InvalidInput if wrappers cannot go around environment `name`, which must exist."""
    if name in _factories:
        return
    if family_of(name) is not None or _is_atari(_spec(name)):
        raise InvalidInput(f"wrappers cannot go around {name}, which steps many games at once. Use its options "
                           "(environment_options=...), or give a function that makes one Gymnasium environment.")


def check_processes(name: str, options: Mapping[str, Any], factory: Factory | Wrapped | None = None) -> None:
    """Raises OutOfBounds if processes cannot share the environments, and as `check_name`. Makes none."""
    check_spreadable(factory_call(name, dict(options), factory=factory), name)


def register_environment(name: str, factory: Factory) -> None:
    """Registers `factory` (a gymnasium.Env class, or a callable that returns one) as `name` in this process.

    Registering a name again replaces its factory, as when a cell is run again. Raises InvalidInput for a name of
    Gymnasium's, for one with the prefix of a family (football/, ...), and for a factory that is not callable.
    """
    if not callable(factory):
        raise InvalidInput(f"the factory of environment {name!r} must be a class or a callable, not {factory!r}.")
    if not re.fullmatch(r"[\w./-]+", name):
        raise InvalidInput(f"environment name {name!r} may have only letters, digits and _ . / -.")
    family = family_of(name)
    if family is not None:
        raise InvalidInput(f"environment {name!r}: names that begin with {family.prefix} are those of "
                           f"{family.title}; choose another name.")
    if name in known_ids():
        raise InvalidInput(f"environment {name!r} exists in Gymnasium already; choose another name.")
    _factories[name] = factory


def registered_factory(name: str) -> Factory | None:
    """The factory registered as `name`, for a launcher to send by value; None if there is none."""
    return _factories.get(name)


def check_name(name: str, options: Mapping[str, Any] | None = None) -> Any:
    """Checks `name` and `options` without making an environment. Returns Gymnasium's spec, or None for other names.

    Raises UnknownName for the name or an option, OutOfBounds for an option's value, and MissingPackage.
    """
    if not isinstance(options, Mapping | None):
        raise InvalidInput(f"environment_options={options!r} must be a dict from names of options to values.")
    options = dict(options or {})
    if name in _factories:
        check_options(name, options, _factories[name])
        return None
    family = family_of(name)
    if family is not None:
        family.adapter(name).check(name, options)
        return None
    spec = _spec(name)
    if _is_atari(spec):
        atari_options(spec.kwargs, options)
    else:
        _require_package(str(spec.entry_point), name)
        check_options(name, options, _entry_point(spec))
    return spec


def atari_game(name: str) -> str | None:
    """ale-py's name of an environment's game, such as "pong"; None if it is not Atari.

    Raises UnknownName, MissingPackage.
    """
    if name in _factories or family_of(name) is not None:
        return None
    spec = _spec(name)
    return str(spec.kwargs["game"]) if _is_atari(spec) else None


def registered_names() -> tuple[str, ...]:
    """The names that `register_environment` registered in this process."""
    return tuple(sorted(_factories))


def _spec(name: str) -> Any:
    """Gymnasium's spec of `name`; imports its package if the name has one ("package:Name-v0")."""
    registry = known_ids()  # imports add to it
    package, _, short = name.rpartition(":")
    if package:
        if importlib.util.find_spec(package.partition(".")[0]) is None:
            raise MissingPackage(f"environment {name!r} needs the package {package!r}, which is not installed.")
        try:
            importlib.import_module(package)
        except Exception as error:
            raise EnvironmentFailed(f"module {package!r} of environment {name!r} raised {type(error).__name__} when it "
                                    f"was imported: {error}. Mend it; python -c 'import {package}' shows where."
                                    ) from error
    if short in registry or (importing(short) and short in registry):
        return registry[short]
    if package:
        raise UnknownName(f"{package!r} was imported, and registers no environment {short!r} with Gymnasium. Where it "
                          "has been added since, reload the module or restart the kernel.")
    _require_package(name, name)
    ids = [known for known, spec in registry.items() if not _is_atari(spec) or is_playable(spec.kwargs)]
    atari = {known.removeprefix("ALE/"): known for known in ids if known.startswith("ALE/")}
    games = {word: known for short, known in atari.items() for word in (short, short[:-3], short[:-3].lower())}
    variant = VARIANT.sub("", name)  # such as BreakoutDeterministic-v4
    games |= {name: games[variant]} if variant in games else {}
    raise UnknownName.among("environment", name, [*ids, *_factories],
                            "Your own class goes to launch(...) itself, or to register_environment. Processes of a run "
                            "do not see what gymnasium.register added here; give 'module:Name-v0' where a module does "
                            "it.", games)


def known_ids() -> Mapping[str, Any]:
    """Gymnasium's registry by id, including ALE's ids and our testing ids."""
    with deferred():
        import gymnasium

    registry: Mapping[str, Any] = gymnasium.registry
    if "ALE/Pong-v5" not in registry and importlib.util.find_spec("ale_py") is not None:
        gymnasium.register_envs(importlib.import_module("ale_py"))
    for name, title in _TESTING.items():
        if name not in registry:
            gymnasium.register(name, entry_point=f"workbench.testing:{title}", disable_env_checker=True)
    return registry


def _is_atari(spec: Any) -> bool:
    return spec is not None and str(spec.entry_point).startswith("ale_py.env")


def _require_package(key: str, name: str) -> None:
    """Raises MissingPackage if the package for `key` (see `package_of`) is not installed."""
    package = package_of(key)
    if package is not None and not package.installed:
        raise MissingPackage(f"environment {name!r} needs {package.package}, which is not installed: {package.install}")


def _entry_point(spec: Any) -> Any:
    from gymnasium.envs.registration import load_env_creator

    return spec.entry_point if callable(spec.entry_point) else load_env_creator(spec.entry_point)


def check_options(name: str, options: Mapping[str, Any], make: Callable[..., Any]) -> None:
    """Raises UnknownName for an option that is no keyword argument of `make`, which is not called."""
    if options:  # else Gymnasium need not be loaded
        in_gymnasium = name.rpartition(":")[2] in known_ids()
        check_keywords(make, options, f"option of {name}", also=_GYMNASIUM_OPTIONS if in_gymnasium else ())


def _make_gymnasium(name: str, options: Mapping[str, Any]) -> Any:
    """One environment, without Gymnasium's wrappers that check its calls: our own checks take less time a step."""
    import gymnasium

    spec = copy.copy(_spec(name))
    spec.order_enforce = False
    _entry_point(spec)  # loads what it needs
    if (mujoco := sys.modules.get("mujoco")) is not None:  # it would write a MUJOCO_LOG.TXT where the user works
        mujoco.set_mju_user_warning(lambda text: print(f"MuJoCo: {text}", file=sys.stderr))
    return gymnasium.make(spec, **{"disable_env_checker": True, **options})
