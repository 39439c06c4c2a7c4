"""A run's learner and actors on a Ray cluster.

The supervisor is a Ray driver of its own: the hosts that it makes belong to its job and end with it. All learners are
placed together (`learners_group`), with the supervisor beside the first; actors are spread over the nodes, and the host
of one that is scaled away is released. A host that is lost with its node is made again, wherever there is room, when
the back-off of its process is over.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import time
from contextlib import suppress
from typing import Any

from workbench.config import RunConfig
from workbench.rundir import RunDirectory, sealed, untried
from workbench.rundir.files import tail, to_append
from workbench.rundir.record_folder import identity
from workbench.supervisor.hosts import node_versions
from workbench.supervisor.hosts.host import Resources
from workbench.supervisor.hosts.life import Life, ProcessEnding
from workbench.supervisor.hosts.node_versions import NOTEBOOK, read
from workbench.supervisor.hosts.ray_actor import (
    ADDRESS,
    NAMESPACE,
    Task,
    host_address,
    host_options,
    inherited,
    node_id,
    title,
    token_digest,
)
from workbench.supervisor.machines.ray_notices import Seat
from workbench.wire.endpoints import SUPERVISOR, learner_name

_ADDRESSES_S = 0.5  # between two reads of the addresses of learners
_KILLED_S = 5.0  # for a host to report the death of its process, before the host is killed
_LOST_S = 15.0  # for Ray to report the death of a killed host
_GB = 10**9
_TAIL_BYTES = 4000


def connected(address: str) -> None:
    """Make this process a driver of the cluster. Raises ConnectionError where none answers."""
    import ray

    ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.WARNING)


class RayPlace:
    """Children as processes on the nodes of a Ray cluster; see `Place`.

    Attributes:
        children: the newest of each name.
        notebook: the versions of the notebook that launched the run.
    """

    def __init__(self, run: RunDirectory) -> None:
        connected(os.environ[ADDRESS])
        self.run = run
        self._config = run.config()
        self._learners = get_group(group_name(run))
        self._published: dict[str, bytes] = {}
        self._published_at = 0.0
        self.children: dict[str, RemoteChild] = {}
        self.notebook = read(os.environ.get(NOTEBOOK, ""))

    def learner(self, rank: int, *, threads: int) -> RemoteChild:
        task = Task(learner_name(rank), str(self.run.path), ("_learner", "RUN", str(rank)), token_digest(self.run),
                    threads, inherited())
        return self._child(task, in_group(self._learners, rank), granted(self._learners, rank))

    def actor(self, index: int) -> RemoteChild:
        task = Task(f"actor-{index}", str(self.run.path), ("_actor", "RUN", str(index)), None, 1,
                    {name: value for name, value in inherited().items() if name != "WORKBENCH_HOME"})
        return self._child(task, "SPREAD", Resources.of_actor(self._config))

    def _child(self, task: Task, strategy: Any, resources: Resources) -> RemoteChild:
        self.children[task.name] = RemoteChild(task, self, strategy, resources)
        return self.children[task.name]

    def seats(self) -> dict[str, Seat]:
        """See `ray_notices.WatchedCluster`; without processes whose node is not known yet."""
        seats = {SUPERVISOR: Seat(node_id(), host_address(), node_versions.here())}
        return seats | {name: seat for name, child in list(self.children.items())
                        if child.alive and (seat := child.seat) is not None}

    def draining(self) -> dict[str, int]:
        """See `ray_notices.WatchedCluster`. Raises what Ray raises; AttributeError for a Ray that has no such call."""
        from ray._private.state import state  # Ray has no public call; its own Train asks here

        return dict(state.get_draining_nodes())

    def without_gpu(self) -> str | None:
        """See `ray_notices.WatchedCluster`."""
        return without_gpu(self._config, granted(self._learners, 0), coming=_gpus_to_come())

    def bundle(self) -> dict[str, bytes]:
        """The files of the run directory that an actor needs, by path in it."""
        run = self.run
        code = {f"code/{name}": path for name, path in untried.loaded(run).items() if name != sealed.ADDRESS}
        paths = [run.record, run.path / "token", run.certificate]
        files = {str(path.relative_to(run.path)): path for path in paths} | code
        return {name: path.read_bytes() for name, path in files.items()} | self.published()

    def published(self) -> dict[str, bytes]:
        """The addresses of the learners, as files of the bundle; read again every half second."""
        if time.monotonic() - self._published_at >= _ADDRESSES_S:
            self._published_at = time.monotonic()
            with suppress(OSError):
                self._published = {f"endpoints/{path.name}": path.read_bytes()
                                   for path in sorted(self.run.endpoints.glob("learner*.json"))}
        return self._published


class RemoteChild(Life):
    """One process of a run in a host on some node, through all its lives. No method waits for the cluster.

    Args:
        strategy: Ray's scheduling strategy for its hosts.

    Attributes:
        seat: its node; None while that is not known.
    """

    def __init__(self, task: Task, place: RayPlace, strategy: Any, resources: Resources) -> None:
        super().__init__(task.name)
        self.seat: Seat | None = None
        self._task, self._place, self._strategy, self._resources = task, place, strategy, resources
        self._actor: Any = None
        self._life: Any = None  # the reference to this life's end
        self._where: Any = None
        self._pid: int | None = None
        self._sent_addresses: dict[str, bytes] = {}
        self._tail = ""
        self._leaves = False
        self._give_up_at = float("inf")

    @property
    def alive(self) -> bool:
        return self._life is not None

    @property
    def pid(self) -> int | None:
        """See `Life`; None until its node has reported it."""
        if self._life is not None and self._pid is None and _is_ready(self._where):
            with suppress(Exception):
                answer = _result(self._where)
                self._pid = answer["pid"]
                self.seat = Seat(answer["node"], answer["host"], read(answer["versions"]))
        return self._pid if self.alive else None

    def waits_for(self) -> str:
        waits = self.alive and self.pid is None
        return f"a start on a node of the cluster with {self._resources} to spare" if waits else ""

    def start_if_due(self) -> bool:
        return not self.alive and self.back_off.started(self._start)

    def _start(self) -> None:
        files = self._place.bundle() if self._task.token is None else {}
        if self._actor is None:
            name = f"{title(self.name, self._task.run)} {secrets.token_hex(4)}"  # a name is free once its host is gone
            self._actor = _options(self._resources, self._strategy, name=name).remote(self._task)
        (self._place.run.logs / f"{self.name}.log").touch(mode=0o600)  # an actor's comes from its node when a life ends
        self._sent_addresses = self._place.published()
        self._life = self._actor.live.remote(files, first=self.restarts < 0)
        self._where, self._pid, self.seat = self._actor.where.remote(), None, None
        self._began()
        self._leaves = False
        self._give_up_at = float("inf")

    def poll(self) -> ProcessEnding | None:
        if self._life is None:
            return None
        now = time.monotonic()
        if now > self._kill_at:
            self.kill()
        if not _is_ready(self._life) and now <= self._give_up_at:
            self._send_addresses()
            return None
        return self._finish_life()

    def _send_addresses(self) -> None:
        addresses = self._place.published()
        if self._task.token is None and addresses != self._sent_addresses:
            self._sent_addresses = addresses
            self._actor.put.remote(addresses)

    def _finish_life(self) -> ProcessEnding:
        """How this life ended; its log is stored, and its host is released where it does not stay."""
        try:
            answer = _result(self._life)
            code, error, lost = answer["code"], answer["error"], ""
            self._store_log(answer["log"])
        except Exception as loss:
            code, error, lost = -signal.SIGKILL, None, _loss(loss, self.seat)
        never_lived = self.pid is None  # and `where` would take one of the host's threads for good
        self._life = None
        if lost or self._leaves or never_lived:
            self._release()
        return self._ended(code, error, lost=lost)

    def _release(self) -> None:
        """End the host, which returns its place."""
        actor, self._actor = self._actor, None
        with suppress(Exception):
            actor.leave.remote()

    def _store_log(self, new: bytes) -> None:
        if new:
            self._tail = new[-_TAIL_BYTES:].decode(errors="replace")
            with suppress(OSError), to_append(self._place.run.logs / f"{self.name}.log") as file:
                file.write(new)

    def end(self, grace_s: float) -> None:
        self._leaves = True
        if self._life is None and self._actor is not None:
            self._release()  # which would wait for its next life
        if self._life is None or self._asked_to_end:
            return
        self.expect_end(grace_s)
        if self.pid is None:
            self._kill_host()
        else:
            self._actor.end.remote(grace_s)

    def kill(self) -> None:
        if self._life is None:
            return
        if self.pid is None or self._give_up_at < float("inf"):
            self._kill_host()
            return
        self._actor.kill.remote()
        self._kill_at = time.monotonic() + _KILLED_S
        self._give_up_at = time.monotonic() + _LOST_S

    def _kill_host(self) -> None:
        """Kill a host that waits for a place or does not answer; its process notices that, and ends."""
        import ray

        self._kill_at = float("inf")
        self._give_up_at = min(self._give_up_at, time.monotonic() + _LOST_S)
        with suppress(Exception):
            ray.kill(self._actor)

    def log_tail(self) -> str:
        if self._task.token is None:
            return self._tail
        return tail(self._place.run.logs / f"{self.name}.log")


def group_name(run: RunDirectory) -> str:
    """The name, in our namespace, of the placement group of the run's supervisor and learners in all its lives."""
    return group_prefix(run.name) + identity(run.path, run.read()["created"])


def group_prefix(name: str) -> str:
    """How the `group_name` of each run of that name begins."""
    return f"learners of {name} "


def learners_group(run: RunDirectory) -> tuple[Any, Resources]:
    """The requested placement group of supervisor and learners, and its resources for each learner.

    It outlives the process that requests it; the supervisor's host removes it at the run's end.
    """
    config = run.config()
    resources = Resources.of_learner(config, spare_gpus=_gpus() / config.learners)
    return _group([resources] * config.learners, name=group_name(run), lifetime="detached"), resources


def get_group(name: str) -> Any:
    """The placement group of that name. Raises ValueError if there is none."""
    import ray

    return ray.util.get_placement_group(name)


def in_group(group: Any, bundle: int) -> Any:
    """The scheduling strategy for a place in that bundle."""
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    return PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=bundle)


def _group(bundles: list[Resources], **more: Any) -> Any:
    """A requested placement group: the cluster grants all of it at once, sooner or later."""
    import ray

    requests = [_request(resources) or {"CPU": 0.001} for resources in bundles]
    return ray.util.placement_group(requests, strategy="PACK", **more)


def granted(group: Any, bundle: int) -> Resources:
    """The resources of a bundle of the group."""
    spec = group.bundle_specs[bundle]
    return Resources(spec.get("CPU", 0.0), spec.get("GPU", 0.0), spec.get("memory", 0.0) / _GB)


def without_gpu(config: RunConfig, granted: Resources, *, coming: float) -> str | None:
    """That learners which take a GPU if there is one got none, and what to do; `coming`: GPUs of an autoscaler."""
    if config.device != "auto" or config.learner_gpus is not None or granted.gpus:
        return None
    more = f" its autoscaler can start {coming:g};" if coming else ""
    return (f"the cluster had no GPU for each learner at the launch, so training runs on CPUs;{more} learner_gpus=1 "
            "asks for one, and waits for it")


def _request(resources: Resources) -> dict[str, float]:
    """Resources in Ray's names and units, without those that are 0."""
    request = {"CPU": resources.cpus, "GPU": resources.gpus, "memory": resources.memory_gb * _GB}
    return {name: value for name, value in request.items() if value}


def _options(resources: Resources, strategy: Any, *, name: str) -> Any:
    return host_options(name=name, num_cpus=resources.cpus, num_gpus=resources.gpus,
                        memory=resources.memory_gb * _GB or None, scheduling_strategy=strategy, max_restarts=0)


def _gpus() -> float:
    import ray

    return float(ray.cluster_resources().get("GPU", 0.0))


def _gpus_to_come() -> float:
    """GPUs that the cluster's autoscaler may start; 0 where it has published no configuration."""
    with suppress(Exception):  # no public call of Ray's says it
        from ray._private.state import state

        return float((state.get_max_resources_from_cluster_config() or {}).get("GPU", 0.0))
    return 0.0


def _is_ready(reference: Any) -> bool:
    import ray

    return bool(ray.wait([reference], timeout=0)[0])


def _result(reference: Any) -> Any:
    import ray

    return ray.get(reference, timeout=0.5)


def _loss(error: Exception, seat: Seat | None) -> str:
    at = f" {seat.host}" if seat is not None else ""
    return f"the loss of its node{at} or of its host there ({type(error).__name__})"
