"""The hyperparameters of an algorithm that a user wrote: as data, so that every process knows them without its code.

    class Config(wb.LearningConfig):
        learning_rate: float = 3e-4                                               # another default
        beta: float = wb.setting(0.1, "weight of the bonus", low=0, high=1, live=True)   # a field of its own

A run's configuration holds the description, and `config_class` makes of it a class with the same fields and bounds.
"""

from __future__ import annotations

import dataclasses
import json
import keyword
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from workbench.config.hyperparameters import EpochsConfig, LearningConfig, ReplayConfig
from workbench.config.settings import GROUPS, KINDS, Setting, settings
from workbench.errors import InvalidInput

_BASES = {base.__name__: base for base in (LearningConfig, EpochsConfig, ReplayConfig)}
_MOST_FIELDS, _LONGEST = 200, 1000
_TEXTS = ("help", "unit", "scale", "source", "group", "words")
_SWITCHES, _BOUNDS = ("live", "optional"), ("low", "high")


def described(config: type, *, taken: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data of which `config_class` makes the configuration class again.

    Args:
        config: a subclass of LearningConfig, EpochsConfig or ReplayConfig, with or without @dataclass.
        taken: names that its fields may not have.

    Raises:
        InvalidInput: what is wrong with it.
    """
    if not (isinstance(config, type) and issubclass(config, LearningConfig)):
        raise InvalidInput(f"Config={config!r:.100} must be a class that derives from wb.LearningConfig (each unroll "
                           "is trained on once), wb.EpochsConfig (epochs of minibatches) or wb.ReplayConfig.")
    base = next(each for each in config.__mro__ if _BASES.get(each.__name__) is each)
    if "__dataclass_fields__" not in vars(config):
        config = dataclasses.dataclass(frozen=True)(config)
    known, fields = settings(base), {}
    for field in dataclasses.fields(config):
        if field.name in known and not field.metadata:  # a default alone: all else is as in the base
            entry = {**_entry(known[field.name]), "default": field.default}
        else:
            entry = {"help": f"{field.name} of the algorithm", **field.metadata, "default": field.default,
                     **_kind(field.name, field.type)}
        if field.name not in known or entry != _entry(known[field.name]):
            fields[field.name] = {name: list(value) if isinstance(value, tuple) else value
                                  for name, value in entry.items()}
    try:
        description: dict[str, Any] = json.loads(json.dumps({"trains": base.__name__, "fields": fields}))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{config.__name__}: defaults, bounds and choices must be numbers, texts, True, False or "
                           f"None ({error}).") from None
    for name in fields:
        if name in taken:
            raise InvalidInput(f"{config.__name__}.{name} has the name of a field of every run. Choose another name.")
    made = config_class(json.dumps(description, sort_keys=True))
    made()  # its defaults lie within their bounds
    return description


def _entry(setting: Setting) -> dict[str, Any]:
    given = {field.name: getattr(setting, field.name) for field in dataclasses.fields(setting)}
    defaults = {field.name: field.default for field in dataclasses.fields(setting)}
    kept = {name: value for name, value in given.items() if name not in ("name", "kind") and value != defaults[name]}
    return {**kept, "default": setting.default, "kind": setting.kind.__name__, "help": setting.help}


def _kind(name: str, annotation: Any) -> dict[str, Any]:
    """Kind and `optional` of an annotation such as `float`, "float" or `float | None`."""
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    kind, _, rest = text.replace(" ", "").partition("|")
    if kind not in KINDS or kind == "dict" or rest not in ("", "None"):
        raise InvalidInput(f"{name}: {text} is no type of a hyperparameter. Use bool, int, float or str, with | None "
                           "where None is a value.")
    return {"kind": kind, **({"optional": True} if rest else {})}


@lru_cache(maxsize=100)
def config_class(description: str) -> type[LearningConfig]:
    """The class of a description as JSON, the same one for the same text. Raises InvalidInput for other data."""
    try:
        data = json.loads(description)
        base, entries = _BASES[data["trains"]], data["fields"]
        if not isinstance(entries, dict) or len(entries) > _MOST_FIELDS:
            raise ValueError("fields")
        fields = [_field(name, entry) for name, entry in entries.items()]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"own_algorithm={description:.100} describes no algorithm: {error!r:.100}.") from None
    return dataclasses.make_dataclass("OwnConfig", fields, bases=(base,), frozen=True)


def _field(name: str, entry: Mapping[str, Any]) -> tuple[str, str, Any]:
    """Name, annotation and dataclass field. Raises ValueError for what no setting may have."""
    if not name.isidentifier() or name.startswith("_") or keyword.iskeyword(name) or len(name) > _LONGEST:
        raise ValueError(f"{name!r:.100} is no name of a field")
    if not isinstance(entry["default"], bool | int | float | str | None):
        raise ValueError(f"{name} has a default that is no number, text or switch")
    kind, more = entry["kind"], {key: value for key, value in entry.items() if key not in ("kind", "default")}
    if unknown := more.keys() - {*_TEXTS, *_SWITCHES, *_BOUNDS, "choices"}:
        raise ValueError(f"{name} has {', '.join(sorted(unknown))}, which fields do not have")
    for key, value in more.items():
        fits = (isinstance(value, str) and len(value) <= _LONGEST if key in _TEXTS else
                isinstance(value, bool) if key in _SWITCHES else
                all(isinstance(one, str) for one in value) if key == "choices" else _is_bound(value))
        if not fits:
            raise ValueError(f"{name}.{key}={value!r:.100}")
    if kind not in KINDS or more.get("group", "") not in ("", *GROUPS) or more.get("scale", "linear") not in (
            "linear", "log"):
        raise ValueError(f"{name}: kind, group or scale")
    optional = more.pop("optional", False)
    if "choices" in more:
        more["choices"] = tuple(more["choices"])
    annotation = f"{kind} | None" if optional else kind
    return name, annotation, dataclasses.field(default=entry["default"], metadata={"help": "", **more})


def _is_bound(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value))
