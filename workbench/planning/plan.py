"""`plan()`: the machines that a run of a given speed needs, or the speed of given machines; and the fullest part."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

from workbench.config import ALGORITHMS, DEFAULT, settings
from workbench.errors import InvalidInput, OutOfBounds, UnknownName, checked_arguments
from workbench.planning import capacity, limits
from workbench.planning.constants import accelerators, by_size, constant, environment_of, environments, known
from workbench.planning.learner_capacity import UNROLLS_EACH, LearnerCapacity, Rate
from workbench.planning.planned import PARTS, Part, Plan
from workbench.tables import Table

_WHOLE = ("accelerators_per_learner", "group_size", "batch_size", "unroll_length", "parameters", "learner_cores",
          "observation_bytes", "frames_per_step", "cores", "learners")
_MOST = 1e18  # of a number
USUAL_GROUPS = (8, 32, 128)  # environments in a message


@dataclass(frozen=True)
class _EnvironmentNumbers:
    """An environment's numbers, measured or passed to `plan`."""

    frames_per_step: float
    observation_bytes: int
    core_rate: float
    service: str  # subject of the service's numbers in constants.csv
    basis: str


@checked_arguments(fps="Give frames_per_second=...")
def plan(
    environment: str = "ALE/Pong-v5", *, frames_per_second: float | None = None, cores: int | None = None,
    learners: int | None = None, algorithm: str = DEFAULT,
    accelerator: str = "cpu-core", accelerators_per_learner: int = 1, group_size: int | None = None,
    batch_size: int | None = None, unroll_length: int | None = None, parameters: int | None = None,
    utilisation: float = 0.8, latency_ms: float | None = None, nic_gbit: float | None = None,
    learner_cores: int | None = None,
    action_bytes: int = 4, steps_per_core: float | None = None, observation_bytes: int | None = None,
    frames_per_step: int | None = None,
    learner_steps_per_second: float | None = None, service_steps_per_second: float | None = None,
    core_price: float | None = None, accelerator_price: float | None = None,
) -> Plan:
    """Cores, learners, network and money for `frames_per_second`, or the speed that `cores` and `learners` reach.

    Nothing is started or measured: the numbers are those of `workbench/planning/constants.csv`, measured or published,
    with their sources, unless an argument replaces them.

    Args:
        environment: a name; the numbers are its family's, for all of Atari those of Pong.
        frames_per_second: the goal, in emulator frames, action repeats counted.
        cores, learners: the machines, instead of a goal: cores that step environments, and learners (default 1). The
            plan is then for the speed at which the fullest part is as busy as `utilisation` allows.
        accelerator: cpu-core, p100, v100, tpu-v3-core, or any name with `learner_steps_per_second`.
        group_size: environments in one message. Default: the smallest of 8, 32 and 128 at which a core keeps 90 % of
            its best rate and a learner's service is as fast as its accelerators.
        batch_size: unrolls per update of all learners together. Default: 32 for each learner.
        unroll_length: steps of an unroll. Default: the algorithm's.
        parameters: of the network, for the averaging of gradients. Default: Mnih et al. 2015.
        utilisation: largest share of its capacity that any part may use; queues grow without bound towards 1.
        latency_ms: from sending a group's observations to receiving its actions; decides the groups of an actor.
        nic_gbit: of one learner's network card.
        learner_cores: CPU cores of each learner beside its accelerators: one serves, one trains, the rest is slack.
            Default: 4, or 1 where the accelerators are cores themselves.
        action_bytes: of one action on the wire.
        steps_per_core, learner_steps_per_second: of one core that steps, of one accelerator that acts and trains.
        service_steps_per_second: capacity of one learner's inference service.
        core_price, accelerator_price: $/h; 0 for machines that cost nothing.

    Raises:
        UnknownName: no such algorithm; numbers of this environment or accelerator are neither known nor given.
        OutOfBounds: a number that is not positive, or a utilisation above 1.
        InvalidInput: both a speed and machines are given, or neither.
    """
    if not isinstance(environment, str):
        raise InvalidInput(f"environment={environment!r:.100} must be a name, such as 'ALE/Pong-v5'.")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise UnknownName.among("algorithm", str(algorithm), ALGORITHMS)
    if unroll_length is None:
        unroll_length = int(settings(ALGORITHMS[algorithm])["unroll_length"].default)
    _check_question(frames_per_second, cores, learners)
    _check(frames_per_second=frames_per_second, cores=cores, learners=learners, group_size=group_size,
           accelerators_per_learner=accelerators_per_learner, batch_size=batch_size, unroll_length=unroll_length,
           parameters=parameters, utilisation=utilisation, latency_ms=latency_ms, nic_gbit=nic_gbit,
           action_bytes=action_bytes, steps_per_core=steps_per_core, observation_bytes=observation_bytes,
           frames_per_step=frames_per_step, learner_steps_per_second=learner_steps_per_second,
           service_steps_per_second=service_steps_per_second, learner_cores=learner_cores or None,
           core_price=core_price or None, accelerator_price=accelerator_price or None)
    _check_known(environment, steps_per_core, observation_bytes, frames_per_step)
    rate = _rate(accelerator, algorithm, environment, learner_steps_per_second).times(accelerators_per_learner)
    n = group_size or _group_size(environment, rate.both)
    cores_each = learner_cores if learner_cores is not None else 1 if accelerator == "cpu-core" else 4
    env = _environment_numbers(environment, n, steps_per_core, observation_bytes, frames_per_step)
    service = service_steps_per_second or capacity.service_rate(by_size(env.service, "steps_per_second"), n)
    up, down = capacity.step_bytes(env.observation_bytes, action_bytes, n, wire_share=known("network", "wire_share"))
    card = (nic_gbit or known("network", "gigabits_per_second")) * 1e9 / 8
    learner = LearnerCapacity(service, rate, up, card, int(parameters or known("nature", "parameters")), batch_size,
                      unroll_length)
    if frames_per_second is None:
        assert cores is not None  # see _check_question
        learners = learners or 1
        steps = utilisation * min(cores * env.core_rate, learner.most(learners))
    else:
        steps = frames_per_second / env.frames_per_step
        learners = learner.count_for(steps, utilisation)
        cores = max(learners, capacity.count_for(steps, env.core_rate, utilisation))  # each learner needs an actor
    groups = capacity.groups_for(env.core_rate, n, (latency_ms or known("inference", "latency_ms")) / 1e3)
    rows = [("actor cores", cores, cores * env.core_rate, env.basis),
            ("learners' services", learners, learners * service,
             "given" if service_steps_per_second else f"measured at {_sizes_of(env.service)} in a message"),
            (f"accelerators ({accelerator})", learners * accelerators_per_learner, learners * learner.trained(learners),
             rate.basis),
            ("learners' network cards", learners, card / learner.card_bytes(learners),
             f"{card * 8 / 1e9:g} Gbit/s each")]
    parts = [Part(name, count, carried * env.frames_per_step, steps / carried, basis)
             for name, count, carried, basis in rows]
    price, accelerator_hour = _prices(accelerator, core_price, accelerator_price)
    hourly = None if accelerator_hour is None else (
        (cores + learners * cores_each) * price + learners * accelerators_per_learner * accelerator_hour)
    batch, speed = learner.batch(learners), frames_per_second or steps * env.frames_per_step
    return Plan(
        environment=environment, algorithm=algorithm, accelerator=accelerator, frames_per_second=speed,
        steps_per_second=steps, cores=cores, groups=groups, group_size=n, environments=cores * groups * n,
        learners=learners, accelerators=learners * accelerators_per_learner, learner_cores=learners * cores_each,
        batch_size=batch, unroll_length=unroll_length, updates_per_second=steps / (batch * unroll_length),
        update_ms=1e3 * batch * unroll_length / learners / rate.training,
        averaging_ms=1e3 * learner.reduce_s(learners), gigabits_per_second=steps * (up + down) * 8 / 1e9,
        learner_gigabits_per_second=steps * learner.card_bytes(learners) * 8 / 1e9, dollars_per_hour=hourly,
        dollars_per_billion_frames=None if hourly is None else hourly * 1e9 / speed / 3600,
        parts=Table(parts, PARTS, empty=""),
        limits=limits.of(actors=cores, learners=learners, parameters=learner.parameters),
        notes=tuple(_notes(environment, cores, cores * groups * n, learner, learners, n, env.service,
                           bool(service_steps_per_second), steps)),
    )


def _check_question(speed: float | None, cores: int | None, learners: int | None) -> None:
    """Raises InvalidInput unless either a speed or machines are given."""
    if (speed is None) == (cores is None) or (learners is not None and cores is None):
        raise InvalidInput("ask either what a speed takes, with frames_per_second=1e6, or how fast machines are, with "
                           "cores=64 and learners=1.")


def _check(**numbers: float | None) -> None:
    """Raises OutOfBounds for a number that is not positive, or beyond any machine."""
    for name, value in numbers.items():
        if value is None:
            continue
        most = math.inf if name == "service_steps_per_second" else _MOST  # infinite: a service that costs nothing
        if isinstance(value, bool) or not isinstance(value, Real) or not 1 / _MOST <= value <= most:
            raise OutOfBounds(f"{name}={value!r} must be a number above 0, from {1 / _MOST:g} to {most:g}.")
        if name in _WHOLE and value != int(value):
            raise OutOfBounds(f"{name}={value!r} must be a whole number.")
        if name == "utilisation" and value > 1:
            raise OutOfBounds(f"utilisation={value!r} is a share: it must lie in (0, 1].")


def _check_known(name: str, *numbers: float | None) -> None:
    """Raises UnknownName for an environment whose numbers are neither known nor all given."""
    if environment_of(name) is None and None in numbers:
        raise UnknownName.among("environment with measured numbers", name, environments(),
                                "Or give steps_per_core=, observation_bytes= and frames_per_step=.")


def _environment_numbers(
    name: str, n: int, rate: float | None, observation: int | None, frames: int | None
) -> _EnvironmentNumbers:
    """The environment's numbers: the arguments, else those of constants.csv."""
    of = environment_of(name)
    if of is None:
        assert rate and observation and frames  # see _check_known
        return _EnvironmentNumbers(frames, observation, rate, "service without stacking", "given")
    stacked = known(of, "frames_stacked") > 1
    core_rate = rate or capacity.core_rate(by_size(of, "steps_per_core"), n)
    basis = "given" if rate else f"{core_rate:,.0f} steps/s a core on {_measured(of)}"
    return _EnvironmentNumbers(
        frames or known(of, "frames_per_step"), observation or int(known(of, "observation_bytes")), core_rate,
        "service" if stacked else "service without stacking", basis)


def _group_size(environment: str, learner_rate: float) -> int:
    """The smallest usual size at which neither the core nor the learner's service loses much."""
    of = environment_of(environment)
    measured = by_size(of, "steps_per_core") if of else {1: 1.0}
    stacked = of is not None and known(of, "frames_stacked") > 1
    service = by_size("service" if stacked else "service without stacking", "steps_per_second")
    best = max(measured.values())
    fit = (n for n in USUAL_GROUPS if capacity.core_rate(measured, n) >= 0.9 * best
           and capacity.service_rate(service, n) >= learner_rate)
    return next(fit, USUAL_GROUPS[-1])


def _measured(of: str) -> str:
    """The environment on which the numbers of `of` were measured, and when."""
    size = next(iter(by_size(of, "steps_per_core")))
    row = constant(of, "steps_per_core", str(size))
    return row.source.partition(": ")[2] if row and row.source.startswith("benchmarks/") else "published figures"


def _sizes_of(service: str) -> str:
    return " and ".join(str(size) for size in by_size(service, "steps_per_second"))


def _rate(accelerator: str, algorithm: str, environment: str, steps_per_second: float | None) -> Rate:
    """The capacity of one accelerator. Raises UnknownName or InvalidInput if it is neither known nor given."""
    if steps_per_second is not None:
        return Rate.of_both(steps_per_second, "given")
    at = f"{algorithm} {environment_of(environment) or environment}"
    both = constant(accelerator, "learner_steps_per_second", at)
    if both is not None:
        return Rate.of_both(both.value, both.source)
    inference = constant(accelerator, "inference_steps_per_second", at)
    training = constant(accelerator, "training_steps_per_second", at)
    if inference is not None and training is not None:
        return Rate(inference.value, training.value, training.source.partition(":")[0])
    if accelerator not in accelerators():
        raise UnknownName.among("accelerator with measured numbers", accelerator, accelerators(),
                                "Or give learner_steps_per_second=, of one that acts and trains.")
    raise InvalidInput(f"nobody has measured {algorithm} on {environment} on a {accelerator}: give "
                       "learner_steps_per_second=, of one that acts and trains.")


def _prices(accelerator: str, core_price: float | None, accelerator_price: float | None) -> tuple[float, float | None]:
    """$/h of a core and of an accelerator; None: unknown."""
    listed = constant(accelerator, "dollars_per_hour")
    return (known("cpu-core", "dollars_per_hour") if core_price is None else core_price,
            accelerator_price if accelerator_price is not None else listed.value if listed else None)


def _notes(environment: str, cores: int, environments: int, learner: LearnerCapacity, learners: int, n: int,
           service: str, service_given: bool, steps: float) -> list[str]:
    notes = []
    largest = max(by_size(service, "steps_per_second"))
    if not service_given and n > largest:
        notes.append(f"the service was measured up to {largest} environments a message; {n} is extrapolated")
    batch = learner.batch(learners)
    if batch != (learner.batch_size or UNROLLS_EACH):
        notes.append(f"batch_size {batch:,}: each of {learners:,} learners trains on as many unrolls; the learning "
                     "rate may have to follow")
    notes += limits.notes(actors=cores, learners=learners, steps_per_second=steps, environments=environments,
                          inference=learner.rate.inference,
                          update_s=batch * learner.unroll_length / learners / learner.rate.training)
    notes.append("bounds: everything is taken to be spread evenly, on cores like those that were measured; prices are "
                 "SEED RL's of 2019 unless given")
    if environment.startswith("dmlab/"):
        notes.append("DeepMind Lab's figures are SEED RL's own, with one environment a message")
    return notes
