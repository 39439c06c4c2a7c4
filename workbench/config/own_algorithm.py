"""The hyperparameters of an algorithm that a user wrote: as data, so that every process knows them without its code.

    class Config(wb.LearningConfig):
        learning_rate: float = 3e-4                                               # another default
        beta: float = wb.setting(0.1, "weight of the bonus", low=0, high=1, live=True)   # a field of its own
        search = {"beta": (0.01, 1.0, "log")}                                     # what wb.sweep searches
        metrics = {"bonus": ("mean bonus of a step", "reward")}                   # what its loss reports, and the unit

A run's configuration holds the description, and `config_class` makes of it a class with the same fields and bounds.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import json
import keyword
import math
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from workbench.config.algorithms import ALGORITHMS, unknown_algorithm
from workbench.config.hyperparameters import DemonstrationsConfig, EpochsConfig, LearningConfig, ReplayConfig
from workbench.config.settings import GROUPS, KINDS, SYNONYMS, Setting, annotation_text, settings
from workbench.errors import AlgorithmFailed, InvalidInput, OutOfBounds, UnknownName, nearest, printable

_ALGORITHM = "workbench.algorithms.interface", "Algorithm"  # which loads torch
_AGENTS = {f"workbench.algorithms.{name}.agent": name for name in ALGORITHMS}  # modules of the classes that ship
_BASES = {base.__name__: base for base in (LearningConfig, EpochsConfig, ReplayConfig, DemonstrationsConfig)}
_MOST_FIELDS, _LONGEST = 200, 1000
_TEXTS = ("help", "unit", "scale", "source", "group", "words")
_SWITCHES, _BOUNDS = ("live", "optional", "initial"), ("low", "high")
_FORM = "Write each field as name: kind = default, such as beta: float = 0.1, or beta: float = wb.setting(0.1, ...)."
ARGUMENTS = frozenset((  # of the calls that take fields: a field of such a name could never be given
    "address", "algorithm", "changes", "checkpoint", "cls", "demonstrations", "environment", "fields", "generations",
    "goal", "launcher", "metric", "name", "network", "parallel", "preset", "progress", "pruner", "ready_timeout_s",
    "replay", "sampler", "self", "space", "timeout_s", "trials", "trust_code", "wait_ready", "wrappers"))


# --- describing -------------------------------------------------------------------------------------------------------


def network_of(algorithm: Any, network: Any) -> Any:
    """`network`; where it is None, what a class of a user's own brings as its `default_network`."""
    return getattr(algorithm, "default_network", None) if network is None and isinstance(algorithm, type) else network


def named_algorithm(algorithm: Any, *, taken: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name of an algorithm, and the description of its hyperparameters where it is a class that a user wrote.

    `taken`: see `described`. Raises UnknownName, InvalidInput.
    """
    if isinstance(algorithm, str):
        if algorithm not in ALGORITHMS:
            raise unknown_algorithm(algorithm)
        return algorithm, {}
    if not (isinstance(algorithm, type) and any((each.__module__, each.__name__) == _ALGORITHM
                                                for each in algorithm.__mro__)):
        raise InvalidInput(f"algorithm={algorithm!r:.100} must be a name ({', '.join(ALGORITHMS)}) or a class that "
                           "derives from wb.Algorithm.")
    if isinstance(getattr(algorithm, "search", None), Mapping):
        raise InvalidInput(f"{algorithm.__name__}.search lies beside Config, where no sweep looks for it. Write it "
                           "into the body of Config.")
    config: type = algorithm.Config  # type: ignore[attr-defined]
    ours = next(each for each in algorithm.__mro__ if each.__module__.startswith("workbench.algorithms.")
                and hasattr(each, "Config"))
    if ours.Config is not LearningConfig and not issubclass(config, ours.Config):
        raise InvalidInput(f"{algorithm.__name__} derives from {ours.__name__}, which reads fields that its Config "
                           f"does not have. Write class Config({ours.__name__}.Config).")
    return algorithm.__name__[:100], described(config, taken=taken)


def varied(algorithm: type) -> str:
    """The algorithm that ships of which a user's class is a variation, deriving from its class; "" for no such one."""
    shipped = _shipped(algorithm)
    return "" if shipped is None else _AGENTS[shipped.__module__]


def _shipped(algorithm: type) -> type | None:
    """The nearest class of an algorithm that ships among those that a class derives from."""
    return next((each for each in algorithm.__mro__ if each.__module__ in _AGENTS), None)


def described(config: type, *, taken: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data of which `config_class` makes the configuration class again.

    Args:
        config: a subclass of one of `_BASES`, with or without @dataclass.
        taken: names that its fields may not have, beside ARGUMENTS.

    Raises:
        InvalidInput: what is wrong with it.
    """
    if not (isinstance(config, type) and issubclass(config, LearningConfig)):
        raise InvalidInput(f"Config={config!r:.100} must be a class that derives from wb.LearningConfig (each unroll "
                           "is trained on once), wb.EpochsConfig (epochs of minibatches), wb.ReplayConfig or "
                           "wb.DemonstrationsConfig (recorded episodes).")
    base = next(each for each in config.__mro__ if _BASES.get(each.__name__) is each)
    known, fields = {name: _entry(setting) for name, setting in settings(base).items()}, {}
    for each in reversed(config.__mro__[: config.__mro__.index(base)]):
        for name, entry in _written(each, known):
            if name in taken or name in ARGUMENTS:
                raise InvalidInput(f"{config.__name__}.{name} has the name of something that every run has, or of an "
                                   "argument of a call that takes fields. Choose another name.")
            known[name] = fields[name] = entry
    try:
        search = {} if config.search is base.search else {"search": {
            name: {"span": list(entry)} if isinstance(entry, tuple) else list(entry)
            for name, entry in config.search.items()}}
        metrics = {} if config.metrics is base.metrics else {"metrics": {
            name: list(entry) for name, entry in config.metrics.items()}}
        text = json.dumps({"trains": base.__name__, "fields": fields, **search, **metrics}, sort_keys=True,
                          allow_nan=False)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidInput(f"{config.__name__}: defaults, bounds, choices, search and metrics must be numbers, texts, "
                           f"True, False or None ({error}).") from None
    made = config_class(text)
    if taken:  # a class of before this rule trains on
        _check_search(made, taken)
    description: dict[str, Any] = json.loads(text)
    return description


def _check_search(config: type[LearningConfig], taken: Mapping[str, Any]) -> None:
    """Raises UnknownName, OutOfBounds for what a sweep of such a configuration could not search."""
    fields = settings(config)
    for name, entry in config.search.items():
        if name not in fields and name not in taken:
            raise UnknownName.among("field in search", name, fields)
        if isinstance(entry, tuple) and not 2 <= len(entry) <= 3:
            raise InvalidInput(f"search of {name}: {entry!r:.100} is no span. Give (low, high), with \"log\" or "
                               "\"linear\" as a third.")
        for value in entry[:2] if isinstance(entry, tuple) else entry:
            if name in fields:
                try:
                    fields[name].check(value)
                except OutOfBounds as error:
                    raise OutOfBounds(f"search of {name}: {error}") from None


def near_misses(algorithm: type, description: Mapping[str, Any]) -> list[str]:
    """New fields and methods of a user's class that are nearly called like one that it inherits, in sentences."""
    ours = [each for each in algorithm.__mro__ if each.__module__.startswith("workbench.algorithms.")]
    theirs = [each for each in algorithm.__mro__ if each not in (*ours, object)]
    kinds = (("Config.", "", "keeps its default", description["fields"], settings(_BASES[description["trains"]])),
             ("", "(...)", "stays as it is", _methods(theirs), _methods(ours)))
    return [f"{algorithm.__name__}.{place}{name}{call} is new, beside {near[0]}, which {stays}."
            for place, call, stays, new, known in kinds for name in sorted(new) if name not in known
            if (near := difflib.get_close_matches(name, known, n=1, cutoff=0.9))]


def _methods(classes: Iterable[type]) -> set[str]:
    """Public names of what can be called in the bodies of these classes."""
    return {name for each in classes for name, value in vars(each).items() if callable(value) and name[0] != "_"}


def check_described(algorithm: Any, description: Mapping[str, Any]) -> None:
    """Raises AlgorithmFailed unless the class of an algorithm has the fields of a run's description, and its schedule.
    """
    if differs := difference(algorithm, description):
        now, then = differs
        raise AlgorithmFailed(
            f"{algorithm.__name__}.Config has {now} in its file, and had {then} when it was imported for the "
            f"launch. Restart the kernel, or importlib.reload({algorithm.__module__}) and take its class.")


def difference(algorithm: Any, description: Mapping[str, Any]) -> tuple[str, str] | None:
    """What an algorithm's class has and what the description has in its place, such as beta=0.1 and no beta; or None.
    """
    here, there = (_facts(each) for each in (described(algorithm.Config, taken={}), description))
    for name in sorted(here.keys() | there.keys(), key=len):
        if here.get(name) != there.get(name):
            now, then = (f"{name}={each[name]:.100}" if name in each else f"no {name}" for each in (here, there))
            return now, then
    return None


def _facts(description: Mapping[str, Any]) -> dict[str, str]:
    """What training depends on, as text, since 1, 1.0 and True are equal: the base, defaults and kinds."""
    facts = {"base": f"wb.{description['trains']}"}
    for name, entry in description["fields"].items():
        facts |= {name if part == "default" else f"{part} of {name}": repr(value)
                  for part, value in entry.items() if part in ("default", "kind", "optional")}
    return facts


def _written(each: type, known: Mapping[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and entries of the fields that one class declares; `known`: those that it inherits. Raises InvalidInput."""
    if "__dataclass_fields__" not in vars(each):
        _check_attributes(each)
        try:
            dataclasses.dataclass(frozen=True)(each)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{each.__name__}: {error}. {_FORM}") from None
    declared = vars(each).get("__annotations__", {})
    for field in (field for field in dataclasses.fields(each) if field.name in declared):
        kind = _kind(field.name, field.type)
        if field.default is dataclasses.MISSING:
            raise InvalidInput(f"{each.__name__}.{field.name} has no default, or makes one. {_FORM}")
        inherited = known.get(field.name, {"help": f"{field.name} of the algorithm", **kind})
        if any(kind.get(part, False) != inherited.get(part, False) for part in ("kind", "optional")):
            raise InvalidInput(f"{each.__name__}.{field.name} is {inherited['kind']} where it is inherited from, and "
                               f"cannot become {field.type}.")
        given = {name: list(value) if isinstance(value, tuple) else value for name, value in field.metadata.items()}
        yield field.name, {**_within(field.name, inherited, given), "default": field.default}


def _check_attributes(each: type) -> None:
    """Raises InvalidInput for what would not travel."""
    declared = vars(each).get("__annotations__", {})
    for name, value in vars(each).items():
        if name in ("__init__", "__post_init__") or inspect.isfunction(value) or isinstance(value, property):
            raise InvalidInput(f"{each.__name__}.{name}: a Config has fields alone, which are checked by their bounds. "
                               "Put methods into the algorithm.")
        if not name.startswith("__") and name not in declared and name not in ("search", "metrics"):
            default = value.default if isinstance(value, dataclasses.Field) else value
            raise InvalidInput(f"{each.__name__}.{name} = {default!r:.50} is no field without its kind. {_FORM}")
        default = value.default if isinstance(value, dataclasses.Field) else value
        if isinstance(default, list | dict | set) and name in declared:
            _kind(name, declared[name])  # which none of them is


def _within(name: str, inherited: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """An inherited field with what a new declaration says; its bounds and choices may only become narrower."""
    entry = {**inherited, **given}
    for bound, tighter in (("low", max), ("high", min)):
        bounds = [each[bound] for each in (inherited, given) if each.get(bound) is not None]
        if bounds:
            entry[bound] = tighter(bounds)
    if "low" in entry and "high" in entry and entry["low"] > entry["high"]:
        raise InvalidInput(f"{name} has low={entry['low']!r} above high={entry['high']!r}, so that no number fits.")
    if more := set(given.get("choices", ())) - set(inherited.get("choices", given.get("choices", ()))):
        raise InvalidInput(f"{name}: {', '.join(sorted(map(repr, more)))} is none of {inherited['choices']}.")
    return entry


def _entry(setting: Setting) -> dict[str, Any]:
    """A setting as an entry of a description."""
    given = {field.name: getattr(setting, field.name) for field in dataclasses.fields(setting)}
    defaults = {field.name: field.default for field in dataclasses.fields(setting)}
    kept = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()
            if name not in ("name", "kind") and value != defaults[name]}
    return {**kept, "default": setting.default, "kind": setting.kind.__name__, "help": setting.help}


def _kind(name: str, annotation: Any) -> dict[str, Any]:
    """Kind and `optional` of an annotation such as `float`, "float" or `float | None`."""
    text = annotation_text(annotation)
    kind, _, rest = text.replace(" ", "").partition("|")
    if kind not in KINDS or kind == "dict" or rest not in ("", "None"):
        raise InvalidInput(f"{name}: {text} is no type of a hyperparameter. Use bool, int, float or str, with | None "
                           "where None is a value.")
    return {"kind": kind, **({"optional": True} if rest else {})}


# --- making the class again -------------------------------------------------------------------------------------------


@lru_cache(maxsize=100)
def config_class(description: str, algorithm: str = "Own") -> type[LearningConfig]:
    """The class of a description as JSON, the same one for the same text. Raises InvalidInput for other data.

    `algorithm`: whose Config it is, for messages.
    """
    try:
        data = json.loads(description)
        base, entries = _BASES[data["trains"]], data["fields"]
        if not isinstance(entries, dict) or len(entries) > _MOST_FIELDS:
            raise ValueError("fields")
        fields = [_field(name, entry, base) for name, entry in entries.items()]
        made = dataclasses.make_dataclass(f"{algorithm}.Config", fields, bases=(base,), frozen=True,
                                          namespace={"_instead_of_missing": _nearest_field})
        if "search" in data:
            made.search = _search(data["search"])  # type: ignore[attr-defined]
        if "metrics" in data:
            made.metrics = _metrics(data["metrics"])  # type: ignore[attr-defined]
        made()  # its defaults lie within their bounds
    except InvalidInput:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, SyntaxError) as error:
        raise InvalidInput(f"own_algorithm={description:.100} describes no algorithm: {error!r:.200}.") from None
    return made


def _nearest_field(config: LearningConfig, name: str) -> str:
    """The field that was meant by a name that a configuration does not have, and all of them, as sentences."""
    fields = settings(type(config))
    return f"{nearest(name, fields, SYNONYMS)} Its fields: {', '.join(fields)}."


def _field(name: str, entry: Mapping[str, Any], base: type) -> tuple[str, str, Any]:
    """Name, annotation and dataclass field. Raises ValueError for what no setting may have."""
    known = settings(base)
    plain = name.isidentifier() and name == unicodedata.normalize("NFKC", name) and not keyword.iskeyword(name)
    if not plain or name.startswith("_") or len(name) > _LONGEST or name in ARGUMENTS:
        raise InvalidInput(f"{name!r:.100} is no name of a field.")
    if name not in known and hasattr(base, name):
        raise InvalidInput(f"{name!r:.100} is an attribute of every configuration, and no name of a field.")
    if not isinstance(entry["default"], bool | int | float | str | None):
        raise ValueError(f"{name} has a default that is no number, text or switch")
    kind, more = entry["kind"], {key: value for key, value in entry.items() if key not in ("kind", "default")}
    if unknown := more.keys() - {*_TEXTS, *_SWITCHES, *_BOUNDS, "choices"}:
        raise ValueError(f"{name} has {', '.join(sorted(unknown))}, which fields do not have")
    for key, value in more.items():
        if not _fits(key, value):
            raise InvalidInput(f"{name}: {key}={value!r:.100} is nothing that a field can have.")
    if kind not in KINDS or more.get("group", "") not in ("", *GROUPS) or more.get("scale", "linear") not in (
            "linear", "log"):
        raise InvalidInput(f"{name}: its group must be one of {', '.join(GROUPS)}, its scale linear or log.")
    optional = more.pop("optional", False)
    if "choices" in more:
        more["choices"] = tuple(more["choices"])
    if name in known:
        _check_narrower(known[name], kind, optional, more)
    annotation = f"{kind} | None" if optional else kind
    return name, annotation, dataclasses.field(default=entry["default"], metadata={"help": "", **more})


def _fits(key: str, value: Any) -> bool:
    """Whether a field can have that value under that key."""
    if key in _TEXTS:
        return isinstance(value, str) and len(value) <= _LONGEST and printable(value, but="") == value
    if key in _SWITCHES:
        return isinstance(value, bool)
    if key == "choices":
        return isinstance(value, list) and all(isinstance(one, str) and printable(one, but="") == one for one in value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value is None or (is_number and abs(value) <= sys.float_info.max)


def _check_narrower(known: Setting, kind: str, optional: bool, more: Mapping[str, Any]) -> None:
    """Raises ValueError for a field of every algorithm that would take what that one does not."""
    low, high = (math.inf if more.get(bound) is None else more[bound] for bound in _BOUNDS)
    wider = (known.low is not None and not (known.low <= low < math.inf)) or (
        known.high is not None and not high <= known.high)
    others = not set(more.get("choices", ())) <= set(known.choices) or bool(known.choices) != bool(more.get("choices"))
    if kind != known.kind.__name__ or optional != known.optional or wider or others:
        raise ValueError(f"{known.name} is not as in every algorithm")


def _search(space: Any) -> dict[str, Any]:
    """A sweep's space from JSON, in which a span is {"span": [low, high]}, and choices are a list."""
    return {name: tuple(entry["span"]) if isinstance(entry, dict) else list(entry) for name, entry in space.items()}


def _metrics(texts: Any) -> dict[str, tuple[str, str]]:
    """Meanings and units of metrics from JSON. Raises InvalidInput for what is no pair of texts."""
    metrics = {name: tuple(entry) for name, entry in texts.items()}
    for name, entry in metrics.items():
        if len(entry) != 2 or not all(_fits("help", text) for text in (name, *entry)):
            raise InvalidInput(f"metrics[{name!r:.100}] must be two texts: what it means, and its unit.")
    return metrics
