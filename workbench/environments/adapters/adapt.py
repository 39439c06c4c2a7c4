"""Which adapter an environment gets that a user's factory made: decided by what it is, not by what it is called.

    gymnasium.Env                                   one of N, stepped one after another: `gymnasium_vector`
    gymnasium.vector.VectorEnv, envpool             N at once: `batched_vector`
    pettingzoo.ParallelEnv                          one game of several agents: `pettingzoo`
    `contract.VectorEnvironment`                    taken as it is
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast

from workbench.environments.adapters.batched_vector import NativeVector, is_pool
from workbench.environments.adapters.guarded_calls import called
from workbench.environments.adapters.gymnasium_vector import GymnasiumVector
from workbench.environments.contract import Show, VectorEnvironment, seeds_of
from workbench.errors import InvalidInput, OutOfBounds
from workbench.trajectory import EnvironmentSpec


def vector_of(
    name: str, factory_call: Callable[..., Any], *, num_envs: int, seed: int, show: Show, first_index: int = 0
) -> VectorEnvironment:
    """`num_envs` environments behind the contract, from what `factory_call` makes.

    A factory with a parameter `num_envs` makes all of them at once, and is given `num_envs`, and `seed` and `show` if
    it has those parameters, by keyword. Any other is called once for each environment, or game of several agents.

    Args:
        name: how messages call it.
        factory_call: the factory with the user's options in it, such as functools.partial(factory, **options).
        show: see `registry.make`; whether a single environment draws itself is up to what is in `factory_call`.
        first_index: what messages call the first one, see `spread`.

    Raises InvalidInput for something that is no environment we know, OutOfBounds for a wrong number of them,
    EnvironmentFailed for what it raises, and ShapeMismatch.
    """
    parameters = inspect.signature(factory_call).parameters
    if "num_envs" in parameters:
        def build(seed: int) -> Any:
            one_seed = {"seed": int(seeds_of(seed, 1)[0])} if "seed" in parameters else {}
            return factory_call(num_envs=num_envs, **one_seed, **({"show": show} if "show" in parameters else {}))
    else:
        def build(seed: int) -> Any:
            return factory_call()  # no seed: each of N would be given the same
    first = called(name, None if "num_envs" in parameters else first_index, "constructor", build, seed)
    keeps_endings = show is not None
    if isinstance(getattr(first, "spec", None), EnvironmentSpec):
        _check_number(first, name, num_envs)
        return cast(VectorEnvironment, first)
    if _is_vector(first):
        _check_number(first, name, num_envs)
        if is_pool(first) and "seed" not in parameters:
            first.close()
            raise InvalidInput(f"the factory of {name} made an envpool, which gets its seed when it is made: give it "
                               "the parameters num_envs and seed, and hand them on to envpool.make_gymnasium.")
        return NativeVector(name, first, build=build, seed=seed, keeps_endings=keeps_endings)
    made = [first]

    def one() -> Any:
        return made.pop() if made else build(seed)

    if hasattr(first, "agent_iter"):
        raise InvalidInput(f"{name} is an environment whose agents take turns. Supported are parallel ones: "
                           "pettingzoo.utils.conversions.aec_to_parallel(env).")
    if hasattr(first, "possible_agents"):
        from workbench.environments.pettingzoo.family import ParallelVector

        return ParallelVector(name, one, num_envs=num_envs, seed=seed, keeps_endings=keeps_endings)
    return GymnasiumVector(
        name, one, num_envs=num_envs, seed=seed, keeps_endings=keeps_endings, first_index=first_index)


def check_spreadable(made: VectorEnvironment | Callable[..., Any] | None, name: str) -> None:
    """Raises OutOfBounds where processes cannot share the environments `name`.

    Args:
        made: some of them; or what makes them, where none is made yet, and None for what steps many by its name.
    """
    several = isinstance(made, VectorEnvironment) and not isinstance(made, GymnasiumVector)
    if made is None or several or (callable(made) and "num_envs" in inspect.signature(made).parameters):
        raise OutOfBounds(f"actor_processes is for environments that are stepped one by one in Python, and {name} "
                          "steps several at once. Leave it out; actor_threads or more actors may help.")


def vector_by_id(
    name: str, *, vectorization_mode: str, num_envs: int, seed: int, show: Show, options: dict[str, Any]
) -> VectorEnvironment:
    """`num_envs` of Gymnasium's id `name` in a vector of Gymnasium's own kind, as `gymnasium.make_vec` makes it.

    Args:
        vectorization_mode: "sync"; "async": a process each; "vector_entry_point": the id's own, where it has one.
        options: keyword arguments of `gymnasium.make_vec`.
    """
    import gymnasium

    if vectorization_mode not in ("sync", "async", "vector_entry_point"):
        raise OutOfBounds(f"vectorization_mode={vectorization_mode!r} must be 'sync', 'async' or "
                          "'vector_entry_point'.")
    if vectorization_mode != "vector_entry_point":
        same_step = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
        options = {"disable_env_checker": True, **options,
                   "vector_kwargs": {**same_step, **options.get("vector_kwargs", {})}}

    def build(num_envs: int) -> Any:
        return gymnasium.make_vec(name, num_envs=num_envs, vectorization_mode=vectorization_mode, **options)

    return vector_of(name, build, num_envs=num_envs, seed=seed, show=show)


def _is_vector(made: Any) -> bool:
    """Whether it is a Gymnasium vector, as envpool's gymnasium environments are too by class, or an envpool."""
    from gymnasium.vector import VectorEnv

    return isinstance(made, VectorEnv) or is_pool(made)


def _check_number(made: Any, name: str, num_envs: int) -> None:
    if made.num_envs != num_envs:
        number = made.num_envs
        made.close()
        raise OutOfBounds(f"the factory of {name} made a vector of {number} environments where {num_envs} are wanted: "
                          "give it a parameter num_envs, and make that many.")
