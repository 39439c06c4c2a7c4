"""What a run's processes get of the environment of the process that starts them."""

from __future__ import annotations

import os
import site
import sys

import pytest

from workbench.launchers.local import clean_environment


def test_what_lies_beside_the_notebook_is_found_and_what_is_installed_keeps_its_order(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a virtual environment that sees the system's packages, its own come first: PYTHONPATH would be before both."""
    own, system, user = "/env/lib/site-packages", "/usr/lib/python3/dist-packages", "/home/one/.local/site-packages"
    monkeypatch.setattr(site, "getsitepackages", lambda: [own, system])
    monkeypatch.setattr(site, "getusersitepackages", lambda: user)
    path = ["", "/beside", os.path.dirname(os.__file__), own, user, system, *site.getsitepackages()]
    found = clean_environment({"HOME": "/home/one", "PYTHONPATH": system}, path)
    assert {name: found[name] for name in ("HOME", "PYTHONPATH")} == {
        "HOME": "/home/one", "PYTHONPATH": os.pathsep.join([os.getcwd(), "/beside"])}
    assert not {one for one in clean_environment({}, sys.path)["PYTHONPATH"].split(os.pathsep)
                if one.endswith("site-packages")}
