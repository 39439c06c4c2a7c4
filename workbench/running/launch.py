"""`launch` starts a new run, `resume` restarts a run. (`Run.fork` starts a new run from another's checkpoint.)"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from workbench import checkpoints, launchers, rundir
from workbench.checkpoints import Checkpoint, newest_good
from workbench.config import DEFAULT, REPLAY_S, RunConfig, hardware
from workbench.config.chosen import DEVICE_VARIABLE
from workbench.config.few_updates import few_updates
from workbench.config.signatures import with_fields
from workbench.copies import of_its_copy
from workbench.environments.adapters.wrapping import Wrapper
from workbench.errors import InvalidInput, RunExists, StorageFailed, checked_arguments
from workbench.launchers.contract import Launched, Launcher
from workbench.metrics import MetricsReader, check_whole, holds_nothing
from workbench.rundir import RunDirectory, sealed, untried
from workbench.rundir.files import make_private
from workbench.running import remote, waiting
from workbench.running.choosing import chosen_checkpoint, none_good, say_passed_over
from workbench.running.connection import Control, lost_checkpoints, stored_status
from workbench.running.deletion import trashed_if_refused
from workbench.running.handle import Run, attach
from workbench.running.progress import notify
from workbench.running.starts import demonstrating
from workbench.running.starts.checking import (
    OF_CLASS,
    Factory,
    check_goes_on,
    check_has_code,
    check_parent,
    checked_config,
    mended_code,
    moved_to,
    with_algorithm,
    with_changes,
)
from workbench.running.starts.starting import (
    Awaited,
    answers,
    begun,
    catch_up,
    check_no_copy,
    created,
    new_record,
    started,
    stem_for,
)
from workbench.running.starts.taking_back import take_back_first, taken_back_if_it_fails
from workbench.tables import counted
from workbench.wire import certificates

if TYPE_CHECKING:
    from workbench.config.keywords import ResumeFields, RunFields
    from workbench.playing.rollout import Rollout


@with_fields()
@checked_arguments(environment="Give its name: wb.launch('CartPole-v1').", exp_name="Did you mean 'name'?")
def launch(
    environment: str | Factory,
    *,
    algorithm: str | type = DEFAULT,
    name: str | None = None,
    launcher: str = "local",
    address: str | None = None,
    network: str | Factory | None = None,
    preset: str | None = None,
    wrappers: Sequence[Wrapper] = (),
    checkpoint: Checkpoint | Run | str | Path | None = None,
    demonstrations: Rollout | str | Path | Sequence[Rollout | str | Path] | None = None,
    wait_ready: bool = True,
    ready_timeout_s: float = 180.0,
    progress: bool | None = None,
    **fields: Unpack[RunFields],
) -> Run:
    """Start a run that learns in the background; returns its handle once it trains (at once without `wait_ready`).

    Args:
        environment: a name such as "ALE/Pong-v5" or "CartPole-v1" (`wb.environments()` lists them), or a class or
            function that makes one; code typed in a cell travels by value, modules beside the notebook as they are now.
        algorithm: a name (docs/algorithms.md), or a class that derives from `wb.Algorithm`; one typed in a cell travels
            by value.
        name: of the run; None: the first free one, such as pong-vtrace-1.
        launcher: where its processes run: "local", on this machine; "ray", on a Ray cluster; "colab"; or "inline", as
            threads of this process, for a debugger. See docs/scale.md.
        address: of the Ray cluster: "auto" (as None), "HOST:PORT", or "ray://HOST:PORT" for its client.
        network: a name such as "impala-deep-lstm", a function from EnvironmentSpec to nn.Module, or None: chosen by
            the preset or by the observations.
        preset: its values hold for fields that are not given; None: the environment's own preset, if it has one;
            "none": only the algorithm's defaults. See `workbench.environments.presets`.
        wrappers: wrappers of each environment, such as subclasses of gymnasium.Wrapper, the first one innermost; code
            typed in a cell travels by value.
        checkpoint: the run starts from its weights; a run stands for its newest good checkpoint.
        demonstrations: rollouts for an algorithm that learns from them: of `wb.rollout` and `wb.play`, their folders,
            or the names of these. The run keeps a copy.
        progress: whether to show a line while waiting; None: in a notebook and in a terminal.
        fields: of the run and of its algorithm (`actors=2`, `learning_rate=6e-4`), see `workbench.config`.

    Raises:
        InvalidInput: UnknownName, OutOfBounds and so on; nothing was started, or its run is in the trash.
        AlgorithmFailed, EnvironmentFailed, NetworkFailed: code of yours raised or broke a rule; its run, if untrained,
            is in the trash.
        RunExists, HomeNotWritable, MissingPackage: nothing was started.
        RunFailed: the run failed while it started; the message has the traceback.
        WaitTimeout: the run does not train after `ready_timeout_s`; it goes on. Only a supervisor that has not even
            begun, such as one without a node of a cluster, is stopped, after 180 s or `ready_timeout_s`, if longer.
    """
    awaited = Awaited(wait_ready, ready_timeout_s, progress)
    place = launchers.by_name(launcher)
    device = os.environ.get(DEVICE_VARIABLE, "auto")
    config, code, preset_name = checked_config(
        environment, algorithm, network, preset, wrappers,
        {"device": device, **fields, "launcher": launcher, "address": address})
    launchers.checked(place, config)
    keep_demonstrations = demonstrating.checked(demonstrations, config)
    if warning := few_updates(config, "this run"):
        notify(warning)
    if config.learner_threads > (cores := hardware.cores()) and config.launcher != "ray":
        notify(f"learner_threads={config.learner_threads}: this machine has {counted(cores, 'cores')}, so the threads "
               "will take turns.")
    source = None if checkpoint is None else chosen_checkpoint(checkpoint)
    parent = None if source is None else rundir.parent_of(source.path, take="weights")

    def prepare(run: RunDirectory) -> None:
        keep_demonstrations(run.demonstrations)
        if source is not None:
            checkpoints.copy(source, run.beginning, without=[group for group in source.groups if group != "model"])

    record = new_record(config, parent=parent, code=code, preset=preset_name, network=network is not None or OF_CLASS)
    directory = created(name, stem_for(config), record, code, place, prepare)
    with trashed_if_refused(directory):
        return Run(directory, started(directory, place, awaited=awaited))


@with_fields(live=True, also=("actors",))
@checked_arguments(name="wb.runs() lists the runs.")
def resume(
    name: str | Path | Run,
    *,
    algorithm: type | None = None,
    network: Factory | None = None,
    environment: Factory | None = None,
    wrappers: Sequence[Wrapper] | None = None,
    launcher: str | None = None,
    address: str | None = None,
    wait_ready: bool = True,
    ready_timeout_s: float = 180.0,
    progress: bool | None = None,
    trust_code: bool = False,
    **changes: Unpack[ResumeFields],
) -> Run:
    """Restart a stopped, failed, finished or dead run from its newest good checkpoint; a live run only gets `changes`.

    Args:
        name: of a run of this machine; its address on a cluster, "ray://HOST:PORT/NAME", where it then goes on; or the
            URL of its copy in `storage`, "s3://bucket/runs/pong", which is copied here first unless the run is here.
            Checkpoints that a run has lost here are brought from its copy.
        algorithm: the mended class of an algorithm of your own, in place of the one of that name that the run has;
            None: that one. It keeps the run's values, but where the run had an old default and the class has a new
            one. If it never makes an update, the run gets its former code and settings back: by this call where the
            start fails, else, as after an interrupt, by the next resume. Until then evaluations and forks use them.
        network: likewise, the mended class or function of a network of your own, which the run's weights fit; None:
            the one that it has, or, where that came as the `default_network` of its class, what the mended one brings.
        environment, wrappers: likewise, the mended class or function that makes its environment, and all of its
            wrappers, called as they were. Observations and actions are what they were, too. Where the environment goes
            by name, as in a module beside the notebook: `wrappers` alone, [] for none.
        launcher, address: where it goes on, see `launch`; None: where it was.
        trust_code: let code that was typed in a cell for it execute as you, wherever the run comes from; from then on
            it counts as yours.
        changes: new values of live fields and of `actors`; a learning rate ends a warm-up, see `Run.tune`.

    Raises:
        RunNotFound: with the nearest name.
        InvalidInput: a change is wrong, the run has reached total_frames, its checkpoints are all damaged or gone, it
            has none and no copy of the one that it starts from, which was deleted, or its code is gone or torn;
            nothing was started.
        AccessDenied: it is another user's, or needs code that no launch of yours on this machine wrote.
        StorageFailed: its copy cannot be read, or the run of that name that is here is another one.
        and, while it starts, the errors of `launch`.
    """
    from workbench.copies.url_storage import is_url, restored

    awaited = Awaited(wait_ready, ready_timeout_s, progress)
    for kind, value in (("network", network), ("environment", environment), ("wrappers", wrappers)):
        if isinstance(value, str):  # which is no code, and refused as another field is that cannot change
            changes |= {kind: value}
    given = {"algorithm": algorithm, "network": network, "environment": environment, "wrappers": wrappers}
    mended = ", ".join(kind for kind, code in given.items() if code is not None and kind not in changes)
    if mended and not wait_ready:
        raise InvalidInput(f"wait_ready=False does not go with {mended}=..., which is taken back if it fails before "
                           "the run trains. Leave it out.")
    if remote.is_address(name):
        name = attach(name)
    if is_url(name):
        name = restored(str(name), trust_code=sealed.TRUST.check(trust_code))
    directory = rundir.find(name)
    if directory.is_copy:
        if mended:
            raise InvalidInput(f"{mended}: {directory.name} runs on another machine. Resume it there with the class.")
        return _resumed_there(attach(name), launcher or address, {**changes}, trust_code=trust_code,
                              wait_s=ready_timeout_s if wait_ready else None, progress=progress)
    check_no_copy(directory)
    moved_to(directory.config(), launcher, address)  # before anything is waited for
    control = Control(directory)
    if _lives(control, wait_s=ready_timeout_s):
        if mended:
            raise InvalidInput(f"{mended}: {directory.name} is alive, and its code is replaced while it is stopped. "
                               f"Stop it first: wb.attach({directory.name!r}).stop().")
        return _changed(Run(directory), {**changes})
    take_back_first(control)
    record, moved = directory.read(), moved_to(directory.config(), launcher, address)  # it may have lived meanwhile
    place = launchers.by_name(moved.launcher)
    prepare = _checked_to_go_on(
        directory, place, record, moved, {**changes}, algorithm=algorithm, address=address, trust_code=trust_code,
        code=mended_code(directory, algorithm, network, environment, wrappers, trust_code=trust_code) if mended else {},
        gives_network=network is not None)
    with taken_back_if_it_fails(control):
        return Run(directory, started(directory, place, prepare, awaited=awaited))


def begun_again(directory: RunDirectory, place: Launcher, **changes: Any) -> Launched | None:
    """Start a run again where it was, as `resume` does, and return at once: its supervisor may wait for a place.

    Returns None for a live run, which only gets `changes`. Raises what `resume` raises before it waits.
    """
    control = Control(directory)
    if _lives(control, wait_s=REPLAY_S):
        _changed(Run(directory), changes)
        return None
    take_back_first(control, lease_s=0.0)
    record, config = directory.read(), directory.config()
    prepare = _checked_to_go_on(
        directory, place, record, config, changes, algorithm=None, code={}, address=None, trust_code=False)
    return begun(directory, place, prepare)


def _lives(control: Control, *, wait_s: float) -> bool:
    """Whether a run of this user's is alive; one that is stopping is waited for. Raises AccessDenied, WaitTimeout."""
    control.directory.check_own()
    if control.directory.read()["state"] == "stopping":
        waiting.until_ended(control, wait_s)
    return answers(control)


def _checked_to_go_on(
    directory: RunDirectory, place: Launcher, before: dict[str, Any], moved: RunConfig, changes: dict[str, Any], *,
    algorithm: type | None, code: dict[str, bytes], address: str | None, trust_code: bool, gives_network: bool = False,
) -> Callable[[], None]:
    """What prepares the run's directory for another life, once all that may refuse it has been checked.

    Args:
        before: its record, read before its configuration was.
        moved: its configuration, by the launcher and the address where it goes on.
        code: what takes the place of other code than its algorithm's, by file name.
        gives_network: whether the call gives the network among it, which then is no longer that of the class.
    """
    moved, mended = (moved, {}) if algorithm is None else with_algorithm(moved, algorithm, changes)
    mended = {file: data for file, data in (mended | code).items() if _is_new(directory, file, data)}
    config = with_changes(moved, moved.ending_warm_up(changes, stored_status(directory).updates))
    check_goes_on(directory, config)
    check_has_code(directory, config, but=mended)
    if not holds_nothing(directory.metrics):
        _check_history(directory, config)
    trust_code = sealed.TRUST.check(trust_code)
    sealed.check(directory.code, config, address=address, trust_code=trust_code, but=mended)
    sealed.check(directory.opponent.code, trust_code=trust_code)
    make_private(directory.logs)  # an archive may lack empty folders
    launchers.checked(place, config)

    def prepare() -> None:
        _check_same(directory, before)
        catch_up(directory, config)
        _check_weights(directory)
        check_parent(directory)
        try:
            directory.new_token()
        except OSError as error:
            raise StorageFailed(f"cannot write {directory.path}/token: {error.strerror}. Make room there.") from None
        certificates.remove(directory)  # whoever made the run's files may have its key
        record = directory.read()
        make_private(directory.code)
        if mended:
            untried.begin(directory, mended, (MetricsReader(directory.metrics).status() or [None])[0])
            whose = {"network": True} if gives_network else {}
            directory.write(mended=record.get("lives", 0) + 1,  # the life that is to say so
                            code={**record.get("code", {}), **whose})
        directory.write(
            state="starting", error=None, supervisor_pid=None, config=config.to_json(),
            config_before=record.get("config_before") or record["config"],  # until a supervisor has recorded the change
        )

    return prepare


def _is_new(directory: RunDirectory, file: str, data: bytes) -> bool:
    """Whether the run has other code in that file; says it where it has not."""
    if not (new := untried.is_new(directory, file, data)):
        notify(f"{directory.name} has this very {Path(file).stem} already, and goes on with it.")
    return new


def _check_same(directory: RunDirectory, before: dict[str, Any]) -> None:
    """Raises RunExists if the run has lived, or its code was replaced, since its record was read and checked."""
    now = directory.read()
    if untried.is_there(directory) or any(now.get(name) != before.get(name) for name in ("lives", "config")):
        raise RunExists(f"{directory.name} was started by another process meanwhile. wb.attach({directory.name!r}) "
                        "shows it; call again to go on with it.")


def _check_weights(directory: RunDirectory) -> None:
    """Says which damaged checkpoints a run passes over. Raises InvalidInput where all that it had are damaged or gone.
    """
    newest, problems = newest_good(directory.checkpoints, replay=False)
    if newest is None and (problems or lost_checkpoints(directory)):
        raise none_good(directory, problems)
    say_passed_over(problems)


def _check_history(directory: RunDirectory, config: RunConfig) -> None:
    """Raises StorageFailed where it is damaged, with where another one is."""
    try:
        check_whole(directory.metrics)
    except StorageFailed as error:
        copied = of_its_copy(config)
        raise StorageFailed(f"{error}{f' Once it is, wb.resume brings the one {copied}.' if copied else ''}") from None


def _resumed_there(
    run: Run, place: str | None, changes: dict[str, Any], *, trust_code: bool, wait_s: float | None,
    progress: bool | None,
) -> Run:
    """The run of a copy, started again on its cluster. `wait_s`: until it trains; None: not at all."""
    if place is not None:
        raise InvalidInput(f"{run.name} goes on where it is: leave launcher and address out. On this machine start "
                           "another from it: run.fork(launcher='local').")
    if run.status.alive:
        return _changed(run, changes)
    trust_code = sealed.TRUST.check(trust_code)
    started_there = remote.resume_there(run.directory, changes, trust_code=trust_code)
    if wait_s is not None:
        with closing(Control(run.directory)) as control:
            waiting.until_ready(control, started_there, wait_s, progress=progress)
    return run


def _changed(run: Run, changes: dict[str, Any]) -> Run:
    """A live run with the changes made; says that it was not started again."""
    with_changes(run.config, changes)
    remedy = f", and wb.attach({run.name!r}).resume() ends its pause" if run.state == "paused" else ""
    notify(f"{run.name} is {run.last_status.state} already: it was not started again{remedy}.")
    live = {key: value for key, value in changes.items() if key != "actors"}
    if live:
        run.tune(**live)
    if "actors" in changes:
        run.scale(actors=changes["actors"])
    return run
