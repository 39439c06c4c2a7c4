"""From outside of a cluster, as Ray's client: where a run is, and the reader that shows it (`reader`)."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any, NamedTuple

from workbench.errors import ConnectionLost, InvalidInput, RunFailed, RunNotFound, lines_of, nearest
from workbench.launchers.ray.run_reader import RunReader, look
from workbench.supervisor.hosts import node_versions
from workbench.supervisor.hosts.ray import group_prefix

_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}"
_WHERE = r"[A-Za-z0-9.:\[\]_-]{1,300}:\d{1,5}"
_ADDRESS = re.compile(rf"ray://(?P<where>{_WHERE})/(?P<name>{_PART}|(/\.?{_PART}){{1,50}})/?", re.ASCII)
_CALLS_AT_ONCE = 16
_LOOK_S = 60.0  # for the nodes to look, each of which may have to start a process first


class RunPlace(NamedTuple):
    """A run's directory, and the id of a node that sees it."""

    path: str
    node: str


def parted(address: str) -> tuple[str, str]:
    """The cluster, "ray://HOST:PORT", and the run's name or directory. Raises InvalidInput."""
    if match := _ADDRESS.fullmatch(str(address)):
        return f"ray://{match['where']}", match["name"].rstrip("/")
    raise InvalidInput(f"{address!r:.300} is no address of a run on a cluster. Give ray://HOST:PORT/NAME, with the "
                       "port of Ray's client (10001), or ray://HOST:PORT//DIRECTORY/OF/THE/RUN.")


def place_of(address: str, *, known: str | None) -> RunPlace:
    """Where the run at `address` is: beside its supervisor, or else where a node sees its directory.

    `known`: the directory in which it was before. Raises RunNotFound, InvalidInput where several runs have the name.
    """
    cluster, name = parted(address)
    places = _alive(name)
    names: list[str] = []
    if not places:
        places, names = _on_nodes(name, known)
    if len({place.path for place in places}) > 1 and known is not None:
        places = [place for place in places if place.path == known] or places
    paths = sorted({place.path for place in places})
    if len(paths) > 1:
        raise InvalidInput(f"{cluster} has several runs {name!r}: in {', '.join(paths)}. Give the directory of one: "
                           f"wb.attach('{cluster}/{paths[0]}').")
    if not places:
        raise RunNotFound(f"no run {name!r} is alive on {cluster}, and no node has one in its home."
                          f"{nearest(name, names)} One that has ended elsewhere is found by its directory there: "
                          f"wb.attach('{cluster}//home/me/runs/{name.rpartition('/')[2]}').")
    return places[0]


def _alive(name: str) -> list[RunPlace]:
    """The places of the supervisors that live, of runs of that name or directory."""
    import ray

    last = name.rpartition("/")[2]
    hosts = [actor for actor in ray.util.list_named_actors() if actor.startswith(group_prefix(last))]
    places = []
    for host in hosts:
        with suppress(Exception):  # it waits for a place, or ends in this moment: it may be found on a node
            told = ray.get(ray.get_actor(host).place.remote(), timeout=_LOOK_S)
            if "/" not in name or told["path"] == name:
                places.append(RunPlace(told["path"], told["node"]))
    return places


def _on_nodes(name: str, known: str | None) -> tuple[list[RunPlace], list[str]]:
    """Where nodes see runs of that name or directory, and the names of all their runs. Raises RunFailed for nodes with
    another version of the workbench, ConnectionLost if none answers."""
    import ray

    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    options = {"num_cpus": 0, "max_retries": 0}
    looking = {ray.remote(look).options(**options, scheduling_strategy=on_node(node)).remote(name, known): node
               for node in nodes}
    ready, _ = ray.wait(list(looking), num_returns=len(looking), timeout=_LOOK_S)
    places, names, problems = list[RunPlace](), list[str](), list[str]()
    for reference in ready:
        try:
            seen = json.loads(ray.get(reference))
        except Exception as error:
            problems.append(lines_of(error)[-1])
            continue
        check_versions(looking[reference], seen["versions"])
        places += [RunPlace(run["path"], looking[reference]) for run in seen["runs"]]
        names += seen["names"]
    if not places and problems:
        raise ConnectionLost(f"not every node of the cluster could look for {name!r}: {problems[0]:.300}. All need "
                             f"this version of the workbench, {node_versions.here().workbench}.")
    return places, sorted(set(names))


def on_node(node: str) -> Any:
    """Ray's strategy for a place on that node alone."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node_id=node, soft=False)


def check_versions(node: str, versions: str) -> None:
    """Raises RunFailed where that node has another version of the workbench than this machine."""
    there, here = node_versions.read(versions), node_versions.here()
    if problem := node_versions.refusal(node, there, here, has_cells=False):
        raise RunFailed(problem)


def reader_at(place: RunPlace) -> Any:
    """A reader of that run, on that node; it ends with this process."""
    import ray

    return ray.remote(RunReader).options(
        num_cpus=0, max_concurrency=_CALLS_AT_ONCE, scheduling_strategy=on_node(place.node)).remote(place.path)
