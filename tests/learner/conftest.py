from __future__ import annotations

import pytest
import torch

from tests.learner import counting
from tests.learner.replaying import ReplayingDevice
from workbench.learner.devices.device import Device

DEVICES = {"exact": lambda: Device("cpu", precision="fp32"),
           "padded": lambda: Device("cpu", precision="fp32", pads=True), "recorded": ReplayingDevice}
HERE = ["exact", pytest.param("padded", marks=pytest.mark.full), "recorded"]
if torch.cuda.is_available():
    from workbench.learner.devices.cuda import CudaDevice

    DEVICES["graphs"] = lambda: CudaDevice(precision="fp32")
    HERE.append("graphs")


@pytest.fixture(params=HERE)
def padding(request, monkeypatch):
    """The test with batches as they come, filled up to the sizes that an accelerator wants, and recorded as well."""
    monkeypatch.setattr(counting, "device", DEVICES[request.param])
