from __future__ import annotations

import pytest

from tests.learner import counting


@pytest.fixture(params=[False, True], ids=["exact", "padded"])
def padding(request, monkeypatch):
    """The test with batches as they come, and once more filled up to the sizes that an accelerator wants."""
    monkeypatch.setattr(counting, "PADS", request.param)
