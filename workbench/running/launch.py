"""`launch` and `resume`: check everything here, in the caller's process, and only then start anything (see `fork`)."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from workbench import checkpoints, environments, launchers, rundir
from workbench.checkpoints import Checkpoint
from workbench.config import ALGORITHMS, NETWORKS, RunConfig, Setting
from workbench.config.chosen import DEVICE_VARIABLE
from workbench.environments.adapters import code_by_value
from workbench.environments.adapters.wrapping import Wrapped, Wrapper, checked_wrappers
from workbench.environments.presets import NONE, preset_of, with_preset
from workbench.errors import (
    ConnectionLost,
    InvalidInput,
    RunExists,
    RunFailed,
    RunNotAlive,
    UnknownName,
    WaitTimeout,
)
from workbench.launchers.contract import Launched, Launcher
from workbench.rundir import ENDED, Parent, RunDirectory, lock, sealed
from workbench.rundir.files import check_unlinked
from workbench.running import machine_info, waiting
from workbench.running.connection import Control, stored_status
from workbench.running.handle import Run
from workbench.supervisor import stopping_rules

Factory = Callable[..., Any]

_SUPERVISOR_S = 180.0  # its start on a busy machine, and up to 10 s for the processes of a dead one to end
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def launch(
    environment: str | Factory,
    *,
    algorithm: str = "vtrace",
    name: str | None = None,
    launcher: str = "local",
    address: str | None = None,
    network: str | Factory | None = None,
    preset: str | None = None,
    wrappers: Sequence[Wrapper] = (),
    checkpoint: Checkpoint | Run | str | Path | None = None,
    wait_ready: bool = True,
    ready_timeout_s: float = 180.0,
    progress: bool | None = None,
    **fields: Any,
) -> Run:
    """A new run that learns in the background, once it trains (or at once, without `wait_ready`).

    Args:
        environment: a name such as "ALE/Pong-v5" or "CartPole-v1" (`wb.environments()` lists them), or a class or
            function that makes one; code typed in a cell travels by value.
        name: of the run; None: the first free one, such as pong-vtrace-1.
        launcher: where its processes live: "local", on this machine; "ray", on a Ray cluster; "colab"; or "inline", as
            threads of this process, for a debugger. See docs/scale.md.
        address: of the Ray cluster: "auto" (as None), "HOST:PORT", or "ray://HOST:PORT" for its client.
        network: a name such as "impala-deep-lstm", a function from EnvironmentSpec to nn.Module, or None: chosen by
            the preset or by the observations.
        preset: whose fields to take where none are given; None: the environment's own, if it has one; "none": only the
            algorithm's defaults. See `workbench.environments.presets`.
        wrappers: what goes around each environment, such as subclasses of gymnasium.Wrapper, the first one innermost;
            code typed in a cell travels by value.
        checkpoint: whose weights to start from; of a run, its newest good one.
        progress: whether to show a line while waiting; None: where a person looks on.
        fields: of the run and of its algorithm (`actors=2`, `learning_rate=6e-4`), see `workbench.config`.

    Raises:
        InvalidInput: UnknownName, OutOfBounds and so on; nothing was started.
        RunExists, HomeNotWritable, MissingPackage: nothing was started.
        EnvironmentFailed, NetworkFailed, RunFailed: the run failed while it started; with the traceback.
        WaitTimeout: it does not train after `ready_timeout_s`; it goes on.
    """
    place = launchers.by_name(launcher)
    fields = {"device": os.environ.get(DEVICE_VARIABLE, "auto"), **fields, "launcher": launcher, "address": address}
    config, code, chosen = checked_config(environment, algorithm, network, preset, wrappers, fields)
    launchers.checked(place, config)
    parent = None if checkpoint is None else rundir.parent_of(chosen_checkpoint(checkpoint).path, take="weights")
    stem = f"{stem_of(config.environment)}-{config.algorithm}"
    record = new_record(config, parent=parent, code=code, preset=chosen)
    directory = created(name, stem, record, code, place)
    return started(directory, place, wait_ready=wait_ready, ready_timeout_s=ready_timeout_s, progress=progress)


def resume(
    name: str | Path,
    *,
    launcher: str | None = None,
    address: str | None = None,
    wait_ready: bool = True,
    ready_timeout_s: float = 180.0,
    progress: bool | None = None,
    trust_code: bool = False,
    **changes: Any,
) -> Run:
    """A stopped, failed, finished or dead run, started again from its newest good checkpoint; a live one as it is.

    Args:
        launcher, address: where it goes on, see `launch`; None: where it was.
        trust_code: let code that was typed in a cell for it execute as you, wherever the run comes from; from then on
            it counts as yours.
        changes: live fields and `actors`, to go on with; a learning rate ends a warm-up, as `Run.tune` says.

    Raises:
        RunNotFound: with the nearest name.
        InvalidInput: a change is wrong, the run has reached total_frames, or what it starts from was deleted before
            it had a checkpoint of its own; nothing was started.
        AccessDenied: it is somebody else's, or needs code that no launch of yours on this machine wrote.
        as `launch` for what happens while it starts.
    """
    directory = rundir.find(name)
    directory.check_own()
    moved = moved_to(directory.config(), launcher, address)
    place, control = launchers.by_name(moved.launcher), Control(directory)
    if directory.read()["state"] == "stopping":
        waiting.until_ended(control, ready_timeout_s)
    if _answers(control):
        return _changed(Run(directory), changes)
    moved = moved_to(directory.config(), launcher, address)
    config = _with_changes(moved, moved.ending_warm_up(changes, stored_status(directory).updates))
    _check_goes_on(directory, config)
    _check_parent(directory)
    trust_code = Setting("trust_code", bool, False, "").check(trust_code)
    sealed.check(directory.code, config, address=address, trust_code=trust_code)
    sealed.check(directory.opponent.code, trust_code=trust_code)
    check_unlinked(directory.path)
    launchers.checked(place, config)

    def prepare() -> None:
        record = directory.read()
        directory.write(
            state="starting", error=None, supervisor_pid=None, config=config.to_json(),
            config_before=record.get("config_before") or record["config"],  # until a supervisor has told the change
        )

    return started(
        directory, place, prepare, wait_ready=wait_ready, ready_timeout_s=ready_timeout_s, progress=progress
    )


# --- checking ---------------------------------------------------------------------------------------------------------


def checked_config(
    environment: str | Factory, algorithm: str, network: str | Factory | None, preset: str | None,
    wrappers: Sequence[Wrapper], fields: dict[str, Any],
) -> tuple[RunConfig, dict[str, bytes], str | None]:
    """The configuration, the code to ship by file name, and the name of the preset. Raises InvalidInput."""
    factory = environment if callable(environment) else environments.registered_factory(str(environment))
    label = environment if isinstance(environment, str) else _label(environment)
    if isinstance(network, str) and network not in NETWORKS:
        raise UnknownName.among("network", network, NETWORKS)
    if algorithm not in ALGORITHMS:
        raise UnknownName.among("algorithm", str(algorithm), ALGORITHMS)
    if factory is None:
        environments.check_name(label, fields.get("environment_options"))  # before its preset is looked for
    elif preset not in (None, NONE):
        raise InvalidInput(f"preset={preset!r}: presets are for environments by name, and {label} is one of your own. "
                           "Give the fields themselves: learning_rate=..., network=...")
    chosen = None if factory is not None else preset_of(label, preset, algorithm=algorithm)
    fields = with_preset(chosen, with_opponent(fields), algorithm=algorithm, wrapped=bool(wrappers))
    if network is not None:
        fields["network"] = network if isinstance(network, str) else None
    around = Wrapped(factory, checked_wrappers(wrappers))
    config = RunConfig.build(label, algorithm=algorithm, wrappers=around.names, **fields)
    if factory is None:
        environments.check_name(label, config.environment_options)
        if around.wrappers:
            environments.check_wrappable(label)
    made_by = around if around.wrappers else factory
    if config.actor_processes > 1:
        environments.check_processes(label, config.environment_options, made_by)
    shipped = {"environment.pkl": made_by, "network.pkl": network if callable(network) else None}
    code = {file: code_by_value.dumps(one) for file, one in shipped.items() if one is not None}
    code |= sealed.words(label if factory is None else "", config.address)
    code = {file: sealed.sealed(file, data) for file, data in code.items()}
    return config, code, None if chosen is None else chosen.name


def with_opponent(fields: dict[str, Any]) -> dict[str, Any]:
    """`fields` with the folder of the checkpoint that `opponent` stands for.

    Raises InvalidInput, CheckpointCorrupt, and AccessDenied where its network was typed in a cell by somebody else.
    """
    if fields.get("opponent") is None:
        return fields
    found = chosen_checkpoint(fields["opponent"])
    sealed.read(found.path.parents[1] / "code" / "network.pkl")
    return {**fields, "opponent": str(found.path)}


def _label(factory: Any) -> str:
    """What a class or function is called in lists."""
    if not callable(factory):
        raise InvalidInput(
            f"environment={factory!r} must be a name or something that makes an environment, not a "
            f"{type(factory).__name__}. Give the class or a function, not an environment that exists already."
        )
    return str(getattr(factory, "__name__", type(factory).__name__)).strip("<>")


def chosen_checkpoint(given: Checkpoint | Run | str | Path, *, trust_code: bool = False) -> Checkpoint:
    """The checkpoint itself, the one in a folder, or a run's newest good one; verified but for its replay.

    A run that lives and has none yet writes one now. `trust_code`: see `rundir.sealed`. Raises InvalidInput.
    """
    trust_code = Setting("trust_code", bool, False, "").check(trust_code)
    if not isinstance(given, Checkpoint | Run | str | Path):
        raise InvalidInput(f"{given!r:.100} is no checkpoint and no run: give one, its name, or its folder.")
    if isinstance(given, Run):
        found = _newest_or_first(given)
    elif not isinstance(given, Checkpoint) and not os.path.exists(Path(given) / "meta.json"):
        found = _newest_or_first(Run(_run_of(given)))
    else:
        found = given if isinstance(given, Checkpoint) else checkpoints.at(Path(given))
        found.verify(replay=False)
    return replace(found, trust_code=trust_code)


def to_play(given: Checkpoint | Run | str | Path, *, trust_code: bool) -> Checkpoint:
    """As `chosen_checkpoint`, for playing in its environment.

    Raises AccessDenied for code that the process which plays would refuse (`rundir.sealed`), before there is one.
    """
    found = chosen_checkpoint(given, trust_code=trust_code)
    run = RunDirectory(found.path.parents[1])
    if run.record.exists():
        check_unlinked(run.path)  # rollouts are kept there
        sealed.all_code(run.code, trust_code=trust_code)
    sealed.check_module(run.code, found.config.environment, trust_code=trust_code)
    return found


def _newest_or_first(run: Run) -> Checkpoint:
    if not checkpoints.every(run.directory.checkpoints) and lock.is_alive(run.directory):
        return run.checkpoint()
    return newest_checkpoint(run.directory)


def newest_checkpoint(directory: RunDirectory) -> Checkpoint:
    """A run's newest good checkpoint; its replay is not looked at. Raises InvalidInput."""
    newest, wrong = checkpoints.newest_good(directory.checkpoints, replay=False)
    if newest is None:
        raise InvalidInput(f"{directory.name} has no good checkpoint yet. {' '.join(wrong)}".strip())
    return newest


def _run_of(given: str | Path) -> RunDirectory:
    path = Path(os.path.expanduser(given))
    if path.is_absolute() and not os.path.exists(path / "run.json"):
        raise InvalidInput(f"there is no checkpoint in {path}.")
    return rundir.find(given)


def _check_parent(directory: RunDirectory) -> None:
    """Raises InvalidInput if the run would start from weights that are gone."""
    parent = directory.parent()
    if parent is None or Path(parent["checkpoint"]).exists() or checkpoints.every(directory.checkpoints):
        return
    of = f" {parent['run']}" if parent["run"] else ""
    raise InvalidInput(
        f"{directory.name} starts from the checkpoint {parent['checkpoint']}, which is gone. If its run{of} was "
        f"deleted, move it back from {rundir.trash()}; or launch a new run."
    )


def moved_to(config: RunConfig, launcher: str | None, address: str | None) -> RunConfig:
    """The configuration for another launcher, or for another cluster; None: as it was. Raises UnknownName."""
    if launcher is None:
        return config.replaced(address=address or config.address)
    launchers.by_name(launcher)
    same = launcher == config.launcher
    return config.replaced(launcher=launcher, address=address or (config.address if same else None))


def _check_goes_on(directory: RunDirectory, config: RunConfig) -> None:
    """Raises InvalidInput if the run would end at once by a rule of its configuration."""
    name, status = directory.name, stored_status(directory)
    if status.state == "finished" and status.frames >= config.total_frames:
        raise InvalidInput(f"{name} has finished: it reached total_frames={config.total_frames}. Give a larger one: "
                           f"wb.resume({name!r}, total_frames={2 * config.total_frames}).")
    field, why = stopping_rules.reached(config, vars(status))
    if field:
        raise InvalidInput(f"{name} would finish at once: it {why}. Give another one, or none: wb.resume({name!r}, "
                           f"{field}=None).")


def _with_changes(config: RunConfig, changes: dict[str, Any]) -> RunConfig:
    live = {key: value for key, value in changes.items() if key != "actors"}
    return config.with_live(**live).replaced(**{key: changes[key] for key in changes if key == "actors"})


def new_record(
    config: RunConfig, *, parent: Parent | None, code: Mapping[str, bytes], preset: str | None = None,
    state: str = "starting",
) -> dict[str, Any]:
    """run.json of a run that is about to start; or, with the state "stopped", that waits for somebody to resume it."""
    return {
        "created": time.time(),
        "config": config.to_json(),
        "state": state,
        "supervisor_pid": None,
        "error": None,
        "parent": parent,
        "preset": preset,
        "code": {kind: f"{kind}.pkl" in code for kind in ("environment", "network")},
        "versions": _versions(),
        "machine": machine_info.described(),
    }


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("rl-workbench", "torch", "gymnasium"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


# --- starting ---------------------------------------------------------------------------------------------------------


def created(
    name: str | None, stem: str, record: dict[str, Any], code: Mapping[str, bytes], place: Launcher,
    prepare: Callable[[RunDirectory], object] = lambda run: None,
) -> RunDirectory:
    """The new run's directory, by its name or the first one of `stem` that is free here and where `place` writes.

    Raises RunExists, InvalidInput, HomeNotWritable, see `rundir.create`.
    """
    if name is not None:
        check_name(name)
        place.check_name(name)
        return rundir.create(name, record, code=code, prepare=prepare)
    for number in count(1):
        try:
            place.check_name(free := f"{stem}-{number}")
            return rundir.create(free, record, code=code, prepare=prepare)
        except RunExists:
            continue
    raise AssertionError("unreachable")


def check_name(name: str) -> None:
    """Raises InvalidInput if it cannot name a run."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInput(
            f"name={name!r} cannot name a run: use up to 100 letters, digits and . _ -, a letter or digit first."
        )


def stem_of(environment: str) -> str:
    """ALE/Pong-v5 → pong, CartPole-v1 → cartpole."""
    last = re.sub(r"-v\d+$", "", environment.rpartition("/")[2].rpartition(":")[2])
    return re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")[:60] or "run"


def started(
    directory: RunDirectory,
    launcher: Launcher,
    prepare: Callable[[], None] = lambda: None,
    *,
    wait_ready: bool,
    ready_timeout_s: float,
    progress: bool | None,
) -> Run:
    """Start the supervisor and wait for it. An interrupt leaves the run alone, and says its name."""
    control = Control(directory)
    with _leaving_it_alone(directory.name):
        with lock.held(lock.of_start(directory), wait_s=lock.LOOK_S) as mine:
            if not mine or _came_up(control):
                raise RunExists(f"{directory.name} is being started by somebody else. wb.attach({directory.name!r}).")
            prepare()
            launched = launcher.start(directory)
            _await_supervisor(control, launched)
        status = None
        if wait_ready:
            status = waiting.until_ready(control, launched, ready_timeout_s, progress=progress)
    control.close()
    return Run(directory, status)


@contextmanager
def _leaving_it_alone(name: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        print(f"{name} goes on in the background: wb.attach({name!r}) gives its handle, .stop() ends it.")
        raise


def _came_up(control: Control) -> bool:
    """Whether somebody else has started the run before this process got the lock; waits for what a former life left.

    A second supervisor would wait for the first one's end, and start the run anew when somebody stops it.
    """
    deadline = time.monotonic() + lock.ORPHANS_LIVE_S
    while lock.is_held(lock.of_supervisor(control.directory)) and time.monotonic() < deadline:
        if control.directory.read()["state"] not in ENDED and _answers(control):
            return True
        time.sleep(0.05)
    return False


def _await_supervisor(control: Control, launched: Launched) -> None:
    """Wait until the supervisor answers, or has ended the run already."""
    name, deadline = control.directory.name, time.monotonic() + _SUPERVISOR_S
    while time.monotonic() < deadline:
        gone = launched.poll() is not None
        if control.directory.read()["state"] in ENDED or _answers(control):
            return
        if gone:
            raise RunFailed(f"the supervisor of {name} ended while it started. Its log ends:\n{launched.logs()}")
        time.sleep(0.05)
    said = launched.logs()
    launched.stop()
    raise WaitTimeout(f"the supervisor of {name} was silent for {_SUPERVISOR_S:g} s and is not waited for any longer. "
                      f"Its log:\n{said}")


def _answers(control: Control) -> bool:
    try:
        return bool(control.call("ping", timeout_s=2.0)["name"] == control.directory.name)
    except (RunNotAlive, ConnectionLost):
        return False


def _changed(run: Run, changes: dict[str, Any]) -> Run:
    """A live run with the changes made."""
    _with_changes(run.config, changes)
    live = {key: value for key, value in changes.items() if key != "actors"}
    if live:
        run.tune(**live)
    if "actors" in changes:
        run.scale(actors=changes["actors"])
    return run
