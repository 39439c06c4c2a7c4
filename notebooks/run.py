"""Executes a notebook from beginning to end without a screen, printing what its cells print.

    python notebooks/run.py notebooks/01-first-run.ipynb --set frames=20000 --output build

The kernel is this interpreter, over a socket file instead of TCP ports, in an empty working directory. The executed
notebook is kept, also when a cell fails; the cells after that one have no outputs, whatever the file had. Widget state
is left out, so that it shows what a reader would see.
"""

from __future__ import annotations

import argparse
import ast
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbclient import NotebookClient

CELL_TIMEOUT_S = 900


def main() -> int:
    """Exit code 0 if every cell ran."""
    parser = argparse.ArgumentParser(description="Execute a notebook without a screen.")
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--output", type=Path, default=Path("build"), help="folder of the executed notebook")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the notebook")
    parser.add_argument("--share", type=float, default=1.0, help="of the notebook, from its beginning: 0.5 is a half")
    options = parser.parse_args()
    parameters = {name: ast.literal_eval(value) for name, _, value in (one.partition("=") for one in options.set)}
    executed = options.output.absolute() / f"{options.notebook.stem}.executed.ipynb"
    with kernel() as client:
        failure = execute(options.notebook, executed, parameters, client=client, share=options.share)
    print(f"\nexecuted notebook: {executed}")
    return 1 if failure else 0


@contextmanager
def kernel() -> Iterator[NotebookClient]:
    """A kernel in an empty working directory, and the client by which notebooks are executed in it."""
    # jsonschema, which these import, builds 39 grammars of that package for a second; it does without where it is none.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    import nbclient
    import nbformat
    from traitlets.config import Config

    with tempfile.TemporaryDirectory(prefix="nb-") as folder:
        os.environ.update(JUPYTER_RUNTIME_DIR=folder, JUPYTER_PREFER_ENV_PATH="1", PYDEVD_DISABLE_FILE_VALIDATION="1")
        os.environ.pop("JUPYTER_PATH", None)
        config = Config()
        config.KernelManager.transport = "ipc"
        config.KernelManager.ip = f"{folder}/ipc"  # absolute: the kernel's working directory is not ours
        client = nbclient.NotebookClient(
            nbformat.v4.new_notebook(), timeout=CELL_TIMEOUT_S, startup_timeout=120, kernel_name="python3",
            config=config, resources={"metadata": {"path": folder}}, on_cell_executed=_report,
        )
        with client.setup_kernel():
            yield client


def execute(
    notebook: Path, executed: Path, parameters: dict[str, Any], *, client: NotebookClient, share: float = 1.0
) -> str:
    """Run the cells, or the first `share` of them, and write the executed notebook.

    Returns "", or the traceback of the cell that failed.
    """
    import nbclient
    import nbformat

    cells = nbformat.read(notebook, as_version=4)
    for cell in cells.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None  # an old verdict must not pass for one of this execution
    _insert(cells, parameters)
    cells.cells = cells.cells[:math.ceil(share * len(cells.cells))]
    executed.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    client.nb = cells
    try:
        client.execute(cleanup_kc=False)
    except nbclient.exceptions.CellExecutionError as error:
        print(error, file=sys.stderr)
        return str(error)
    finally:
        for cell in cells.cells:
            if cell.cell_type == "code":
                cell.outputs = _joined(cell.outputs)
        cells.metadata.pop("widgets", None)  # nbclient needs the state while it runs, for widgets with outputs
        nbformat.write(cells, executed)
        print(f"\n{time.monotonic() - started:.0f} s in the notebook", flush=True)
    return ""


def _insert(cells: Any, parameters: dict[str, Any]) -> None:
    """Put a cell with `parameters` after the one tagged "parameters". Raises SystemExit if it does not set them."""
    import nbformat

    if not parameters:
        return
    place = next((i for i, cell in enumerate(cells.cells) if "parameters" in cell.metadata.get("tags", [])), None)
    source = "" if place is None else cells.cells[place].source
    known = {one.id for one in ast.walk(ast.parse(source)) if isinstance(one, ast.Name)}
    if place is None or not parameters.keys() <= known:
        raise SystemExit(f"the notebook has no parameter {sorted(parameters.keys() - known)}; it has {sorted(known)}")
    assignments = "\n".join(f"{name} = {value!r}" for name, value in parameters.items())
    cells.cells.insert(place + 1, nbformat.v4.new_code_cell(assignments))


def _report(cell: Any, cell_index: int, execute_reply: Any) -> None:
    """Print what the cell printed, and the text of what it showed. Its outputs stay: a later cell may change them."""
    for output in _joined(cell.get("outputs", [])):
        if output.output_type == "stream":
            print(output.text, end="", flush=True, file=sys.stderr if output.name == "stderr" else sys.stdout)
        elif output.output_type in ("display_data", "execute_result"):
            print(output.data.get("text/plain", ""), flush=True)


def _joined(outputs: list[Any]) -> list[Any]:
    """The outputs with pieces of a stream put together; of a line that was written over, only how it ends is kept."""
    joined: list[Any] = []
    for output in outputs:
        if joined and output.output_type == "stream" == joined[-1].output_type and output.name == joined[-1].name:
            joined[-1].text += output.text
        else:
            joined.append(output.copy())
    for output in joined:
        if output.output_type == "stream":
            output.text = "\n".join(line.rstrip("\r").split("\r")[-1] for line in output.text.split("\n"))
    return joined


if __name__ == "__main__":
    sys.exit(main())
