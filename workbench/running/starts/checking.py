"""Checks what a call of launching, resuming or forking asks for, in the caller's process, before any other starts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from workbench import checkpoints, environments, launchers, rundir
from workbench.config import RunConfig, check_network, check_network_maker, settings
from workbench.config.own_algorithm import named_algorithm, near_misses, network_of, varied
from workbench.config.settings import takes
from workbench.copies import absolute, of_its_copy
from workbench.environments.adapters import code_by_value, edited_modules, sent_modules
from workbench.environments.adapters.wrapping import Wrapped, Wrapper, checked_wrappers
from workbench.environments.presets import NONE, preset_of, with_preset
from workbench.errors import (
    InvalidInput,
    UnknownName,
)
from workbench.rundir import RunDirectory, around, sealed, untried
from workbench.running.choosing import chosen_checkpoint
from workbench.running.connection import stored_status
from workbench.running.mending import giving_again, goes_by_name, is_registered, registering
from workbench.running.progress import notify
from workbench.supervisor import stopping_rules

Factory = Callable[..., Any]

OF_CLASS = "class"  # in run.json: the run's network came with the class of its algorithm


def checked_config(
    environment: str | Factory, algorithm: Any, network: str | Factory | None, preset: str | None,
    wrappers: Sequence[Wrapper], fields: dict[str, Any],
) -> tuple[RunConfig, dict[str, bytes], str | None]:
    """The configuration, the code of the run by file name, and the name of the preset. Raises InvalidInput."""
    factory = environment if callable(environment) else environments.registered_factory(str(environment))
    label = environment if isinstance(environment, str) else label_of(environment)
    network = network_of(algorithm, network)
    if isinstance(network, str):
        check_network(network)
    elif network is not None:
        check_network_maker(network, or_name=True)
    name, own = named_algorithm(algorithm, taken=settings(RunConfig))
    if "own_algorithm" in fields:
        raise InvalidInput("own_algorithm describes a class, and is set by it. Give algorithm=YourClass.")
    for sentence in near_misses(algorithm, own) if isinstance(algorithm, type) else ():
        notify(sentence)
    shipped = name if isinstance(algorithm, str) else varied(algorithm)
    of_preset = "" if own and preset is None else shipped  # a variation has the defaults of its class
    if factory is None:
        environments.check_name(label, fields.get("environment_options"))  # before its preset is read
    elif preset not in (None, NONE):
        raise InvalidInput(f"preset={preset!r}: presets are for environments by name, and {label} is one of your own. "
                           "Give the fields themselves: learning_rate=..., network=...")
    used_preset = None if factory is not None else preset_of(label, preset, algorithm=of_preset)
    fields = with_preset(used_preset, with_opponent(fields), algorithm=of_preset, wrapped=bool(wrappers))
    if network is not None:
        fields["network"] = network if isinstance(network, str) else None
    if isinstance(storage := fields.get("storage"), str):
        fields["storage"] = absolute(storage)
    wrapped = Wrapped(factory, checked_wrappers(wrappers))
    try:
        config = RunConfig.build(label, algorithm=name, own_algorithm=own, wrappers=wrapped.names, **fields)
    except UnknownName as error:
        if factory is None or not takes(factory, error.name):
            raise
        raise UnknownName(f"{error.name} is an argument of {label}, and no field of a run. Give "
                          f"environment_options={{{error.name!r}: {fields[error.name]!r:.100}}}.") from None
    if wrapped.learning:
        notify(f"{' and '.join(wrapped.learning)}: each environment keeps running means of its own, which no "
               "checkpoint has, so an evaluation, a rollout and a resumed run begin without them, and are not what was "
               "trained in. "
               "normalize_observations=True and normalize_rewards=True, without the wrapper, keep them.")
    if factory is None:
        environments.check_name(label, config.environment_options)
        if wrapped.wrappers:
            environments.check_wrappable(label)
    else:
        environments.check_options(label, config.environment_options, factory)
    if factory is None and shipped != of_preset and (theirs := preset_of(label, None, algorithm=shipped)) is not None:
        notify(f"{name} begins with the defaults of its class. {shipped} has the preset {theirs.name!r} for {label}: "
               f"preset={theirs.name!r} takes it, and preset='none' leaves out this line.")
    if config.actor_processes > 1:
        environments.check_processes(label, config.environment_options, wrapped if wrapped.wrappers else factory)
    maker, package = _maker(label, wrapped)
    objects = {"environment.pkl": maker, "network.pkl": network if callable(network) else None,
               "algorithm.pkl": algorithm if own else None}
    code = {file: code_by_value.dumps(value, imports=package) for file, value in objects.items() if value is not None}
    say_what_was_edited(factory, network, algorithm)
    code |= sealed.words(label if factory is None else "", config.address)
    code = {file: sealed.sealed(file, data) for file, data in code.items()}
    return config, code, None if used_preset is None else used_preset.name


def mended_code(
    directory: RunDirectory, algorithm: type | None, network: Factory | None, environment: Factory | None,
    wrappers: Sequence[Wrapper] | None, *, trust_code: bool,
) -> dict[str, bytes]:
    """The code of a run's mended network, environment and wrappers, by file name; of none: {}.

    Where `network` is None, a mended `algorithm` brings its own (`_network_brought`).
    Raises InvalidInput where the run has none of its user's own, or is called otherwise; AccessDenied.
    """
    made = _network_brought(directory, algorithm) if network is None else _mended_network(directory, network)
    if environment is not None or wrappers is not None:
        made |= _mended_environment(directory, environment, wrappers, trust_code=trust_code)
    return made


def _network_brought(directory: RunDirectory, algorithm: type | None) -> dict[str, bytes]:
    """The code of a mended class's `default_network`, by file name, where the run's network came with its class."""
    network, has = network_of(algorithm, None), directory.read().get("code", {}).get("network")
    if not callable(network) or not has:
        return {}
    made = {file: code for file, code in _mended_network(directory, network).items()
            if untried.is_new(directory, file, code)}
    if made and has != OF_CLASS:  # a call gave it, or an earlier version did not note who did
        notify(f"{directory.name} keeps the network that it had, and not the default_network of the class, "
               f"{label_of(network)}: network={label_of(network)} gives it that one.")
        return {}
    if made:
        notify(f"{directory.name} goes on with the default_network of the class, {label_of(network)}, in place of the "
               "network that it had.")
    return made


def _mended_network(directory: RunDirectory, network: Factory) -> dict[str, bytes]:
    check_network_maker(network)
    config, label = directory.config(), label_of(network)
    if not directory.read().get("code", {}).get("network"):
        raise InvalidInput(f"network={label}: this run learns with {config.network or 'the network of its algorithm'}, "
                           "no class or function of yours that a mended one could replace. Begin a new run: "
                           f"wb.launch(..., network=YourNetwork, checkpoint={directory.name!r}) takes the weights, if "
                           "all of them fit.")
    _, package = _maker(config.environment, Wrapped(None, ()))
    say_what_was_edited(network)
    file = "network.pkl"
    return {file: sealed.sealed(file, code_by_value.dumps(network, imports=package))}


def _mended_environment(
    directory: RunDirectory, environment: Factory | None, wrappers: Sequence[Wrapper] | None, *, trust_code: bool
) -> dict[str, bytes]:
    config = directory.config()
    sealed.check_module(directory.code, config.environment, trust_code=trust_code)  # its name is looked up
    anew = "or begin a new run with its weights: wb.launch(..., checkpoint=...)"
    registered = environments.registered_factory(config.environment)
    factory = registered if environment is None else environment
    if factory is not registered and (label := label_of(environment)) != config.environment:
        if is_registered(directory):
            how = f"a name that you registered. Register this: {registering(config.environment, label)}, and try again"
        elif goes_by_name(config.environment):
            how = "which is no class of yours. Leave environment out (wrappers=[...] replaces its wrappers)"
        else:
            how = "and goes on only in a class or function of yours that is called so. Call the mended one so"
        raise InvalidInput(f"environment={label}: this run trains in {config.environment}, {how}, {anew}.")
    if factory is None:
        if is_registered(directory):
            raise InvalidInput(f"wrappers: the environment of this run is {config.environment}, a name that you "
                               f"registered. Register it again: {registering(config.environment)}, and try again.")
        if not goes_by_name(config.environment):
            raise InvalidInput(f"wrappers: the environment of this run is {config.environment}, of your own. Give it, "
                               f"too: environment={config.environment}.")
        environments.check_name(config.environment, config.environment_options)
    else:
        environments.check_options(config.environment, config.environment_options, factory)
    wrapped = Wrapped(factory, checked_wrappers(wrappers or ()))
    if wrapped.names != config.wrappers:
        raise InvalidInput(f"wrappers: this run's are {config.wrappers or 'none'}, and those given are "
                           f"{wrapped.names or 'none'}. Give all of them, the mended ones called as they were, {anew}.")
    maker, package = _maker(config.environment, wrapped)
    if maker is None:
        raise InvalidInput(f"wrappers: neither {config.environment} nor a wrapper of it is code of yours. Leave them "
                           "out.")
    if config.actor_processes > 1:
        environments.check_processes(config.environment, config.environment_options, maker)
    say_what_was_edited(factory, *wrapped.wrappers)
    file = "environment.pkl"
    return {file: sealed.sealed(file, code_by_value.dumps(maker, imports=package))}


def _maker(label: str, wrapped: Wrapped) -> tuple[Factory | Wrapped | None, list[str]]:
    """What makes an environment, where that is code of the user's own, and the module that registers its name."""
    package = label.rpartition(":")[0] if wrapped.factory is None else ""
    beside = package and sent_modules.is_beside(package)
    return wrapped if wrapped.wrappers or beside else wrapped.factory, [package] if package else []


def say_what_was_edited(*values: Any) -> None:
    """What goes to another process from modules that were edited since their import goes as the files are: say so."""
    modules = {value.__module__ for value in values if callable(value) and getattr(value, "__module__", None)}
    for file, functions in edited_modules.edited(modules).items():
        notify(f"{file} was edited after it was imported here ({', '.join(functions)}), and the other process gets "
               "the file as it is now. importlib.reload, or a new kernel, makes both the same.")


def with_opponent(fields: dict[str, Any]) -> dict[str, Any]:
    """`fields` with the folder of the checkpoint that `opponent` stands for.

    Raises InvalidInput, CheckpointCorrupt, and AccessDenied where another user typed its network in a cell.
    """
    if fields.get("opponent") is None:
        return fields
    path = chosen_checkpoint(fields["opponent"]).path
    for kind in ("network", "algorithm"):
        sealed.read(around(path).code / f"{kind}.pkl")
    return {**fields, "opponent": str(path)}


def label_of(factory: Any) -> str:
    """The name of a class or function in lists."""
    if not callable(factory):
        remedy = (". Give the class or a function, not an environment that exists already."
                  if hasattr(factory, "step") else ", such as 'CartPole-v1' or a class.")
        raise InvalidInput(
            f"environment={factory!r:.100} must be a name or something that makes an environment{remedy}")
    return str(getattr(factory, "__name__", type(factory).__name__)).strip("<>")


def check_parent(directory: RunDirectory) -> None:
    """Raises InvalidInput if the weights that the run starts from were deleted."""
    parent = directory.parent()
    if parent is None or Path(parent["checkpoint"]).exists() or any(
            checkpoints.every(folder) for folder in (directory.checkpoints, directory.beginning)):
        return
    run_name = f" {parent['run']}" if parent["run"] else ""
    raise InvalidInput(
        f"{directory.name} starts from the checkpoint {parent['checkpoint']}, which is gone. If its run{run_name} was "
        f"deleted, move it back from {rundir.trash()}; or launch a new run."
    )


def moved_to(config: RunConfig, launcher: str | None, address: str | None) -> RunConfig:
    """The configuration for another launcher, or for another cluster; None: as it was. Raises UnknownName."""
    if launcher is None:
        return config.replaced(address=address or config.address)
    launchers.by_name(launcher)
    same = launcher == config.launcher
    return config.replaced(launcher=launcher, address=address or (config.address if same else None))


def check_goes_on(directory: RunDirectory, config: RunConfig) -> None:
    """Raises InvalidInput if a rule of the configuration would end the run at once."""
    name, status = directory.name, stored_status(directory)
    newest = checkpoints.newest(directory.checkpoints)
    frames = max(status.frames if status.state == "finished" else 0, newest.frames if newest else 0)
    if frames >= config.total_frames:
        why = "has finished" if status.state == "finished" else f"would finish at once with its {frames:,} frames"
        raise InvalidInput(f"{name} {why}: it reached total_frames={config.total_frames}. Give a larger one: "
                           f"wb.resume({name!r}, total_frames={2 * frames}).")
    field, why = stopping_rules.reached(config, status)
    if field:
        again = f"wb.resume({name!r}, {field}=None)"
        if config.total_frames != directory.config().total_frames:
            again = f"wb.resume({name!r}, {field}=None, total_frames={config.total_frames})"
        raise InvalidInput(f"{name} would finish at once: it {why}. Give another one, or none: {again}.")


def check_has_code(
    directory: RunDirectory, config: RunConfig, *, but: Collection[str] = (), forks: bool = False
) -> None:
    """Raises InvalidInput where a file of a run's code that was typed in a cell is gone or torn, `but` for those given
    now, by a call that resumes the run or `forks` it."""
    typed = {**directory.read().get("code", {}), "algorithm": bool(config.own_algorithm)}
    for kind in ("environment", "network", "algorithm"):
        path = directory.code / f"{kind}.pkl"
        if typed.get(kind) and path.name not in but and not sealed.is_whole(path):
            lost = f"is torn: {path}" if path.exists() else f"is not in {directory.code} any more"
            copied = f", or take the folder code {kept}" if (kept := of_its_copy(config)) else ""
            again = giving_again(directory, kind, forks=forks)
            raise InvalidInput(f"the {kind} of {directory.name}, {getattr(config, kind)}, is code of its user's own, "
                               f"which {lost}. Give it again: {again}{copied}.")


def with_changes(config: RunConfig, changes: dict[str, Any]) -> RunConfig:
    """The configuration with changes of live fields and of `actors`. Raises UnknownName, NotLive, OutOfBounds."""
    live = {key: value for key, value in changes.items() if key != "actors"}
    return config.with_live(**live).replaced(**{key: changes[key] for key in changes if key == "actors"})


def with_algorithm(
    config: RunConfig, algorithm: type, changes: Collection[str]
) -> tuple[RunConfig, dict[str, bytes]]:
    """The configuration with a mended class in place of the user's own algorithm, and its code by file name.

    Fields that both classes have keep what differs from the old default; a value that changes with its default is said.
    `changes`: fields that get a value of their own. Raises InvalidInput where the run trains by another algorithm.
    """
    name, own = named_algorithm(algorithm, taken=settings(RunConfig))
    if not (own and config.own_algorithm and name == config.algorithm):
        remedy = f"Call the mended class {config.algorithm}, too, or begin" if config.own_algorithm else "Begin"
        raise InvalidInput(f"algorithm={name}: this run trains by {config.algorithm}, and can go on only with "
                           f"a class of yours that is called so. {remedy} a new run with its weights: "
                           "wb.launch(..., checkpoint=...)")
    say_what_was_edited(algorithm)
    try:
        mended = config.with_own(own, changes)
    except InvalidInput as error:
        error.add_note("The run keeps its values; give the call another one, such as learning_rate=1e-3.")
        raise
    has = mended.all_settings().keys()
    if gone := [f"{field}={value!r}" for field, value in config.changed.items() if field not in has]:
        notify(f"{name} no longer has {', '.join(gone)}, which this run had.")
    shared = config.all_settings().keys() & has - {"own_algorithm", *changes}
    if moved := [f"{field} {config.value(field)!r} → {mended.value(field)!r}" for field in sorted(shared)
                 if config.value(field) != mended.value(field)]:
        notify(f"{name} has other defaults now, which hold from here on: {', '.join(moved)}.")
    file = "algorithm.pkl"
    return mended, {file: sealed.sealed(file, code_by_value.dumps(algorithm))}
