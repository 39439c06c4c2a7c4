"""The Colab notebooks' install cell, run for real in an environment that has all packages but this one."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import nbformat
import pytest

from tests.conftest import CHECKOUT

NOTEBOOK = CHECKOUT / "launchers" / "colab" / "rl-workbench.ipynb"
SET_IT = "Set `source` in the cell above to a wheel of RL Workbench"


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """An interpreter that finds every package of this one but the workbench; pip installs into a folder of its own."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    packages = tmp_path / "packages"
    packages.mkdir()
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if "workbench" not in each.name:
            (packages / each.name).symlink_to(each)
    (site,) = (tmp_path / "bare" / "lib").glob("python*/site-packages")
    (site / "others.pth").write_text(f"{packages}\n")
    return tmp_path / "bare" / "bin" / "python"


@pytest.fixture
def served(wheel: Path) -> Iterator[str]:
    """The URL of a server that has the wheel."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(wheel.parent)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def ran(python: Path, source: str = "", sha256: str = "") -> subprocess.CompletedProcess[str]:
    """The two cells, with these values; pip is offered no index."""
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    parameters = next(one.source for one in cells if one.source.startswith("source ="))
    install = next(one.source for one in cells if "install" in one.metadata.get("tags", []))
    given = f"{source=}\n{sha256=}" if source else ""
    code = "\n".join([parameters, given, install, "print(wb.__file__)"])
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PIP_FIND_LINKS")}
    environment |= {"PIP_NO_INDEX": "1", "PIP_NO_COMPILE": "1", "HOME": str(python.parent)}
    return subprocess.run([python, "-c", code], cwd=python.parent, env=environment, capture_output=True, text=True)


def hashed(wheel: Path) -> str:
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def is_installed(python: Path) -> bool:
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    return any("workbench" in each.name for each in site.iterdir())


def test_a_wheel_with_the_right_hash_is_installed(bare: Path, served: str, wheel: Path) -> None:
    done = ran(bare, f"{served}/{wheel.name}", hashed(wheel).upper() + "\n")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(bare.parents[1])
    again = ran(bare)
    assert again.returncode == 0 and again.stdout == done.stdout, "what can be imported needs no source"


def test_nothing_is_installed_but_what_the_reader_named(bare: Path, wheel: Path) -> None:
    altered = bare.parents[2] / wheel.name
    altered.write_bytes(wheel.read_bytes() + b"more")
    refused = f"has the SHA-256 {hashed(altered)}, not '{hashed(wheel)}': nothing was installed"
    for source, sha256, message in (
        (str(altered), hashed(wheel), refused),
        (str(wheel), "", "not '': nothing was installed"),
        ("", "", SET_IT),
        ("rl" + "-workbench", "", SET_IT),
        ("git+https://example.invalid/workbench", "", SET_IT),
        ("git+https://example.invalid/workbench@main", "", SET_IT),
    ):
        done = ran(bare, source, sha256)
        assert done.returncode == 1 and message in done.stderr.splitlines()[-1], (source, done.stderr)
    assert not is_installed(bare)
