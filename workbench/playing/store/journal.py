"""The journal of an episode that a person plays: a line of JSON on how it began, then one for each step.

It lies beside the future folder of the rollout, and is removed when that is complete. The same seed and actions give
the same episode, so the journal leads back to the step at which the process was killed.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbench.errors import InvalidInput
from workbench.rundir import write_atomically
from workbench.rundir.files import LARGEST_LIST, LARGEST_RECORD, content, to_append

JOURNAL = ".begun"  # suffix of its name
LONGEST = 1_000_000  # steps: a person plays so many in half a day

Step = tuple[Any, str, float]  # actions of all rows, who chose the first one ("person" or "agent"), its reward


class Journal:
    """Writes a journal. On a full disk the game continues, and the journal ends with the last step that was written."""

    def __init__(self, path: Path, opening: dict[str, Any]) -> None:
        self.path, self._opening = path, opening
        self._begun = self._ended = False

    def append(self, step: Step) -> None:
        """Add a step; the first one creates the file."""
        if self._ended:
            return
        try:
            if not self._begun:
                write_atomically(self.path, _line(self._opening).encode())  # in the place of a link, not through it
            with to_append(self.path) as file:
                file.write(_line(step).encode())
        except OSError:
            self._ended = True  # a later step would not follow the last one
        self._begun = True

    def rewrite(self, steps: list[Step]) -> None:
        """Write the whole journal anew, since its last line may be torn."""
        self._begun = True
        with suppress(OSError):
            write_atomically(self.path, "".join(map(_line, [self._opening, *steps])).encode())

    def remove(self) -> None:
        """Delete the file, once the episode is stored or dropped."""
        with suppress(OSError):
            self.path.unlink()


def read_journal(path: Path) -> tuple[dict[str, Any], list[Step]]:
    """The opening of an episode, and its steps without a torn one. Raises InvalidInput."""
    entries = []
    try:
        for line in content(path, largest=LARGEST_LIST).split(b"\n", LONGEST + 2):
            with suppress(ValueError):
                entries.append(json.loads(line[:LARGEST_RECORD]))  # a longer one is none then
        opening, *steps = entries
        if not isinstance(opening["title"], str) or len(steps) > LONGEST:
            raise ValueError
        steps = [(rows, str(who), 0.0 + reward) for rows, who, reward in steps]
    except OSError as error:
        raise InvalidInput(f"there is no episode to go on with in {path}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        raise InvalidInput(f"{path} is not the journal of an episode. Delete it.") from None
    return opening, steps


def _line(entry: Any) -> str:
    return json.dumps(entry) + "\n"
