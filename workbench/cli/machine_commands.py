"""Commands around runs: plans and recipes for machines, a Jupyter kernel, and the lessons in JupyterLab."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from workbench import imports
from workbench.cli.parser import Commands, argument
from workbench.cli.values import pair, parse_number
from workbench.config import settings
from workbench.config.signatures import all_settings
from workbench.errors import InvalidInput, MissingPackage, UnknownName

command = Commands()


@command("plan", "plan the machines for a speed, or the speed of machines",
         argument("environment", help="such as ALE/Pong-v5"),
         argument("fields", nargs="+", metavar="NAME=VALUE", help="arguments of wb.plan, such as frames_per_second=1e6 "
                  "accelerator=tpu-v3-core learner_steps_per_second=40000"))
def _plan(args: argparse.Namespace) -> None:
    import inspect

    from workbench.planning import plan

    known = set(inspect.signature(plan).parameters) - {"environment"}
    fields: dict[str, Any] = {}
    for name, text in map(pair, args.fields):
        if name not in known:
            raise UnknownName.among("argument of plan", name, known)
        fields[name] = text if name in ("algorithm", "accelerator") else parse_number(name, text)
    print(plan(args.environment, **fields))


@command("recipe", "print a file that starts the workbench on a cluster",
         argument("kind", help="one of ray-cluster, kuberay-cluster, kuberay-job, slurm, sky"),
         argument("words", nargs="*", metavar="NAME or FIELD=VALUE", help="of a run, whose configuration to take; and "
                  "fields, such as actors=128 learning_rate=3e-4"))
def _recipe(args: argparse.Namespace) -> None:
    from workbench import rundir
    from workbench.planning.recipes import Cluster, recipe

    names = [word for word in args.words if "=" not in word]
    if len(names) > 1:
        raise InvalidInput(f"Give one run, and fields as NAME=VALUE: {', '.join(names)}.")
    run = rundir.find(names[0]) if names else None
    known, fields = {**all_settings(), **(run.config().all_settings() if run else {}), **settings(Cluster)}, {}
    for name, text in map(pair, [word for word in args.words if "=" in word]):
        if name not in known:
            raise UnknownName.among("field of a cluster or of its run", name, known)
        fields[name] = known[name].typed(text)
    print(recipe(args.kind, run=run.path if run else None, **fields), end="")


@command("kernel", "write a Jupyter kernel for this interpreter and print its folder",
         argument("action", choices=("install",), help="the only action"),
         argument("--device", help="device of its runs, one of cpu, cuda, tpu (default: that of this machine)"),
         argument("--prefix", help="of the environment whose Jupyter lists it (default: your own Jupyter)"),
         argument("--sys-prefix", action="store_true", help="the same as --prefix with this environment"))
def _kernel(args: argparse.Namespace) -> None:
    from workbench.cli.kernelspec import install

    if args.prefix and args.sys_prefix:
        raise InvalidInput("--prefix and --sys-prefix exclude each other. Give one of them.")
    print(install(args.device, prefix=sys.prefix if args.sys_prefix else args.prefix))


@command("lab", "open JupyterLab on the lessons",
         argument("arguments", nargs="*", help="passed on to JupyterLab, after --, such as --no-browser"))
def _lab(args: argparse.Namespace) -> None:
    """Copies missing lessons into the current folder and becomes JupyterLab (bound to this machine, with a token)."""
    import importlib.util

    from workbench.lessons import notebook_files

    if importlib.util.find_spec("jupyterlab") is None:
        raise MissingPackage(f"`workbench lab` needs JupyterLab. Install it: {imports.pip_install('lab')}")
    for file in (*notebook_files.every(), *notebook_files.figures()):
        if not os.path.lexists(copy := Path.cwd() / file.relative_to(notebook_files.folder())):
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(file, copy)
    root = ["--allow-root"] if os.geteuid() == 0 else []  # the usual user of a container
    first = str(Path.cwd() / notebook_files.FIRST)
    side_panel = Path(__file__).parents[2] / "jupyter"  # of a checkout, as it was built last; a wheel has installed it
    for variable in ("JUPYTER_PATH", "JUPYTER_CONFIG_PATH") if (side_panel / "labextensions").is_dir() else ():
        os.environ[variable] = os.pathsep.join(filter(None, (str(side_panel), os.environ.get(variable))))
    os.execv(sys.executable, [sys.executable, "-P", "-m", "jupyterlab", first, *root, *args.arguments])
