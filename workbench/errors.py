"""Every error that the workbench raises on purpose.

A message says what is wrong, which value, and what to do; a misspelt name comes with the nearest one.

    WorkbenchError
    ├── InvalidInput (ValueError)
    │   ├── UnknownName          environment, algorithm, hyperparameter, network, option
    │   ├── OutOfBounds          a value outside the field's bounds
    │   │   └── WrongType (TypeError)       a value of another type than the field's
    │   ├── WrongArguments (TypeError)      a call with a missing, misspelt or superfluous argument
    │   ├── NoSuchIndex (IndexError)        a position beyond the end of a list or table
    │   ├── NotLive              a change of a field that is fixed once a run has started
    │   └── ShapeMismatch        spaces, shapes or dtypes that do not fit
    ├── EnvironmentFailed        an environment raised; carries its traceback
    ├── NetworkFailed            a network raised, or returned the wrong shapes
    ├── AlgorithmFailed          an algorithm of the user's broke a rule; names it
    ├── RunNotFound (KeyError)   no such run
    ├── RunExists                a run of that name exists already
    ├── RunNotAlive              the run has ended or its supervisor is dead
    ├── RunAlive                 the run must be stopped first
    ├── RunFailed                the run stopped with an error
    ├── RunPaused                the run paused itself
    ├── WaitTimeout (TimeoutError)
    ├── HomeNotWritable (OSError)
    ├── StorageFailed (OSError)  a file of a run cannot be written or read: full disk, I/O error, newer format
    ├── AccessDenied (PermissionError)   bad token, or a file that others could have written
    ├── ConnectionLost (ConnectionError) the other process has ended, or cannot be reached
    ├── CheckpointCorrupt        a checkpoint is torn or was changed
    └── MissingPackage (ImportError)     carries the command that installs it
"""

from __future__ import annotations

import difflib
import functools
import inspect
import json
import linecache
import os
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_SHOWN = 12  # known names, if none is near
_RED, _FAINT, _PLAIN = "\x1b[31m", "\x1b[2m", "\x1b[0m"
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str, *, but: str = "\n\t") -> str:
    """The text, with characters that move the cursor, colour or reverse text as escapes, `but` for these."""
    return _CONTROLS.sub(
        lambda match: match[0] if match[0] in but else match[0].encode("unicode_escape").decode(), text)


class WorkbenchError(Exception):
    """Base of all errors of the workbench."""

    _shown_short = False

    def _render_traceback_(self) -> list[str]:
        """What IPython and Jupyter show: the user's line and the message; asked again, by %tb, the whole traceback."""
        if self._shown_short:
            return traceback.format_exception(self)
        self._shown_short = True
        lines = [f"{place}:  {line}" for place, line in _user_lines(self.__traceback__)]
        lines.append(f"{_RED}{type(self).__name__}{_PLAIN}: {self}")
        lines += getattr(self, "__notes__", [])
        if self.__cause__ is not None and (said := printable(str(self.__cause__))) not in str(self):
            lines.append(f"Caused by {type(self.__cause__).__name__}: {said}")
        return [*lines, f"{_FAINT}%tb shows where it was raised.{_PLAIN}"]

    def __str__(self) -> str:  # KeyError would show the message's repr
        return printable(str(self.args[0])) if self.args else ""  # it may quote another user's file or log


def _user_lines(trace: TracebackType | None) -> list[tuple[str, str]]:
    """Place and text of each line of the user's code that led into the package; IPython's own frames are left out."""
    lines = []
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        path, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        if f"{os.sep}IPython{os.sep}" not in path and (text := linecache.getline(path, line).strip()):
            lines.append((f"{_cell(path, trace.tb_frame)}, line {line}", printable(text)))
        trace = trace.tb_next
    return lines


def _cell(path: str, frame: FrameType) -> str:
    """How a person calls a file of code: "Cell In[3]", or its path."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython and "get_ipython" in frame.f_globals else None
    number = getattr(getattr(shell, "compile", None), "_filename_map", {}).get(path)
    return path if number is None else f"Cell In[{number}]"


class InvalidInput(WorkbenchError, ValueError):
    """An argument of the caller is wrong."""


def nearest(name: object, names: Iterable[str], synonyms: Mapping[str, str | list[str]] | None = None) -> str:
    """" Did you mean 'pong'?" with the name among `names` that is like `name`; "" without one.

    A synonym (of several, the first that is known) comes first, then a name that is misspelt in one or two letters,
    one that `name` abbreviates (lr for learning_rate, ent for entropy_cost), and one that is merely similar.
    """
    word, known = str(name), list(names)
    meant = (synonyms or {}).get(word, [])
    matches = (
        [name for name in ([meant] if isinstance(meant, str) else meant) if name in known]
        or _misspelt(word, known)
        or _abbreviated(word, known)
        or difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    )
    return f" Did you mean {matches[0]!r}?" if matches else ""


def _misspelt(word: str, names: Collection[str]) -> list[str]:
    """The name that `word` misses by one or two letters, if one does."""
    return difflib.get_close_matches(word, names, n=1, cutoff=0.75)


def _abbreviated(word: str, names: list[str]) -> list[str]:
    """Names whose initials are `word`, or else those that begin with it: the shortest first, and the last version."""
    if len(word) < 2:
        return []
    initials = [name for name in names if "".join(re.findall(r"(?<![^\W_])[^\W_]", name)).lower() == word.lower()]
    begun = [name for name in names if name.lower().startswith(word.lower())]
    return sorted(sorted(initials or begun, reverse=True), key=len)


class UnknownName(InvalidInput):
    """A name that is not known; the message has the nearest known one.

    Attributes:
        name: which is not known.
    """

    name: str = ""

    @classmethod
    def among(
        cls, kind: str, name: object, known_names: Iterable[str], remedy: str = "",
        synonyms: Mapping[str, str | list[str]] | None = None,
    ) -> UnknownName:
        """The error for `name`, which is none of the known names of a `kind`; `remedy` may say what lists them."""
        names = sorted(set(known_names) - {str(name)})
        if not (hint := nearest(name, names, synonyms)) and (len(names) <= _SHOWN or not remedy):
            rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            hint = f" Known: {', '.join(names[:_SHOWN])}{rest}." if names else ""
        error = cls(f"unknown {kind} {name!r}.{hint}{' ' + remedy if remedy else ''}")
        error.name = str(name)
        return error


_CALLS = {  # that do what somebody looks for under another name
    "workbench": {
        "presets": "wb.environments('Pong'), which has their presets", "algorithms": "wb.fields('algorithm')",
        "networks": "wb.fields('network')", "train": "wb.launch", "load": "wb.attach", "list": "wb.runs",
        "make": "wb.launch('CartPole-v1')",
        "stop": "run.stop", "delete": "run.delete", "learn": "wb.launch", "tune": "run.tune",
        "save": "run.checkpoint()",
        "predict": "wb.load_policy(run, env=...).act", "record_video": "wb.rollout(run).save('film.mp4')",
        "VecNormalize": "wb.launch(..., normalize_observations=True, normalize_rewards=True)",
        "EvalCallback": "wb.launch(..., evaluation_envs_per_actor=1), or wb.evaluate(run)",
        "TensorBoard": "run.path / 'tensorboard', which is always written",
        "make_vec_env": "wb.launch('CartPole-v1', envs_per_actor=8)", "DQN": "wb.launch(..., algorithm='r2d2')",
        **{name: f"wb.launch(..., algorithm={name.lower()!r})" for name in ("PPO", "SAC", "R2D2")},
    },
    "RunStatus": {"fps": "frames_per_second"}, "Policy": {"predict": "policy.act(observation, reward)"},
    "Run": {
        "evaluate": "wb.evaluate(run)", "rollout": "wb.rollout(run)", "play": "wb.play(run)",
        "export": "wb.export_policy(run, target=...)", "compare": "wb.compare([run, ...])", "save": "run.checkpoint()",
        "restart": "wb.resume(run)", "learn": "run.wait(), which waits while it learns",
        "predict": "wb.load_policy(run, env=...).act", "panel": "run.dashboard()",
        "history": "run.metrics('episode_return')", "plot": "run.dashboard()", "kill": "run.stop()",
        "train": "run.wait(), which waits while it learns", "best_checkpoint": "run.best",
        "tensorboard": "run.path / 'tensorboard', which is always written", "score": "run.status.episode_score",
        **dict.fromkeys(("policy", "model"), "wb.load_policy(run, env=...)"),
        **dict.fromkeys(("log", "logs"), "run.events, or the files in run.path / 'logs'"),
        "num_timesteps": "run.status.steps",
        **{name: f"run.status.{name}" for name in ("frames", "steps", "updates", "episodes", "episode_return")},
    },
}  # fmt: skip


def missing_attribute(owner: object, name: str, call: str = "") -> AttributeError:
    """The error for an attribute that `owner`, an object or a module, does not have, with the call that does the same,
    by default that of _CALLS, or the nearest one."""
    whose = f"module {owner.__name__!r}" if inspect.ismodule(owner) else f"{type(owner).__name__}"
    public = [known for known in dir(owner if inspect.ismodule(owner) else type(owner)) if not known.startswith("_")]
    calls = _CALLS.get(owner.__name__ if inspect.ismodule(owner) else type(owner).__name__, {})
    call = call or calls.get(name, "")
    hint = f" Did you mean {call}?" if call else "" if name.startswith("_") else nearest(name, public)
    return AttributeError(f"{whose} has no attribute {name!r}.{hint}", name=name, obj=owner)


class NamesNearest:
    """An object whose errors for missing attributes have the nearest name, or the call that does the same."""

    if not TYPE_CHECKING:  # which would take every attribute to be there

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute(self, name, self._instead_of(name))

    def _instead_of(self, name: str) -> str:
        """The call for what has no attribute of that name; "": that of _CALLS, or none."""
        return ""


class OutOfBounds(InvalidInput):
    """A value outside its field's bounds."""


class WrongType(OutOfBounds, TypeError):
    """A value of another type than its field's."""


class WrongArguments(InvalidInput, TypeError):
    """A call with a missing, misspelt or superfluous argument."""


class NoSuchIndex(InvalidInput, IndexError):
    """A position beyond the end of a list or table."""


class NotLive(InvalidInput):
    """A change of a field that is fixed once a run has started."""


class ShapeMismatch(InvalidInput):
    """Spaces, shapes or dtypes that do not fit each other."""


class EnvironmentFailed(WorkbenchError):
    """An environment raised in its constructor, reset or step; the message ends with its traceback."""


class NetworkFailed(WorkbenchError):
    """A network raised, or returned something of the wrong shape."""


class AlgorithmFailed(WorkbenchError):
    """An algorithm that a user wrote raised, or broke a rule of `workbench.algorithms.interface.Algorithm`."""

    @classmethod
    def of(cls, call: str, error: BaseException, when: str = "") -> AlgorithmFailed:
        """The error for what its code raised in `call`, with the nearest attribute and the traceback."""
        hint = ""
        if isinstance(error, AttributeError) and error.obj is not None:
            instead = getattr(type(error.obj), "_instead_of_missing", None)
            hint = (instead(error.obj, error.name) if instead else
                    nearest(error.name, (name for name in dir(error.obj) if not name.startswith("_"))))
        return cls(f"{call} raised {type(error).__name__}{when}: {error}{hint and '.' + hint}\n\n"
                   + "".join(traceback.format_exception(error)).rstrip())


class RunNotFound(WorkbenchError, KeyError):
    """There is no run of that name or directory."""


class RunExists(WorkbenchError):
    """A run of that name exists already."""


class RunNotAlive(WorkbenchError):
    """The run has ended, or its supervisor is dead."""


class RunAlive(WorkbenchError):
    """The call needs a run that has ended; stop it first."""


class RunFailed(WorkbenchError):
    """The run stopped with an error."""


class RunPaused(WorkbenchError):
    """The run paused itself, as after updates that were not finite; it goes on when somebody resumes it."""


class WaitTimeout(WorkbenchError, TimeoutError):
    """`wait` ran out of time; the run goes on."""


class HomeNotWritable(WorkbenchError, OSError):
    """The workbench's home directory cannot be written."""


class StorageFailed(WorkbenchError, OSError):
    """A file of a run cannot be written or read: the disk is full, failed, or the format is a newer one."""


class AccessDenied(WorkbenchError, PermissionError):
    """A bad token, or a file that others could have written."""


class ConnectionLost(WorkbenchError, ConnectionError):
    """The other process has ended, or cannot be reached."""


class CheckpointCorrupt(WorkbenchError):
    """A checkpoint is torn, or was changed after it was written."""


class MissingPackage(WorkbenchError, ImportError):
    """An optional package is not installed; the message has the command that installs it."""


def checked_arguments(**remedies: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator of functions that raise WrongArguments, with the nearest keyword, for Python's bare TypeError.

    Args:
        remedies: what to give for an argument that is missing, or instead of one that there is not, by its name.
    """
    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def checked(*positional: P.args, **keywords: P.kwargs) -> R:
            try:
                signature.bind(*positional, **keywords)
            except TypeError as error:
                reason = _misfit(signature, keywords, remedies, str(error))
                raise WrongArguments(f"{function.__name__}(): {reason}") from None
            try:
                return function(*positional, **keywords)
            except UnknownName as error:  # a field of **fields that is unknown may be an argument of the call, misspelt
                own = _misspelt(error.name, set(signature.parameters) - {*keywords})
                hint = remedies.get(error.name) or (f"Did you mean {own[0]!r}?" if own else "")
                if hint and error.name in keywords:
                    raise WrongArguments(
                        f"{function.__name__}(): there is no argument {error.name!r}. {hint}") from None
                raise

        return checked

    return decorate


def _misfit(signature: inspect.Signature, keywords: Iterable[str], remedies: dict[str, str], python_says: str) -> str:
    """Which argument does not fit a signature, and what to do."""
    names = [name for name, parameter in signature.parameters.items() if name != "self"]
    by_keyword = [name for name in names if signature.parameters[name].kind is inspect.Parameter.KEYWORD_ONLY]
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())
    if not takes_any and (unknown := [name for name in keywords if name not in names]):
        known = f" Known: {', '.join(names)}." if names else " It takes none."
        hint = f" {remedies[unknown[0]]}" if unknown[0] in remedies else nearest(unknown[0], names) or known
        return f"there is no argument {unknown[0]!r}.{hint}"
    if remedy := next((text for name, text in remedies.items() if repr(name) in python_says), ""):
        return f"{python_says}. {remedy}"
    if not by_keyword and (remedy := remedies.get(names[-1], "") if names else ""):
        return f"{python_says}. {remedy}"
    if not names:
        return f"{python_says}. It takes none."
    if takes_any and not by_keyword:
        return f"{python_says}. Give fields by name, such as learning_rate=3e-4."
    return f"{python_says}. Give arguments by name: {', '.join(f'{name}=...' for name in by_keyword) or 'name=...'}."


def record_of(error: BaseException) -> dict[str, str]:
    """{"type", "message"}, of which `error_of` makes the error again: so it crosses a process border without pickle."""
    kind = type(error).__name__
    if isinstance(error, WorkbenchError):
        return {"type": kind, "message": str(error)}
    return {"type": "WorkbenchError", "message": f"{kind}: {error}"}


def lines_of(error: BaseException) -> list[str]:
    """Its message by lines; the name of its class where it has none."""
    return str(error).strip().splitlines() or [type(error).__name__]


def error_of(record: Mapping[str, object]) -> WorkbenchError:
    """The error of a `record_of`. Raises KeyError for another record."""
    name, message = str(record["type"]), str(record["message"])
    kind = globals().get(name)
    if isinstance(kind, type) and issubclass(kind, WorkbenchError):
        return kind(message)
    return WorkbenchError(f"{name}: {message}" if name else message)


def answer_in(printed: str, otherwise: str) -> dict[str, Any]:
    """The JSON in the last line that a process printed. Raises the error in it, or WorkbenchError(otherwise)."""
    try:
        answer: dict[str, Any] = json.loads(printed.strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise WorkbenchError(otherwise) from None
    if "error" in answer:
        raise error_of(answer["error"])
    return answer
