"""Configuration: frozen dataclasses whose fields carry default, unit, bounds, live-or-not and source.

The command line, sliders, validation and the docs table all read `settings(...)`; nothing repeats a bound.
A run's configuration is a `RunConfig` that holds the configuration of its algorithm. Both are flat to the user:
`RunConfig.build("CartPole-v1", actors=1, learning_rate=1e-3)`.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from workbench.errors import NotLive, OutOfBounds, UnknownName


@dataclass(frozen=True)
class Setting:
    """One field of a configuration, as people see it.

    Attributes:
        name: field name, as written in `launch(...)` and `tune(...)`.
        kind: `bool`, `int`, `float`, `str` or `dict`.
        low, high: inclusive bounds of a number, or None.
        choices: allowed values of a string, or ().
        live: whether `tune` may change it while the run learns.
        scale: "log" where a slider should be logarithmic, else "linear".
        optional: whether None is allowed.
    """

    name: str
    kind: type
    default: Any
    help: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    live: bool = False
    scale: str = "linear"
    source: str = ""
    optional: bool = False

    def check(self, value: Any) -> Any:
        """`value` in the field's type. Raises OutOfBounds with the name, the value and what is allowed."""
        if value is None and self.optional:
            return None
        value = self._typed(value)
        if self.kind in (int, float):
            self._check_bounds(value)
        if self.choices and value not in self.choices:
            raise OutOfBounds(f"{self.name}={value!r} is not one of {', '.join(map(repr, self.choices))}.")
        return value

    def _typed(self, value: Any) -> Any:
        accepted = {float: (int, float), int: (int,), bool: (bool,), str: (str,), dict: (dict,)}[self.kind]
        if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
            value = value.item()  # a NumPy scalar
        if self.kind is int and isinstance(value, float) and value.is_integer():
            value = int(value)  # total_frames=1e7
        if not isinstance(value, accepted) or (isinstance(value, bool) and self.kind is not bool):
            given = type(value).__name__
            raise OutOfBounds(f"{self.name}={value!r} must be of type {self.kind.__name__}, not {given}.")
        return self.kind(value)

    def _check_bounds(self, value: float) -> None:
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        if not low <= value <= high:  # also refuses NaN
            unit = f" {self.unit}" if self.unit else ""
            raise OutOfBounds(f"{self.name}={value!r} is out of bounds: it must lie in [{low:g}, {high:g}]{unit}.")


def setting(default: Any, help: str, **more: Any) -> Any:
    """A dataclass field with the metadata of a `Setting`."""
    metadata = {"help": help, **more}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


_KINDS: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str, "dict": dict}


def settings(config: type) -> dict[str, Setting]:
    """The settings of a configuration class by name, in order of declaration."""
    found = {}
    for field in dataclasses.fields(config):
        if "help" not in field.metadata:
            continue
        kind, _, rest = str(field.type).partition(" | ")
        default = {} if field.default is dataclasses.MISSING else field.default
        found[field.name] = Setting(
            field.name, _KINDS[kind.split("[")[0]], default, optional=rest == "None", **field.metadata
        )
    return found


def _validate(config: Any) -> None:
    for name, one in settings(type(config)).items():
        object.__setattr__(config, name, one.check(getattr(config, name)))


@dataclass(frozen=True)
class VTraceConfig:
    """Hyperparameters of V-trace (IMPALA, Espeholt et al. 2018, arXiv 1802.01561; SEED RL, arXiv 1910.06591)."""

    unroll_length: int = setting(20, "steps trained on per unroll, T", unit="steps", low=1, high=10_000,
                                 source="IMPALA table D.3")
    batch_size: int = setting(32, "unrolls per update, B", unit="unrolls", low=1, high=4096, source="IMPALA table D.3")
    queue_size: int = setting(0, "finished unrolls that may wait for training; 0: one batch", unit="unrolls",
                              low=0, high=100_000, source="SEED vtrace/learner.py has 1")
    discount: float = setting(0.99, "discount γ", low=0.0, high=1.0, live=True, source="IMPALA table D.3")
    lambda_: float = setting(1.0, "trace decay λ", low=0.0, high=1.0, live=True, source="IMPALA remark 2; SEED flag")
    rho_clip: float = setting(1.0, "clip ρ̄ of the importance ratio in the temporal difference", low=0.0, high=1e6,
                              live=True, scale="log", source="IMPALA eq. 1")
    c_clip: float = setting(1.0, "clip c̄ of the importance ratio in the trace", low=0.0, high=1e6, live=True,
                            scale="log", source="IMPALA eq. 1")
    pg_rho_clip: float = setting(1.0, "clip of the importance ratio in the policy gradient", low=0.0, high=1e6,
                                 live=True, scale="log", source="IMPALA section 4.2")
    entropy_cost: float = setting(0.01, "weight of the entropy bonus", low=0.0, high=10.0, live=True, scale="log",
                                  source="IMPALA table D.3")
    target_entropy: float | None = setting(None, "entropy that the weight is adapted to; None: fixed weight",
                                           unit="nats", low=0.0, high=100.0, live=True, source="SEED vtrace/learner.py")
    entropy_cost_speed: float = setting(10.0, "speed at which the entropy weight adapts", low=0.0, high=1000.0,
                                        source="SEED vtrace/learner.py")
    baseline_cost: float = setting(0.5, "weight of the value loss", low=0.0, high=100.0, live=True, scale="log",
                                   source="IMPALA table D.3")
    kl_cost: float = setting(0.0, "weight of KL(behaviour ‖ target)", low=0.0, high=100.0, live=True,
                             source="SEED vtrace/learner.py")
    max_abs_reward: float = setting(1.0, "rewards are clipped to ± this in training; 0: not clipped", low=0.0,
                                    high=1e9, live=True, source="IMPALA table D.3")
    optimizer: str = setting("adam", "optimizer", choices=("adam", "rmsprop"), source="SEED: Adam; IMPALA: RMSProp")
    learning_rate: float = setting(6e-4, "learning rate (at the start, if it decays)", low=0.0, high=1.0, live=True,
                                   scale="log", source="IMPALA table D.3")
    warmup_updates: int = setting(200, "updates in which the learning rate rises from 0; Adam's first steps all "
                                  "point one way and overshoot", unit="updates", low=0, high=1_000_000,
                                  source="arXiv 1706.02677, section 2.2; DECISIONS.md")
    learning_rate_schedule: str = setting("constant", "constant, or linear to 0 at total_frames",
                                          choices=("constant", "linear"), source="SEED dmlab: linear")
    adam_beta1: float = setting(0.9, "Adam's β1", low=0.0, high=0.9999, source="SEED football")
    adam_beta2: float = setting(0.999, "Adam's β2", low=0.0, high=0.999999, source="Adam, arXiv 1412.6980")
    adam_epsilon: float = setting(1e-5, "Adam's ε", low=1e-12, high=1.0, scale="log",
                                  source="arXiv 2006.05990, section 3.6")
    rmsprop_decay: float = setting(0.99, "RMSProp's decay", low=0.0, high=0.9999, source="IMPALA table D.3")
    rmsprop_momentum: float = setting(0.0, "RMSProp's momentum", low=0.0, high=0.9999, source="IMPALA table D.3")
    rmsprop_epsilon: float = setting(1.6e-4, "RMSProp's ε, beside the root", low=1e-12, high=1.0, scale="log",
                                     source="IMPALA table D.3: 0.01 in the root, for sums over 640 steps: √0.01/640")
    max_gradient_norm: float = setting(0.5, "global norm that gradients are clipped to; 0: not clipped", low=0.0,
                                       high=1e6, live=True, scale="log",
                                       source="A2C, PPO (means); IMPALA table D.3 has 40 for a sum over 640 steps")

    def __post_init__(self) -> None:
        _validate(self)


ALGORITHMS: dict[str, type] = {"vtrace": VTraceConfig}

# Names of networks, here because whoever checks a run's input must not load torch; a test compares them.
NETWORKS = (
    "impala-deep", "impala-deep-lstm", "mlp", "mlp-lstm", "nature", "nature-lstm", "small-cnn", "small-cnn-lstm",
)  # fmt: skip


@dataclass(frozen=True)
class RunConfig:
    """Everything that defines a run but the code typed in a notebook cell."""

    environment: str = setting("", "environment name, such as ALE/Pong-v5")
    algorithm: str = setting("vtrace", "algorithm", choices=tuple(ALGORITHMS))
    environment_options: dict[str, Any] = setting({}, "options of the environment's adapter")
    frame_stack: int = setting(0, "frames that the network sees at once; 0: 4 for Atari, else 1", unit="frames", low=0,
                               high=64, source="Mnih et al. 2015")
    network: str | None = setting(None, "network name; None: chosen by the observations")
    actors: int = setting(2, "actor processes (change with scale)", unit="processes", low=1, high=4096)
    envs_per_actor: int = setting(16, "environments per actor", unit="environments", low=1, high=4096)
    groups_per_actor: int = setting(2, "groups in flight per actor: one steps while the others wait for actions",
                                    unit="groups", low=1, high=64, source="Sample Factory's double buffering")
    total_frames: int = setting(10_000_000, "frames after which the run finishes", unit="frames", low=1, high=10**13,
                                live=True)
    seed: int = setting(0, "seed of environments, network and sampling", low=0, high=2**31 - 1)
    device: str = setting("auto", "accelerator of the learner", choices=("auto", "cpu", "cuda", "xla"))
    precision: str = setting("auto", "arithmetic of the network; auto: bf16 where the hardware has it",
                             choices=("auto", "fp32", "bf16"))
    max_batch: int = setting(0, "largest inference batch; 0: half of the environments", unit="environments", low=0,
                             high=65_536, live=True, source="SEED utils.py: num_envs // 2")
    batch_timeout_ms: float = setting(5.0, "longest that a partial inference batch waits for more", unit="ms", low=0.0,
                                      high=10_000.0, live=True)
    learner_threads: int = setting(0, "threads of training on a CPU; 0: chosen by the machine", unit="threads", low=0,
                                   high=256)
    actor_threads: int = setting(1, "threads that step the environments of one actor", unit="threads", low=1, high=256)
    checkpoint_interval_s: float = setting(600.0, "time between checkpoints", unit="s", low=1.0, high=1e7, live=True,
                                           scale="log", source="SEED: 1800 s")
    keep_checkpoints: int = setting(10, "automatic checkpoints kept; those asked for are always kept",
                                    unit="checkpoints", low=1, high=100_000)
    hyperparameters: Any = dataclasses.field(default_factory=VTraceConfig)

    def __post_init__(self) -> None:
        _validate(self)

    @classmethod
    def build(cls, environment: str, *, algorithm: str = "vtrace", **fields: Any) -> RunConfig:
        """A configuration from flat names. Raises UnknownName or OutOfBounds."""
        if algorithm not in ALGORITHMS:
            raise UnknownName.among("algorithm", str(algorithm), ALGORITHMS)
        own, theirs = _split(ALGORITHMS[algorithm], fields)
        return cls(environment=environment, algorithm=algorithm, hyperparameters=ALGORITHMS[algorithm](**theirs), **own)

    def with_live(self, **changes: Any) -> RunConfig:
        """A copy with live fields changed. Raises UnknownName, NotLive or OutOfBounds, and then changes nothing."""
        known = self.all_settings()
        for name in changes:
            if name not in known:
                raise UnknownName.among("hyperparameter", name, known)
            if not known[name].live:
                live = ", ".join(key for key, one in known.items() if one.live)
                raise NotLive(f"{name} is fixed once a run has started. Fork the run with {name}={changes[name]!r}, "
                              f"or change a live field: {live}.")
        return self.replaced(**changes)

    def replaced(self, **changes: Any) -> RunConfig:
        """A copy with any fields changed, by flat names. Raises UnknownName or OutOfBounds."""
        own, theirs = _split(type(self.hyperparameters), changes)
        return dataclasses.replace(self, **own, hyperparameters=dataclasses.replace(self.hyperparameters, **theirs))

    def all_settings(self) -> dict[str, Setting]:
        """Settings of the run and of its algorithm, by flat name."""
        return {**settings(type(self.hyperparameters)), **settings(type(self))}

    def value(self, name: str) -> Any:
        """The value of the field of that flat name."""
        holder = self.hyperparameters if hasattr(self.hyperparameters, name) else self
        return getattr(holder, name)

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` is its inverse."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RunConfig:
        """The configuration that `to_json` wrote. Raises UnknownName or OutOfBounds for anything else."""
        rest = {key: value for key, value in data.items() if key != "hyperparameters"}
        return cls.build(**{**rest, **data["hyperparameters"]})


def _split(algorithm: type, fields: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """`fields` divided into those of the run and those of the algorithm."""
    own, theirs = settings(RunConfig), settings(algorithm)
    for name in fields:
        if name not in own and name not in theirs:
            raise UnknownName.among("hyperparameter", name, [*own, *theirs])
    return ({k: v for k, v in fields.items() if k in own}, {k: v for k, v in fields.items() if k in theirs})
