"""A guard against operations that wait for an accelerator; it works on a CPU."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class NoWaiting(TorchDispatchMode):
    """Fails on every operation that reads a tensor's values into Python, which waits for an accelerator."""

    WAITING = ("_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select", "unique")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        assert func.overloadpacket.__name__ not in self.WAITING, f"{func} waits for the device"
        return func(*args, **(kwargs or {}))
