from __future__ import annotations

import pytest
import torch

from tests.learner import counting
from tests.learner.replaying import ReplayingDevice
from workbench.learner.devices.device import Device

DEVICES = {"exact": lambda: Device("cpu", precision="fp32"),
           "padded": lambda: Device("cpu", precision="fp32", pads=True), "recorded": ReplayingDevice}
# Devices and transports take turns; make test-all has each with both.
ALSO = [("padded", "auto"), ("recorded", "auto"), ("exact", "grpc")]
HERE = [("exact", "auto"), ("recorded", "grpc"), *(pytest.param(pair, marks=pytest.mark.full) for pair in ALSO)]
if torch.cuda.is_available():
    from workbench.learner.devices.cuda import CudaDevice

    DEVICES["graphs"] = lambda: CudaDevice(precision="fp32")
    HERE.append(("graphs", "auto"))


@pytest.fixture(params=HERE, ids="-".join)
def padding(request, monkeypatch):
    """The test with batches as they come, filled up to the sizes that an accelerator wants, and recorded as well; with
    steps through shared memory and by gRPC.
    """
    device, transport = request.param
    monkeypatch.setattr(counting, "device", DEVICES[device])
    monkeypatch.setattr(counting, "TRANSPORT", transport)
