from __future__ import annotations

import pytest

from tests.learner import counting
from tests.learner.replaying import ReplayingDevice
from workbench.learner.devices.device import Device

DEVICES = {"exact": lambda: Device("cpu", precision="fp32"),
           "padded": lambda: Device("cpu", precision="fp32", pads=True), "recorded": ReplayingDevice}


@pytest.fixture(params=["exact", pytest.param("padded", marks=pytest.mark.full), "recorded"])
def padding(request, monkeypatch):
    """The test with batches as they come, filled up to the sizes that an accelerator wants, and recorded as well."""
    monkeypatch.setattr(counting, "device", DEVICES[request.param])
