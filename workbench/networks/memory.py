"""An LSTM whose state is zeroed wherever an episode starts, also in the middle of an unroll."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ResettingLSTM(nn.Module):
    """nn.LSTM over [T, B, F] with resets.

    Between two steps at which no row starts an episode the fused nn.LSTM runs in one call. Where these steps are is
    read on the CPU only; on an accelerator that would wait for the device, so each step is a call of its own there.
    """

    def __init__(self, features: int, *, size: int = 256) -> None:
        super().__init__()
        self.size = size
        self.lstm = nn.LSTM(features, size)
        for name, parameter in self.lstm.named_parameters():
            if name.startswith("weight"):
                nn.init.orthogonal_(parameter, 1.0)
            else:
                nn.init.zeros_(parameter)

    def initial_state(self, batch: int) -> tuple[Tensor, Tensor]:
        """Zeros (hidden, cell), each [batch, size]."""
        weight = next(self.lstm.parameters())
        return weight.new_zeros(batch, self.size), weight.new_zeros(batch, self.size)

    def forward(
        self, inputs: Tensor, start: Tensor, state: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Outputs [T, B, size], and the state after the last step; the state is zeroed before t where start[t]."""
        hidden, cell = state
        outputs = []
        borders = [*_segment_starts(start), len(start)]
        for begin, end in zip(borders[:-1], borders[1:], strict=True):
            reset = start[begin].unsqueeze(-1)
            hidden, cell = hidden.masked_fill(reset, 0.0), cell.masked_fill(reset, 0.0)
            output, (hidden_n, cell_n) = self.lstm(inputs[begin:end], (hidden.unsqueeze(0), cell.unsqueeze(0)))
            hidden, cell = hidden_n.squeeze(0), cell_n.squeeze(0)
            outputs.append(output)
        return torch.cat(outputs) if len(outputs) > 1 else outputs[0], (hidden, cell)


def _segment_starts(start: Tensor) -> list[int]:
    """0, and every later step at which some row starts an episode; all steps on an accelerator."""
    if start.device.type != "cpu":
        return list(range(len(start)))
    return [0, *(start[1:].any(1).nonzero().flatten() + 1).tolist()]
