"""Published weights: whole, and of the version they say."""

import threading

import pytest
import torch
from torch import nn

from workbench import networks
from workbench.algorithms.interface import Heads
from workbench.environment_spec import EnvironmentSpec
from workbench.learner.devices.device import Device
from workbench.learner.inference.published_weights import PublishedPolicy


def filled(value: float) -> nn.Module:
    module = nn.Linear(300, 300)
    for parameter in module.parameters():
        nn.init.constant_(parameter, value)
    return module


def test_a_reader_never_sees_half_an_update():
    source = filled(0.0)
    policy = PublishedPolicy(source, version=0, device=Device("cpu", precision="fp32"))
    stop = threading.Event()
    wrong: list[tuple[float, float, int]] = []

    def read() -> None:
        while not stop.is_set():
            with policy.reading() as (network, version):
                low = min(float(parameter.min()) for parameter in network.parameters())
                high = max(float(parameter.max()) for parameter in network.parameters())
            if not low == high == version:
                wrong.append((low, high, version))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for version in range(1, 300):
        with torch.no_grad():
            for parameter in source.parameters():
                parameter.fill_(version)
        policy.publish(version)
    stop.set()
    for reader in readers:
        reader.join(240)
    assert not wrong, wrong[:3]
    assert policy.version == 299


class Mixed(nn.Module):
    """Weights of three dtypes, and buffers that are in checkpoints and that are not."""

    def __init__(self):
        super().__init__()
        self.brief = nn.Parameter(torch.zeros(3, dtype=torch.bfloat16))
        self.single = nn.Linear(2, 2)
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("scratch", torch.zeros(2, dtype=torch.int64), persistent=False)


def test_weights_of_several_dtypes_are_published_each_with_its_own(monkeypatch):
    source, copied = Mixed(), []
    policy = PublishedPolicy(source, version=0, device=Device("cpu", precision="fp32"))
    real = torch._foreach_copy_
    monkeypatch.setattr(torch, "_foreach_copy_", lambda mine, theirs: (copied.append(mine), real(mine, theirs)))
    for tensor in (*source.parameters(), *source.buffers()):
        tensor.data.fill_(3)
    policy.publish(1)
    with policy.reading() as (network, _):
        for mine, theirs in zip((*network.parameters(), *network.buffers()),
                                (*source.parameters(), *source.buffers()), strict=True):
            assert mine.dtype == theirs.dtype and torch.equal(mine, theirs)
    assert [len({tensor.dtype for tensor in group}) for group in copied] == [1] * 4


def test_training_does_not_move_what_inference_holds():
    source = filled(1.0)
    policy = PublishedPolicy(source, version=0, device=Device("cpu", precision="fp32"))
    with policy.reading() as (network, _), torch.no_grad():
        source.weight.fill_(7.0)
        assert float(network.weight.max()) == 1.0


class OnDevice(torch.Tensor):
    """A tensor that says that it is on `where`."""

    where = torch.device("cpu")

    @property
    def device(self):
        return type(self).where


class Trained(nn.Module):
    """A network of one weight that says that it is on `where`."""

    def __init__(self, where):
        super().__init__()
        OnDevice.where = torch.device(where)
        self.register_buffer("weight", torch.zeros(3).as_subclass(OnDevice))

    def __deepcopy__(self, memo):
        return Copied()


class Copied(nn.Module):
    """A copy of it, which stays where it is wherever it is sent."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.zeros(3))

    def to(self, device):
        return self


def streams_order(copying, reading):
    """What two streams note and wait for: training copies on one, inference reads on the other."""
    return [f"training notes 1 on {copying}", f"inference waits on {reading} for 1", f"inference notes 2 on {reading}",
            f"training notes 3 on {copying}", f"training waits on {copying} for 2", f"training notes 4 on {copying}",
            f"inference waits on {reading} for 4", f"inference notes 5 on {reading}"]


@pytest.mark.parametrize(("trained", "read", "order"), [
    ("cuda:0", "cuda:0", streams_order("cuda:0", "cuda:0")), ("cuda:0", "cuda:1", streams_order("cuda:0", "cuda:1")),
    ("cpu", "cuda:0", streams_order("cuda:0", "cuda:0")), ("cpu", "cpu", []),
    ("cuda:0", "cpu", ["training notes 1 on cuda:0", "the host waits for 1", "training notes 2 on cuda:0",
                       "training notes 3 on cuda:0", "the host waits for 3"]),
])
def test_a_copy_is_written_after_its_readers_and_read_after_its_writer_on_whichever_devices(
    monkeypatch, trained, read, order
):
    thread, said, noted = ["training"], [], iter(range(1, 99))

    class Event:
        def __init__(self):
            self.number = next(noted)

        def synchronize(self):
            said.append(f"the host waits for {self.number}")

    class Stream:
        def __init__(self, device):
            self.device = device

        def record_event(self):
            event = Event()
            said.append(f"{thread[0]} notes {event.number} on {self.device}")
            return event

        def wait_event(self, event):
            said.append(f"{thread[0]} waits on {self.device} for {event.number}")

    def read_one():
        thread[0] = "inference"
        with policy.reading():
            pass
        thread[0] = "training"

    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    device = Device("cpu", precision="fp32")
    device.torch = torch.device(read)
    policy = PublishedPolicy(Trained(trained), version=0, device=device)
    policy.publish(1)
    read_one()
    policy.publish(2)  # the copy that nobody has read
    policy.publish(3)  # that which was read
    read_one()
    assert said == order


@pytest.mark.parametrize("name", ["nature", "impala-deep-lstm", "football"])
def test_copies_with_weights_in_autocasts_dtype_say_the_same_bit_for_bit(name):
    spec = EnvironmentSpec("image", (1, 84, 84), "uint8", 5, frame_stack=4)
    network = networks.build(name, spec=spec, heads=Heads(), seed=0)
    policies = [PublishedPolicy(network, version=0, device=Device("cpu", precision=one)) for one in ("fp32", "bf16")]
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    images = torch.randint(0, 255, (1, 3, *spec.stacked_shape), dtype=torch.uint8)
    inputs = (images, torch.zeros(1, 3, dtype=torch.int64),
              torch.zeros(1, 3), torch.zeros(1, 3, dtype=torch.bool), network.initial_state(3))
    said = []
    for policy in policies:
        policy.publish(1)
        with policy.reading() as (copied, _), torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            said.append(copied(*inputs)[0])
    assert any(parameter.dtype == torch.bfloat16 for parameter in copied.parameters())
    assert all(torch.equal(one, other) for one, other in zip(*said, strict=True))
