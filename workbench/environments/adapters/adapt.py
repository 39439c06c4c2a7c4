"""Chooses the adapter for the environment that a user's factory made, by its type.

    gymnasium.Env                                   one of N, stepped one after another: `gymnasium_vector`
    gymnasium.vector.VectorEnv, envpool             N at once: `batched_vector`
    pettingzoo.ParallelEnv                          one game of several agents: `pettingzoo`
    `contract.VectorEnvironment`                    taken as it is
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any, cast

from workbench.environment_spec import EnvironmentSpec
from workbench.environments.adapters.batched_vector import NativeVector, is_pool
from workbench.environments.adapters.guarded_calls import called
from workbench.environments.adapters.gymnasium_vector import GymnasiumVector
from workbench.environments.contract import Show, VectorEnvironment, seeds_of
from workbench.errors import InvalidInput, OutOfBounds


def vector_of(
    name: str, factory_call: Callable[..., Any], *, num_envs: int, seed: int, show: Show, first_index: int = 0
) -> VectorEnvironment:
    """`num_envs` environments of `factory_call` behind the contract.

    A factory with a parameter `num_envs` makes all of them at once: it gets the keyword argument `num_envs`, and `seed`
    and `show` if it has those parameters. Any other is called once for each environment, or game of several agents.

    Args:
        name: for messages.
        factory_call: the factory with the user's options bound, such as functools.partial(factory, **options).
        show: see `registry.make`; the options in `factory_call` decide whether a single environment draws itself.
        first_index: index of the first environment in messages, see `spread`.

    Raises InvalidInput for an unsupported kind of environment, OutOfBounds for a wrong number of them,
    EnvironmentFailed for an exception in the factory, and ShapeMismatch.
    """
    parameters = inspect.signature(factory_call).parameters
    if "num_envs" in parameters:
        def build(seed: int) -> Any:
            seeding = {"seed": int(seeds_of(seed, 1)[0])} if "seed" in parameters else {}
            return factory_call(num_envs=num_envs, **seeding, **({"show": show} if "show" in parameters else {}))
    else:
        def build(seed: int) -> Any:
            return factory_call()  # no seed: all N would get the same one
    first = called(name, None if "num_envs" in parameters else first_index, "constructor", build, seed)
    keeps_endings = show is not None
    if isinstance(getattr(first, "spec", None), EnvironmentSpec):
        _check_number(first, name, num_envs)
        return cast(VectorEnvironment, first)
    if _is_vector(first):
        _check_number(first, name, num_envs)
        if is_pool(first) and "seed" not in parameters:
            first.close()
            raise InvalidInput(f"the factory of {name} made an envpool, whose constructor takes its seed: give it "
                               "the parameters num_envs and seed, and pass them to envpool.make_gymnasium.")
        return NativeVector(name, first, build=build, seed=seed, keeps_endings=keeps_endings)
    unused = [first]

    def build_one() -> Any:
        return unused.pop() if unused else build(seed)

    if hasattr(first, "agent_iter"):
        raise InvalidInput(f"{name} is an environment whose agents take turns. Supported are parallel ones: "
                           "pettingzoo.utils.conversions.aec_to_parallel(env).")
    if hasattr(first, "possible_agents"):
        from workbench.environments.pettingzoo.family import ParallelVector

        return ParallelVector(name, build_one, num_envs=num_envs, seed=seed, keeps_endings=keeps_endings)
    return GymnasiumVector(
        name, build_one, num_envs=num_envs, seed=seed, keeps_endings=keeps_endings, first_index=first_index)


def check_spreadable(source: VectorEnvironment | Callable[..., Any] | None, name: str) -> None:
    """Raises OutOfBounds if processes cannot share the environments `name`.

    Args:
        source: the environments, or their factory; None for names that step many at once.
    """
    several = isinstance(source, VectorEnvironment) and not isinstance(source, GymnasiumVector)
    if source is None or several or (callable(source) and "num_envs" in inspect.signature(source).parameters):
        raise OutOfBounds(f"actor_processes is for environments that are stepped one by one in Python, and {name} "
                          "steps several at once. Leave it out; actor_threads or more actors may help.")


def vector_by_id(
    name: str, *, vectorization_mode: str, num_envs: int, seed: int, show: Show, options: dict[str, Any]
) -> VectorEnvironment:
    """`num_envs` environments of Gymnasium's id `name` in a vector that `gymnasium.make_vec` makes.

    Args:
        vectorization_mode: "sync"; "async": a process each; "vector_entry_point": the id's own, where it has one.
        options: keyword arguments of `gymnasium.make_vec`.
    """
    import gymnasium

    if vectorization_mode not in ("sync", "async", "vector_entry_point"):
        raise OutOfBounds(f"vectorization_mode={vectorization_mode!r} must be 'sync', 'async' or "
                          "'vector_entry_point'.")
    if vectorization_mode != "vector_entry_point":
        modes = gymnasium.vector.AutoresetMode
        mode = modes.SAME_STEP if show is None else modes.DISABLED  # which still draws the last frame of an episode
        options = {"disable_env_checker": True, **options, "wrappers": [*options.get("wrappers", ()), _copying],
                   "vector_kwargs": {"autoreset_mode": mode, **options.get("vector_kwargs", {})}}

    def build(num_envs: int) -> Any:
        return gymnasium.make_vec(name, num_envs=num_envs, vectorization_mode=vectorization_mode, **options)

    return vector_of(name, build, num_envs=num_envs, seed=seed, show=show)


def _copying(env: Any) -> Any:
    """The environment with observations that its reset, which follows the last step at once, does not write into."""
    from gymnasium.wrappers import TransformObservation

    return TransformObservation(env, copy.deepcopy, env.observation_space)


def _is_vector(env: Any) -> bool:
    """Whether `env` is a vector of Gymnasium's or of envpool's."""
    from gymnasium.vector import VectorEnv

    return isinstance(env, VectorEnv) or is_pool(env)


def _check_number(vector: Any, name: str, num_envs: int) -> None:
    if vector.num_envs != num_envs:
        number = vector.num_envs
        vector.close()
        raise OutOfBounds(f"the factory of {name} made a vector of {number} environments where {num_envs} are wanted: "
                          "give it a parameter num_envs, and make that many.")
