"""What the tests of lessons share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import private_home_with_sweeps


@pytest.fixture
def sweeping_home() -> Iterator[Path]:
    """A home whose runs and sweeps are ended after the test."""
    yield from private_home_with_sweeps()
