"""The configuration of a run: its own fields and those of its algorithm, under flat names."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from workbench.config.algorithms import ALGORITHMS, DEFAULT, unknown_algorithm
from workbench.config.hyperparameters import DemonstrationsConfig, LearningConfig, ReplayConfig
from workbench.config.own_algorithm import config_class
from workbench.config.ports import check_ports
from workbench.config.settings import SYNONYMS, Setting, setting, settings, validate
from workbench.errors import InvalidInput, NamesNearest, NotLive, OutOfBounds, UnknownName, WorkbenchError

# Names of networks. They stand here because validation must not load torch; a test compares them with the registry.
NETWORKS = (
    "football", "football-lstm", "impala-deep", "impala-deep-lstm", "impala-shallow", "impala-shallow-lstm", "mlp",
    "mlp-256", "mlp-256-lstm", "mlp-lstm", "nature", "nature-lstm", "small-cnn", "small-cnn-lstm",
)  # fmt: skip

_NETWORKS_ELSEWHERE = {
    "MlpPolicy": "mlp", "CnnPolicy": "nature", "MlpLstmPolicy": "mlp-lstm", "CnnLstmPolicy": "nature-lstm",
}  # fmt: skip

# Fields on which weights depend: a fork cannot change them.
WEIGHT_FIELDS = (
    "environment", "environment_options", "wrappers", "frame_stack", "algorithm", "own_algorithm", "network",
    "lstm_size", "dueling_size", "critic_size", "value_rescaling", "value_rescaling_epsilon", "normalize_observations",
    "normalize_values", "normalize_rewards",
)  # fmt: skip
LISTING = "run.hyperparameters lists the fields that can be changed."
REPLAY_S = 1800.0  # enough to write a large replay to a slow disk


@dataclass(frozen=True, repr=False)
class RunConfig(NamesNearest):
    """Everything that defines a run, except code typed in a notebook cell."""

    environment: str = setting("", "environment name, such as ALE/Pong-v5")
    algorithm: str = setting(DEFAULT, f"{', '.join(ALGORITHMS)}, or a class of your own")
    own_algorithm: dict[str, Any] = setting({}, "hyperparameters of an algorithm that a user wrote; "
                                            "launch(algorithm=...) sets it, and its code lies with the run")
    environment_options: dict[str, Any] = setting({}, "options of the environment's adapter")
    wrappers: str = setting("", "names of the wrappers around each environment, innermost first; "
                            "launch(wrappers=[...]) sets it, and their code lies with the run")
    frame_stack: int = setting(0, "frames that the network sees at once; 0: as the environment has it, 4 for Atari",
                               unit="frames", low=0, high=64, source="Mnih et al. 2015")
    network: str | None = setting(None, f"{', '.join(name for name in NETWORKS if not name.endswith('-lstm'))}, each "
                                  "also with -lstm after it; None: chosen by the observations")
    actors: int = setting(2, "actor processes (change with scale)", unit="processes", low=1, high=4096)
    envs_per_actor: int = setting(16, "environments per actor", unit="environments", low=1, high=4096)
    groups_per_actor: int = setting(2, "groups in flight per actor: one steps while the others wait for actions",
                                    unit="groups", low=1, high=64, source="Sample Factory's double buffering")
    total_frames: int = setting(10_000_000, "frames after which the run finishes", unit="frames", low=1, high=10**13,
                                live=True, group="stop rules")
    max_hours: float | None = setting(None, "hours after which the run finishes, pauses included; None: no limit",
                                      unit="h", low=1e-4, high=1e6, live=True, group="stop rules")
    price_per_hour: float = setting(0.0, "hourly price of the machines, in any currency", unit="per hour", low=0.0,
                                    high=1e9, live=True, group="system")
    spot: str = setting("", "cloud whose spot machine the run lives on: its notice that it takes the machine back "
                        "makes a checkpoint in time", choices=("", "aws", "gcp", "azure"))
    max_cost: float | None = setting(None, "cost at which the run finishes, in the currency of price_per_hour; None: "
                                     "no limit", low=1e-6, high=1e12, live=True, group="stop rules")
    target_return: float | None = setting(
        None, "mean return at which the run finishes: of the last 100 episodes (of one for each environment, if there "
        "are more), 20 at least, of environments that evaluate, if any do; None: it goes on",
        low=-1e12, high=1e12, live=True, group="stop rules")
    target_score: float | None = setting(
        None, "mean score at which the run finishes, as target_return, where the environment tells a score; None: it "
        "goes on", low=-1e12, high=1e12, live=True, group="stop rules")
    patience_frames: int | None = setting(None, "frames without a higher mean return after which the run finishes; "
                                          "None: it goes on", unit="frames", low=1, high=10**13,
                                          live=True, group="stop rules")
    opponent: str | None = setting(None, "checkpoint that plays some agents of every game and does not learn, or the "
                                   "run whose newest one does; None: all agents learn")
    opponent_agents: int = setting(0, "agents of each game that the opponent plays, its last ones; 0: half of them",
                                   unit="agents", low=0, high=1024)
    seed: int = setting(0, "seed of environments, network and sampling; processes run side by side, so that only "
                        "exact_resume_updates repeats a run exactly", low=0, high=2**31 - 1)
    launcher: str = setting("local", "where the run's processes live, such as local, inline, ray, colab")
    address: str | None = setting(None, "of the Ray cluster: auto, HOST:PORT or ray://HOST:PORT; None: none, or auto")
    ports: str = setting("", "port, or range of ports such as 7000-7015, on which the run listens for its other "
                         "machines, where a firewall lets only these through; empty: any free ones")
    storage: str = setting("", "URL of a folder that keeps a copy of the run, such as s3://bucket/runs or /nfs/runs: "
                           "the newest checkpoints, and all that it needs to go on")
    learners: int = setting(1, "learners, each with its own inference and actors; gradients are averaged",
                            unit="processes", low=1, high=1024, source="SEED RL's multi-host layout")
    device: str = setting("auto", "accelerator of the learner", choices=("auto", "cpu", "cuda", "xla", "tpu"))
    inference_device: str = setting("", "accelerator of inference, such as cuda:1, where it is not the one that trains")
    learner_cpus: float = setting(1.0, "processor cores that a cluster reserves for each learner", unit="cores",
                                  low=0.0, high=1024.0)
    learner_gpus: float | None = setting(None, "GPUs that a cluster reserves for each learner; None: one where the "
                                         "device is cuda, or auto and the cluster has them", unit="GPUs", low=0.0,
                                         high=64.0)
    learner_memory_gb: float = setting(0.0, "memory that a cluster reserves for each learner; 0: none", unit="GB",
                                       low=0.0, high=1e5)
    actor_cpus: float = setting(1.0, "processor cores that a cluster reserves for each actor", unit="cores", low=0.0,
                                high=1024.0)
    actor_memory_gb: float = setting(0.0, "memory that a cluster reserves for each actor; 0: none", unit="GB", low=0.0,
                                     high=1e5)
    actor_memory_limit_gb: float = setting(
        0.0, "memory beyond which an actor is ended and started anew, for environments that leak; 0: where the machine "
        "has none left", unit="GB", low=0.0, high=1e5, live=True, group="system")
    step_timeout_s: float = setting(600.0, "time without a step after which an actor is ended and started anew; "
                                    "0: never", unit="s", low=0.0, high=1e6, live=True, group="system")
    precision: str = setting("auto", "arithmetic of the network; auto: bf16 where the hardware is faster in it",
                             choices=("auto", "fp32", "bf16"))
    max_batch: int = setting(0, "largest inference batch; 0: half of the environments", unit="environments", low=0,
                             high=65_536, live=True, group="system", source="SEED utils.py: num_envs // 2")
    batch_timeout_ms: float = setting(30.0, "longest that a partial inference batch waits for more", unit="ms", low=0.0,
                                      high=10_000.0, live=True, group="system")
    learner_threads: int = setting(0, "threads of training on a CPU; 0: half of the cores, or what the life before "
                                   "found, and others are tried while the run learns", unit="threads", low=0, high=256)
    actor_threads: int = setting(1, "threads that step the environments of one actor", unit="threads", low=1, high=256)
    actor_processes: int = setting(1, "processes that step the environments of each group of an actor, where those are "
                                   "slow and written in Python; 1: the actor's own", unit="processes",
                                   low=1, high=4096)
    transport: str = setting("auto", "how steps travel from an actor to a learner of the same machine; auto: through "
                             "shared memory, on Linux", choices=("auto", "grpc"))
    checkpoint_interval_s: float = setting(600.0, "time between checkpoints", unit="s", low=1.0, high=1e7,
                                           live=True, group="system", scale="log", source="SEED: 1800 s")
    keep_checkpoints: int = setting(10, "automatic checkpoints kept, and the best one beside them; those asked for are "
                                    "always kept",
                                    unit="checkpoints", low=1, high=100_000)
    exact_resume_updates: int = setting(
        0, "updates after which environments begin anew and a checkpoint is written, so that a run which was stopped "
        "or broke down goes on from there to exactly the same weights; acting and training take turns; 0: off",
        unit="updates", low=0, high=1_000_000)
    track: str = setting("", "services that get the metrics, such as wandb or mlflow,trackio (docs/tools.md); each is "
                         "configured by its own environment variables")
    hyperparameters: Any = dataclasses.field(default_factory=ALGORITHMS[DEFAULT])

    def __post_init__(self) -> None:
        validate(self)
        if self.actors < self.learners:
            raise OutOfBounds(f"actors={self.actors} for learners={self.learners}: each learner needs an actor of its "
                              f"own. Choose actors={self.learners} or more, or fewer learners.")
        check_ports(self.ports, learners=self.learners)
        if self.max_cost is not None and not self.price_per_hour:
            raise OutOfBounds(f"max_cost={self.max_cost:g} is never reached with price_per_hour=0. Say what an hour "
                              "costs: price_per_hour=2.5.")
        if (batch_size := self.hyperparameters.batch_size) % self.learners:
            near = max(1, round(batch_size / self.learners)) * self.learners
            raise OutOfBounds(f"batch_size={batch_size} is that of all learners={self.learners} together, and does not "
                              f"divide by them. Choose batch_size={near}, for example.")
        if self.exact_resume_updates:
            self._check_exact()

    def _check_exact(self) -> None:
        """Raises OutOfBounds for a field that makes the run depend on more than the seed."""
        for name, exact in (("device", "cpu"), ("inference_device", ""), ("learners", 1), ("opponent", None),
                            ("echo_factor", 1)):
            if (value := self.value(name)) != exact:
                raise OutOfBounds(f"{name}={value!r} with exact_resume_updates={self.exact_resume_updates}: what that "
                                  f"does depends on more than the seed. Choose {name}={exact!r}.")

    @property
    def evaluating_per_actor(self) -> int:
        """Environments of each actor that evaluate; at least one trains."""
        return min(int(self.hyperparameters.evaluation_envs_per_actor), self.envs_per_actor - 1)

    def environments(self, kind: str = "") -> int:
        """The run's environments, or those of a kind, "training" or "evaluation"."""
        if not kind:
            return self.actors * self.envs_per_actor
        evaluating = self.evaluating_per_actor
        return self.actors * (evaluating if kind == "evaluation" else self.envs_per_actor - evaluating)

    def row_of(self, env: int) -> tuple[int, int]:
        """The rank of the learner that has the run's environment `env`, and its row there; see `policies.roles`."""
        actor, place = divmod(env, self.envs_per_actor)
        return actor % self.learners, actor // self.learners * self.envs_per_actor + place

    def env_of(self, rank: int, row: int) -> int:
        """The inverse of `row_of`."""
        actor, place = divmod(row, self.envs_per_actor)
        return (actor * self.learners + rank) * self.envs_per_actor + place

    @property
    def replays(self) -> bool:
        """Whether the algorithm trains from a replay, which checkpoints can hold."""
        return isinstance(self.hyperparameters, ReplayConfig)

    @property
    def imitates(self) -> bool:
        """Whether the algorithm trains on demonstrations."""
        return isinstance(self.hyperparameters, DemonstrationsConfig)

    @property
    def last_checkpoint_s(self) -> float:
        """Seconds that the last checkpoint of a run may take; longer if it holds a replay."""
        return REPLAY_S if self.replays and self.hyperparameters.save_replay else 60.0

    @classmethod
    def build(cls, environment: str, *, algorithm: str = DEFAULT, **fields: Any) -> RunConfig:
        """A configuration from flat names; `actors` defaults to at least one for each learner. Raises UnknownName or
        OutOfBounds."""
        kind = hyperparameters_of(algorithm, fields.get("own_algorithm"))
        if "actors" not in fields and type(learners := fields.get("learners")) is int and learners > cls.actors:
            fields["actors"] = learners
        own, theirs = _split(algorithm, kind, fields)
        return cls(environment=environment, algorithm=algorithm, hyperparameters=kind(**theirs), **own)

    def with_live(self, /, **changes: Any) -> RunConfig:
        """A copy with live fields changed. Raises UnknownName, NotLive or OutOfBounds."""
        fields = self.all_settings()
        for name in changes:
            if name not in fields:
                raise unknown_field(name, fields, LISTING, algorithm=self.algorithm)
            if not fields[name].live:
                raise NotLive(f"{name} is fixed once a run has started. {self._remedy(fields[name], changes[name])} "
                              f"{LISTING}")
        return self.replaced(**changes)

    def _remedy(self, field: Setting, value: Any) -> str:
        """The call that changes a fixed field. Raises WrongType or OutOfBounds if no call takes the value."""
        name = field.name
        if name == "own_algorithm":
            return f"Start a new run, wb.launch({self.environment!r}, algorithm=YourClass)."
        if name not in ("network", "opponent", "wrappers"):  # which may be code, a run or a checkpoint
            field.check(value)
        if name not in WEIGHT_FIELDS or value == self.value(name):
            return f"Call run.{'scale' if name == 'actors' else 'fork'}({name}={value!r:.100}) instead."
        arguments = f"{value!r:.100}" if name == "environment" else f"{self.environment!r}, {name}={value!r:.100}"
        return f"Its weights would not fit another one: start a new run, wb.launch({arguments})."

    def ending_warm_up(self, changes: dict[str, Any], updates: int) -> dict[str, Any]:
        """`changes` of live fields; a new learning rate ends a warm-up that is still going on after `updates`, so that
        the new rate holds at once, unless `warmup_updates` is among the changes."""
        ends = "learning_rate" in changes and updates < self.value("warmup_updates")
        return {**changes, "warmup_updates": changes.get("warmup_updates", 0)} if ends else changes

    def replaced(self, /, **changes: Any) -> RunConfig:
        """A copy with any fields changed, by flat names. Raises UnknownName or OutOfBounds."""
        own, theirs = _split(self.algorithm, type(self.hyperparameters), changes)
        return dataclasses.replace(self, **own, hyperparameters=dataclasses.replace(self.hyperparameters, **theirs))

    def with_own(self, description: dict[str, Any], changes: Collection[str] = ()) -> RunConfig:
        """A copy for another class of its own algorithm, of that description. Fields that both have keep what differs
        from the old default, but for those in `changes`; others have the new default. Raises OutOfBounds."""
        mended = RunConfig.build(self.environment, algorithm=self.algorithm, own_algorithm=description)
        left = {"own_algorithm", *changes}
        return mended.replaced(**{name: value for name, value in self.changed.items()
                                  if name in mended.all_settings() and name not in left})

    def all_settings(self) -> dict[str, Setting]:
        """Settings of the run and of its algorithm, by flat name."""
        return {**settings(type(self.hyperparameters)), **settings(type(self))}

    def value(self, name: str) -> Any:
        """The value of the field with that flat name. Raises UnknownName."""
        holder = self.hyperparameters if hasattr(self.hyperparameters, name) else self
        return getattr(holder, name) if hasattr(holder, name) else self[name]  # which raises

    def __getitem__(self, name: str) -> Any:
        """`value`, as of a dictionary of all fields. Raises UnknownName."""
        if name not in (known := self.all_settings()):
            raise UnknownName.among("field", str(name), known)
        return self.value(name)

    def __contains__(self, name: object) -> bool:
        return name in self.all_settings()

    __iter__ = None  # it is no sequence

    def _instead_of(self, name: str) -> str:
        return f"config[{name!r}]" if hasattr(vars(self).get("hyperparameters"), name) else ""

    @property
    def defaults(self) -> RunConfig:
        """The configuration of this environment and algorithm in which all other fields have their defaults."""
        return RunConfig.build(self.environment, algorithm=self.algorithm, own_algorithm=self.own_algorithm)

    @property
    def changed(self) -> dict[str, Any]:
        """The values that differ from the algorithm's defaults, by flat name."""
        defaults = self.defaults
        return {name: self.value(name) for name in self.all_settings() if self.value(name) != defaults.value(name)}

    def __repr__(self) -> str:
        """The call that builds it; all fields that it leaves out have their defaults."""
        own = {"own_algorithm": self.own_algorithm} if self.own_algorithm else {}
        every = {"algorithm": self.algorithm, **own, **self.changed}
        fields = "".join(f", {name}={value!r}" for name, value in every.items())
        return f"RunConfig.build({self.environment!r}{fields})"

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` is its inverse."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RunConfig:
        """The configuration that `to_json` wrote. Raises InvalidInput (UnknownName, OutOfBounds) for other data."""
        try:
            rest = {key: value for key, value in data.items() if key != "hyperparameters"}
            fields = {**rest, **data["hyperparameters"]}
            return cls.build(fields.pop("environment"), **fields)
        except WorkbenchError:
            raise
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise InvalidInput(f"config={data!r:.100} is no configuration of a run: {error!r:.100}.") from None


def hyperparameters_of(algorithm: str, own: Any = None) -> type[LearningConfig]:
    """The class of an algorithm's hyperparameters; `own`: their description where a user wrote it, see `own_algorithm`.

    Raises UnknownName, InvalidInput.
    """
    if own not in (None, {}):
        return config_class(json.dumps(own, sort_keys=True), algorithm)
    if algorithm not in ALGORITHMS:
        raise unknown_algorithm(algorithm)
    return ALGORITHMS[algorithm]


def _split(algorithm: str, kind: type, fields: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """`fields` divided into those of the run and those of the algorithm, whose class is `kind`."""
    own, theirs = settings(RunConfig), settings(kind)
    for name in fields:
        if name not in own and name not in theirs:
            named = repr(algorithm) if algorithm in ALGORITHMS else algorithm  # a user's class
            raise unknown_field(name, [*own, *theirs], f"wb.fields({named}) lists them.", algorithm=algorithm)
    return ({k: v for k, v in fields.items() if k in own}, {k: v for k, v in fields.items() if k in theirs})


_NO_FIELDS = {  # what other libraries have a field for, and what does it here
    "callback": "No code of yours runs inside a run: run.wait(...) waits for what you want to react to, run.tune(...) "
    "changes a live field, and target_return, patience_frames and evaluation_envs_per_actor do what callbacks are for",
    "tensorboard_log": "Files for TensorBoard are always written, in run.path / 'tensorboard'",
    "max_episode_steps": "environment_options={'max_episode_steps': 200} limits an environment of Gymnasium's, and "
    "wrappers=[lambda env: gymnasium.wrappers.TimeLimit(env, 200)] one of your own",
    "capture_video": "wb.rollout(run).save('film.mp4') films an episode of any checkpoint",
    "frame_skip": "environment_options={'frame_skip': 4} is Atari's; a wrapper repeats actions elsewhere",
    "env_id": "The environment is the first argument: wb.launch('CartPole-v1')",
    "n_eval_episodes": "wb.evaluate(run, episodes=20) plays as many as you ask for, at any time",
    "log_interval": "Metrics are recorded by themselves, and run.metrics('episode_return') reads them",
    "framework": "PyTorch is the only one",
    "verbose": "progress=False is silent, and run.dashboard() shows the most",
}
_NO_FIELDS |= {word: _NO_FIELDS[other] for other, words in {
    "callback": ("callbacks",), "max_episode_steps": ("time_limit", "max_steps"), "capture_video": ("record_video",),
    "tensorboard_log": ("log_dir",), "frame_skip": ("action_repeat", "frameskip"), "env_id": ("env", "env_name"),
    "n_eval_episodes": ("evaluation_duration", "eval_episodes"), "log_interval": ("log_freq", "log_every"),
}.items() for word in words}


def check_network(name: object) -> None:
    """Raises UnknownName if no network has that name."""
    if name not in NETWORKS:
        raise UnknownName.among("network", name, NETWORKS, synonyms=_NETWORKS_ELSEWHERE)


def check_network_maker(network: Any, *, or_name: bool = False) -> None:
    """Raises InvalidInput unless it can be called for a network; `or_name`: a name would do as well."""
    if not callable(network):
        names = f"a name, {', '.join(NETWORKS)}, or " if or_name else ""
        raise InvalidInput(f"network={network!r:.100} must be {names}a class or function that makes one.")
    if not isinstance(network, type) and hasattr(network, "state_dict"):
        raise InvalidInput(f"network={type(network).__name__}(...) is a network that exists already. Give its class, "
                           "or a function that makes one for the environment's spec: each process makes its own.")


def unknown_field(
    name: object, known_names: Iterable[str], remedy: str = "", *, algorithm: str = DEFAULT
) -> UnknownName:
    """The error for `name`, which is none of the known names of the fields of a run of `algorithm`."""
    error = _unknown_field(name, list(known_names), remedy, algorithm)
    error.name = str(name)
    return error


def _unknown_field(name: object, names: list[str], remedy: str, algorithm: str) -> UnknownName:
    meant = SYNONYMS.get(str(name), [])
    wanted = {name, *meant}
    others = [f"{other!r}" for other, config in ALGORITHMS.items() if wanted & {*settings(config)}]
    if others and not {*meant} & {*names}:
        other = f" ({meant[0]} here)" if meant else ""
        return UnknownName(f"{name}{other} is a field of {' and '.join(others)}, and not of this run's algorithm, "
                           f"{algorithm!r}. A run that has it: wb.launch(..., algorithm={others[0]}).")
    if str(name) in _NO_FIELDS:
        return UnknownName(f"unknown hyperparameter {name!r}. {_NO_FIELDS[str(name)]}.")
    if "steps" in str(name) and "total_frames" in meant:
        remedy = f"It counts frames: each step of an Atari game is four, unless frame_skip says otherwise. {remedy}"
    if "batch_size" in meant:
        remedy = f"It counts unrolls, each of unroll_length steps. {remedy}"
    return UnknownName.among("hyperparameter", name, names, remedy.rstrip(), SYNONYMS)
