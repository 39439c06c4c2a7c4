"""Parts of a benchmark in processes of their own, which get lines and answer in lines of JSON.

No command line: the scripts that have parts use it. A part ends when its standard input does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any


def tell(answer: Any) -> None:
    """Answer, in a part."""
    print(json.dumps(answer), flush=True)


class PartEnded(SystemExit):
    """A part gave no answer; says why in one line."""


class Part:
    """A script in a process of its own, with the variables of a run's processes. Leaving the context ends it."""

    def __init__(self, script: str | Path, *words: str, quiet: bool = False) -> None:
        """Start it; where it is quiet, only `PartEnded` has its errors, and of them the last line."""
        from workbench.supervisor.hosts.host import variables

        self._errors = tempfile.TemporaryFile("w+") if quiet else None  # noqa: SIM115 - closed in __exit__
        self.process = subprocess.Popen([sys.executable, str(script), *words], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, stderr=self._errors,
                                        env={**os.environ, **variables(1)})

    def __enter__(self) -> Part:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self._errors:
            self._errors.close()

    def order(self, words: str = "") -> None:
        """Give it a line."""
        with suppress(BrokenPipeError):  # it has ended: `told` says why
            self.process.stdin.write(f"{words}\n")
            self.process.stdin.flush()

    def told(self) -> Any:
        """Its next answer; what else it prints is passed over. Raises PartEnded."""
        for line in self.process.stdout:
            with suppress(ValueError):
                return json.loads(line)
        said = [f"{' '.join(self.process.args[1:])} ended with exit code {self.process.wait()}"]
        if self._errors:
            self._errors.seek(0)
            said += [line.strip() for line in self._errors if line.strip()]
        raise PartEnded(said[-1])

    def asked(self, words: str = "") -> Any:
        """What it answers to a line."""
        self.order(words)
        return self.told()
