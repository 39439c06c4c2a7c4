"""Text of somebody who wants it to be more than text, and a run that says it wherever it can."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.widgets import recorded
from workbench.metrics import MetricsWriter
from workbench.rundir import RunDirectory

MARK = "zzmark"  # in all hostile text, to find it again
PIECES = (
    "<script>window.broken=1</script>", "<img src=x onerror=window.broken=1>", "</td></tr></table>",
    "[x](javascript:window.broken=1)", "![x](http://evil.example/x.png)", "```", "````python", "\n# title\n", "|", "\\",
    "`", "**", "~~", "&lt;", "&#60;", "<!--", "]]>", '" onload="window.broken=1', "' onclick='x", "</svg>", "</pre>",
    "{{7*7}}", "$x$", "<a href='http://evil.example'>", "\u202e", "\x00", "\x1b[31m", "import os; os.system('x')",
    "<http://evil.example>", "</script><svg/onload=window.broken=1>", "<iframe srcdoc='<script>top.broken=1</script>'>",
)
TEXT = MARK + MARK.join(PIECES)


def file_name(text: str) -> str:
    """As much of a text as a name of a folder can be."""
    return text.replace("/", "∕").replace("\0", "")[:60]


def run(home: Path, text: str, name: str = "") -> RunDirectory:
    """A run whose files say `text` wherever words may stand."""
    made = recorded.vtrace("plain").path
    run = RunDirectory(made.rename(home / "runs" / (name or file_name(text))))
    record = json.loads(run.record.read_text())
    record |= {"preset": text, "machine": {text: text}, "versions": {text: text},
               "code": {text: True, "environment": True}, "error": {"type": text, "message": text}, "state": "failed",
               "parent": {"checkpoint": text, "take": text, "run": text}}
    run.record.write_text(json.dumps(record))
    (run.code / "environment.pkl").write_bytes(text.encode(errors="replace"))
    writer = MetricsWriter(run.metrics)
    writer.event("tune", text, progress=recorded.at(70),
                 data={"old": {"learning_rate": text, text: 1}, "new": {"learning_rate": text, text: 2}})
    writer.event("error", text, progress=recorded.at(71))
    writer.scalars(recorded.at(121), {text: 1.0})
    writer.status({**recorded.STATUS, "reason": text, "hint": text, "warning": text, "device": text})
    writer.close()
    return run


def replaced(path: Path, by: str) -> None:
    """Put something else in the place of a file: of that kind, or a file with that text."""
    if path.is_file():
        path.unlink()
    path.parent.mkdir(exist_ok=True)
    if by == "fifo":
        os.mkfifo(path)
    elif by == "device":
        path.symlink_to("/dev/zero")
    elif by == "folder":
        path.mkdir()
    elif by == "dangling link":
        path.symlink_to(path.with_name("nowhere"))
    elif by == "sparse":
        with open(path, "wb") as file:
            file.truncate(2**40)
    else:
        path.write_bytes(by.encode())
