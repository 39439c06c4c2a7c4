"""Writes Kaggle's and Lightning's notebooks from Colab's, which is the recipe: `python launchers/other_notebooks.py`.

A place differs in its texts and in the folder that outlives the machine; the code cells stay the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RECIPE = HERE / "colab" / "rl-workbench.ipynb"

PLACES: dict[str, dict[str, str]] = {
    "kaggle": {
        "cell-00": """\
# RL Workbench on Kaggle

Distributed reinforcement learning on a Kaggle CPU, GPU or TPU: choose it under *Settings → Accelerator* before you begin, and switch *Internet* on, since the next cell installs packages. Nothing trains inside this notebook: a cell starts background processes and returns, and the learner's process is the only one that touches the accelerator. Checkpoints are copied to `/kaggle/working`.

Kaggle ends a session when nobody looks at the page for a while, and after some hours in any case. Under *Settings → Persistence* choose *Files only* before you begin: then `/kaggle/working` is there again in the next session of this notebook. *Save Version* keeps it as the version's output in any case.""",
        "cell-04": """\
## Prepare

`folder` is what outlives the machine. In another notebook, add the output of a saved version as input, and restore from its read-only folder under `/kaggle/input`: `colab.restored(name, "/kaggle/input/.../rl-workbench")`. `folder = None` keeps nothing.""",
        "folder": '"/kaggle/working/rl-workbench"',
        "name": '"pong-on-kaggle"',
        "cell-07": """\
## Launch, or go on

Run this cell again in the next session: the run comes back from the folder and goes on from its newest checkpoint that is whole. (For code typed in a cell, add `trust_code=True` to `restored`, if that folder is yours alone.)""",
        "cell-13": """\
## What is kept

A checkpoint is in the folder some seconds after it was written; `error` says why one is not.""",
    },
    "lightning": {
        "cell-00": """\
# RL Workbench on Lightning

Distributed reinforcement learning in a Studio of Lightning AI: choose its machine (CPU or GPU) before you begin. Nothing trains inside this notebook: a cell starts background processes and returns, and the learner's process is the only one that touches the accelerator. Checkpoints are copied to the Studio's own folder, `/teamspace/studios/this_studio`.

A Studio's files stay when it stops or changes its machine; its processes do not. Stop the run (the last cell) before you switch the machine, and go on with the cell that launches.""",
        "cell-04": """\
## Prepare

`folder` is what outlives the machine. `folder = None` keeps nothing.""",
        "folder": '"/teamspace/studios/this_studio/rl-workbench"',
        "name": '"pong-on-lightning"',
        "cell-07": """\
## Launch, or go on

Run this cell again when the Studio has started anew: the run comes back from the folder and goes on from its newest checkpoint that is whole. (For code typed in a cell, add `trust_code=True` to `restored`, if that folder is yours alone.)""",
        "cell-13": """\
## What is kept

A checkpoint is in the folder some seconds after it was written; `error` says why one is not.""",
    },
}


def notebook(place: str) -> dict[str, Any]:
    """The notebook of a place in PLACES, as JSON data. Raises ValueError if the recipe lacks what the place replaces."""
    texts = dict(PLACES[place])
    folder, name = texts.pop("folder"), texts.pop("name")
    made: dict[str, Any] = json.loads(RECIPE.read_text())
    made["metadata"] = {key: made["metadata"][key] for key in ("kernelspec", "language_info")}
    cells = {cell["id"]: cell for cell in made["cells"]}
    for key, text in texts.items():
        cells[key]["source"] = text.splitlines(keepends=True)
    parameters = "".join(cells["cell-05"]["source"])
    for old, new in (('"/content/drive/MyDrive/rl-workbench"', folder), ('"pong-on-colab"', name)):
        if old not in parameters:
            raise ValueError(f"{RECIPE} has no {old} among its parameters")
        parameters = parameters.replace(old, new)
    cells["cell-05"]["source"] = parameters.splitlines(keepends=True)
    return made


def text(place: str) -> str:
    """The notebook as the file has it."""
    return json.dumps(notebook(place), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for each in PLACES:
        (HERE / each).mkdir(exist_ok=True)
        (HERE / each / "rl-workbench.ipynb").write_text(text(each))
