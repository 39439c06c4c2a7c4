"""Writes docs/errors.md: the tree of errors, with the remedy of each, from the code. `python docs/errors.py`"""

from __future__ import annotations

from pathlib import Path

from workbench import errors
from workbench.errors import WorkbenchError

PAGE = Path(__file__).with_suffix(".md")
HEAD = """# Errors

The tree is made from the code by `python docs/errors.py`; a test keeps it fresh and complete.

Each error that the workbench raises on purpose derives from `wb.WorkbenchError`. Most of them also derive from the
error of Python's that they are a kind of, so `except ValueError` catches a value out of bounds. The message says what
is wrong, which value, and what to do; a misspelt name comes with the nearest one. In a notebook an error shows your
own line and the message; `%tb` shows the whole traceback.

```python
from workbench.errors import UnknownName

try:
    wb.launch("CartPole-v1", learning_rat=1e-3)
except UnknownName as error:
    print(error)          # unknown hyperparameter 'learning_rat'. Did you mean 'learning_rate'?
```

What one sees before one knows the error's name: [troubleshooting](troubleshooting.md).
"""

REMEDIES = {
    "WorkbenchError": "Read the message. A bare WorkbenchError comes from another process, with its text.",
    "InvalidInput": "Change the argument that the message names. Nothing was started or changed.",
    "UnknownName": "Take the name that the message proposes, or list the names: `wb.environments()`, `wb.fields()`, "
                   "`run.metric_names`, `wb.runs()`.",
    "OutOfBounds": "Choose a value within the bounds that the message gives; `wb.fields(name)` has them, too.",
    "WrongType": "Give the kind of value that the message asks for: a number, True or False, text.",
    "WrongArguments": "Give arguments by name, as the message lists them.",
    "NoSuchIndex": "Count from 0, or from -1 backwards; `len(table)` says how many there are.",
    "NotLive": "Call `run.fork(...)` with that field, or `run.scale(actors=...)`; a field on which weights depend "
               "needs a new run. The message has the call.",
    "ShapeMismatch": "Give a network, wrapper or checkpoint that fits the environment's spaces; the message has both "
                     "shapes.",
    "EnvironmentFailed": "Mend the environment: the message ends with its traceback. "
                         "`wb.check_environment` tells which rule it breaks.",
    "NetworkFailed": "Mend the network's constructor or forward pass: the message ends with its traceback, or has "
                     "both shapes.",
    "AlgorithmFailed": "`wb.check_algorithm(YourClass)` names the rule that it breaks before any run.",
    "RunNotFound": "`wb.runs()` lists the runs. A deleted one is in `$WORKBENCH_HOME/trash`; move it back. Another "
                   "`WORKBENCH_HOME` has other runs.",
    "RunExists": "Choose another name, or go on with that run: `wb.attach(name)`, `wb.resume(name)`.",
    "RunPaused": "Change what the message names (`run.tune`), then `run.resume()`; or `run.fork(...)` from an earlier "
                 "checkpoint.",
    "RunNotAlive": "`wb.resume(name)` starts it from its newest checkpoint; `run.status.reason` says why it ended.",
    "RunAlive": "`run.stop()` first.",
    "RunFailed": "The message has the traceback of the process that failed; its log is in `logs/` of the run's "
                 "directory. Mend the cause, then `wb.resume(name)`; "
                 "`wb.resume(name, algorithm=YourClass)`, mended under its old name, where the algorithm is yours, and "
                 "`network=YourNetwork`, `environment=YourClass`, `wrappers=[...]`, where these are.",
    "WaitTimeout": "The run goes on: wait again, longer, or look at `run.status.hint` for what makes it slow.",
    "HomeNotWritable": "Set `WORKBENCH_HOME` to a folder on a disk with room that you can write.",
    "StorageFailed": "Free space, or mend the disk; a live run tries again by itself. A file of a newer format needs "
                     "the version that wrote it. A damaged file is moved away as the message says.",
    "AccessDenied": "Use a directory of your own. Code or a checkpoint that another person wrote is loaded only with "
                    "`trust_code=True`; see [security](security.md).",
    "ConnectionLost": "Look at `run.state`: a supervisor that was killed is replaced by `wb.resume(name)`. On "
                      "several machines, see that they reach each other.",
    "CheckpointCorrupt": "Take an older checkpoint: `run.checkpoints` marks the damaged one, or has it not where its "
                         "`meta.json` is damaged, and a resume passes it over by itself.",
    "MissingPackage": "Run the command in the message, then restart the kernel.",
}


def children(kind: type) -> list[type]:
    """The errors that derive from `kind` directly, in the order in which the module declares them."""
    return [each for each in vars(errors).values()
            if isinstance(each, type) and issubclass(each, WorkbenchError) and each.__bases__[0] is kind]


def tree(kind: type, depth: int = 0) -> list[tuple[int, type]]:
    """An error and all below it, with their depths."""
    return [(depth, kind), *(entry for child in children(kind) for entry in tree(child, depth + 1))]


def also(kind: type) -> str:
    """The errors of Python's that it is a kind of as well."""
    return ", ".join(f"`{base.__name__}`" for base in kind.__bases__ if base.__module__ == "builtins"
                     and base is not Exception)


def page() -> str:
    """The text of docs/errors.md. Raises KeyError for an error without a remedy."""
    lines = ["", "| error | also a | meaning | what to do |", "|---|---|---|---|"]
    for depth, kind in tree(WorkbenchError):
        meaning = " ".join((kind.__doc__ or "").split()).replace("|", "\\|")
        lines.append(f"| {'&nbsp;&nbsp;&nbsp;' * depth}`{kind.__name__}` | {also(kind)} | {meaning} | "
                     f"{REMEDIES[kind.__name__]} |")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name} has {len(tree(WorkbenchError))} errors.")
