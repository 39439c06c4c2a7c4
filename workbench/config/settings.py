"""Fields of configurations: default, unit, bounds, live-or-not and source."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, NoneType
from typing import Any

from workbench.errors import OutOfBounds, UnknownName, WrongType
from workbench.tables import readable, typed_number

GROUPS = ("learning", "exploration", "loss", "stop rules", "system")  # of live fields, in the order of tables
_UNIT_IN_NAME = re.compile(r"_(s|ms|gb)$")
_IN_WORDS = {bool: "True or False", int: "a whole number", float: "a number", str: "text", dict: "a dict"}
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True)
class Setting:
    """One field of a configuration.

    Attributes:
        name: field name, as written in `launch(...)` and `tune(...)`.
        kind: `bool`, `int`, `float`, `str` or `dict`.
        low, high: inclusive bounds of a number, or None.
        choices: allowed values of a string, or ().
        live: whether `tune` may change it while the run learns.
        group: of GROUPS, which a live field stands with; "" for others.
        words: its name in a panel where that is not `name` in words.
        scale: "log" where a slider should be logarithmic, else "linear".
        optional: whether None is allowed.
        initial: whether the algorithm goes on from it by itself, and checkpoints hold where it has come to.
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
    group: str = ""
    words: str = ""
    initial: bool = False

    @property
    def title(self) -> str:
        """The name and unit for people, such as "batch timeout (ms)"."""
        name = self.words or _UNIT_IN_NAME.sub("", self.name).replace("_", " ")
        return f"{name} ({self.unit})" if self.unit else name

    def check(self, value: Any) -> Any:
        """`value` in the field's type. Raises WrongType or OutOfBounds with the name, the value and the bounds."""
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
            raise self.wrong_type(value)
        if isinstance(value, int) and value.bit_length() > 63:  # as SQLite, and files of others, have them
            raise OutOfBounds(f"{self.name} is an integer of {value.bit_length():,} bits, and may have 63.")
        return self.kind(value)

    def typed(self, text: str) -> Any:
        """The value that a person types, as on a command line: 1e7, 10 M, yes, none. Raises as `check` does."""
        text = text.strip()
        if self.optional and text.lower() in ("", "none"):
            return None
        read: dict[type, Callable[[str], Any]] = {
            int: typed_number, float: typed_number, bool: lambda word: _BOOLEANS[word.lower()], dict: json.loads}
        try:
            value = read.get(self.kind, str)(text)
        except (ValueError, KeyError):
            raise self.wrong_type(text) from None
        return self.check(value)

    def wrong_type(self, value: object) -> WrongType:
        """The error for a value of another type than the field's."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        words = "a number" if is_number else {str: "text", NoneType: "None"}.get(type(value), type(value).__name__)
        but = "" if is_number and self.kind is int else f", not {words}"
        if callable(value) and self.name == "learning_rate":
            but += " (learning_rate_schedule='linear' lets it fall, and run.tune changes it while the run learns)"
        fits = type(self.default) is self.kind and self.default not in ("", {})  # a wrong default is no example
        example = f" For example: {self.name}={self.default!r}." if fits else ""
        kind = f"one of {', '.join(map(repr, self.choices))}" if self.choices else _IN_WORDS[self.kind]
        return WrongType(f"{self.name}={value!r:.100} must be {kind}{but}.{example}")

    def _check_bounds(self, value: float) -> None:
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        if not math.isfinite(value) and self.low is None and self.high is None:
            raise OutOfBounds(f"{self.name}={value!r} must be a finite number.")
        if not low <= value <= high:  # also refuses NaN
            unit = f" {self.unit}" if self.unit else ""
            raise OutOfBounds(f"{self.name}={value!r} is out of bounds: it must lie in "
                              f"[{readable(low)}, {readable(high)}]{unit}.")


_OPTIONS = {field.name for field in dataclasses.fields(Setting)} - {"name", "kind", "default", "help", "optional"}


def setting(default: Any, help: str, **more: Any) -> Any:
    """A hyperparameter by its default and what it does in words, and, where they apply, these.

    Args:
        low, high: inclusive bounds of a number.
        choices: all values of a text.
        unit: shown beside it, such as "steps".
        live: whether `run.tune` may change it while the run learns; the panel then has a slider for it.
        scale: "log" for a slider that spans decades.
        group: of live fields that it stands with: "learning", "exploration", "loss", "stop rules" or "system".
        source: where the default is from.
        words: its name in a panel, where that is not the field's.
        initial: whether it is a first value of what the algorithm adapts and checkpoints hold; a fork cannot change it.

    Raises UnknownName for anything else.
    """
    if unknown := more.keys() - _OPTIONS:
        raise UnknownName.among("argument of setting", min(unknown), _OPTIONS, synonyms={"min": "low", "max": "high"})
    metadata = {"help": help, **more}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def with_default(base: type, name: str, default: Any, **more: Any) -> Any:
    """`setting` for a field of `base`: its metadata with another default, updated by `more`."""
    field = next(field for field in dataclasses.fields(base) if field.name == name)
    return dataclasses.field(default=default, metadata={**field.metadata, **more})


ELSEWHERE: dict[str, list[str]] = {field: words.split() for field, words in {
    "envs_per_actor": "n_envs num_envs num_envs_per_worker num_envs_per_env_runner",
    "actors": "workers num_workers num_env_runners", "environment_options": "env_kwargs env_config",
    "frame_stack": "env_framestack",
    "total_frames": "timesteps total_timesteps n_timesteps total_steps train_for_env_steps",
    "target_return": "reward_threshold stop_reward stop_on_reward", "device": "cuda",
    "patience_frames": "early_stopping max_no_improvement_evals", "evaluation_envs_per_actor": "eval_freq n_eval_envs",
    "checkpoint_interval_s": "save_freq save_every save_interval checkpoint_freq checkpoint_every",
    "track": "with_wandb", "network": "hidden_size hidden_sizes net_arch policy_kwargs policy use_rnn use_lstm",
    "lstm_size": "rnn_size",
    "unroll_length": "rollout num_steps n_steps rollout_fragment_length", "discount": "gamma",
    "batch_size": "train_batch_size train_batch_size_per_learner minibatch_size sgd_minibatch_size",
    "burn_in": "burn_in_length", "adam_epsilon": "eps adam_eps",
    "learning_rate": "policy_lr", "critic_rate_factor": "q_lr",
    "learning_rate_schedule": "anneal_lr lr_schedule", "max_abs_reward": "clip_reward clip_rewards",
    "max_gradient_norm": "max_grad_norm grad_clip",
    "entropy_cost": "ent_coef exploration_loss_coeff entropy_coeff", "temperature": "alpha",
    "first_temperature": "alpha ent_coef temperature", "target_entropy": "autotune",
    "baseline_cost": "vf_coef value_coef value_loss_coeff vf_loss_coeff", "lambda_": "gae_lambda",
    "clip": "clip_range clip_coef clip_param ppo_clip_ratio", "value_clip": "clip_range_vf clip_vloss",
    "epochs": "n_epochs update_epochs num_epochs num_sgd_iter", "minibatches": "num_minibatches",
    "normalize_observations": "norm_obs normalize_input", "normalize_rewards": "norm_reward normalize_returns",
    "normalize_advantages": "norm_adv normalize_advantage", "replay_size": "buffer_size replay_buffer_size",
    "replay_min_size": "learning_starts", "replay_ratio": "gradient_steps train_freq",
    "target_update_period": "tau target_update_interval target_network_frequency",
    "target_share": "tau target_update_interval target_network_frequency",
    "priority_exponent": "prioritized_replay_alpha", "importance_exponent": "prioritized_replay_beta",
    "exploration_base": "start_e end_e eps_start eps_end epsilon exploration_fraction",
}.items()}  # what papers and other libraries call a field
SYNONYMS: dict[str, list[str]] = {}  # the fields that such a word means, of which an algorithm has one
for _field, _words in ELSEWHERE.items():
    for _word in _words:
        SYNONYMS.setdefault(_word, []).append(_field)
KINDS: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str, "dict": dict}


def settings(config: type) -> Mapping[str, Setting]:
    """The settings of a configuration class by name, in order of declaration."""
    return _settings(config)


@functools.lru_cache(maxsize=200)  # a command asks for them thousands of times
def _settings(config: type) -> Mapping[str, Setting]:
    by_name = {}
    for field in dataclasses.fields(config):
        if "help" not in field.metadata:
            continue
        kind, _, rest = annotation_text(field.type).partition(" | ")
        default = {} if field.default is dataclasses.MISSING else field.default
        by_name[field.name] = Setting(
            field.name, KINDS[kind.split("[")[0]], default, optional=rest == "None", **field.metadata
        )
    return MappingProxyType(by_name)


def annotation_text(annotation: Any) -> str:
    """An annotation as it is written: a class, in a module without `from __future__ import annotations`, by its name.
    """
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def in_groups(live: Mapping[str, Setting]) -> dict[str, dict[str, Setting]]:
    """The live ones of these settings by group and name, in the order of GROUPS; those without a group, of one's own
    algorithm, come before those of the run."""
    groups: dict[str, dict[str, Setting]] = {group: {} for group in (*GROUPS[:3], "", *GROUPS[3:])}
    for name, field in live.items():
        if field.live:
            groups[field.group][name] = field
    return {group: fields for group, fields in groups.items() if fields}


def check_known(config: type, names: Iterable[str], what: str) -> None:
    """Raises UnknownName if one of `names` is not a field of `config`; `what` is its kind, such as "Atari option"."""
    fields = settings(config)
    for name in names:
        if name not in fields:
            raise UnknownName.among(what, name, fields)


def takes(function: Callable[..., Any], parameter: str) -> bool:
    """Whether the function is known to have a parameter of that name."""
    try:
        return parameter in inspect.signature(function).parameters
    except (ValueError, TypeError):  # of one that is not Python's
        return False


def check_keywords(function: Callable[..., Any], names: Iterable[str], what: str, *, also: Iterable[str] = ()) -> None:
    """As `check_known`, of the keyword arguments of a function, which is not called; `also`: others that are known."""
    parameters = inspect.signature(function).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return
    named = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    for name in names:
        if name not in (known := [*named, *also]):
            raise UnknownName.among(what, name, known)


def validate(config: Any) -> None:
    """Checks every field and converts it to its type. Raises WrongType or OutOfBounds."""
    for name, field in settings(type(config)).items():
        object.__setattr__(config, name, field.check(getattr(config, name)))
