"""An LSTM whose state is zeroed wherever an episode starts, also in the middle of an unroll; and networks with one."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workbench.algorithms.distributions import Distribution
from workbench.algorithms.interface import State

SWITCH = 1e4  # opens or shuts a gate: in float32, sigmoid(±1e4 ± the usual inputs) is exactly 1 or 0


class ResettingLSTM(nn.Module):
    """nn.LSTM over [T, B, F] with resets.

    On a CPU one call of the fused LSTM computes all steps (see `_with_pauses`); a call for each stretch without a
    start takes up to five times as long. On an accelerator steps follow one another, because reading where episodes
    start would wait for the device; the product of inputs and weights is outside that loop.
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
        with torch.no_grad():  # gates: in, forget, candidate, out; it remembers at first (Jozefowicz et al. 2015)
            _, _, bias, _ = self.lstm.parameters()
            bias.view(4, size)[1].fill_(1.0)

    def initial_state(self, batch: int) -> tuple[Tensor, Tensor]:
        """Zeros (hidden, cell), each [batch, size]."""
        weight = next(self.lstm.parameters())
        return weight.new_zeros(batch, self.size), weight.new_zeros(batch, self.size)

    def forward(
        self, inputs: Tensor, start: Tensor, state: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Outputs [T, B, size], and the state after the last step; the state is zeroed before t where start[t]."""
        if start.device.type != "cpu":
            return self._step_by_step(inputs, start, state)
        state = _reset_state(state, start[0])
        return self._with_pauses(inputs, start, state) if start[1:].any() else self._without_starts(inputs, state)

    def _without_starts(self, inputs: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        hidden, cell = state
        outputs, (hidden, cell) = self.lstm(inputs, (hidden.unsqueeze(0), cell.unsqueeze(0)))
        return outputs, (hidden.squeeze(0), cell.squeeze(0))

    def _step_by_step(
        self, inputs: Tensor, start: Tensor, state: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """One product with the inputs of all steps; then each step multiplies its hidden state alone."""
        weight, hidden_weight, bias, hidden_bias = self.lstm.parameters()
        projected, recurrent, outputs = F.linear(inputs, weight, bias + hidden_bias), hidden_weight.t(), []
        for step_inputs, reset in zip(projected, start, strict=True):
            state = _step(step_inputs, _reset_state(state, reset), recurrent)
            outputs.append(state[0])
        return torch.stack(outputs), state

    def _with_pauses(
        self, inputs: Tensor, start: Tensor, state: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """One call over rows with a pause, an inserted step, before each start after the first step.

        Two more inputs mark the pauses. The first shuts the input and forget gates, so that cell and hidden leave the
        pause as exactly 0, and no gradient passes it. The second keeps the cell through the pauses that pad rows with
        fewer starts at their end; the last hidden is the last output.
        """
        steps, batch, features = inputs.shape
        late = start.clone()
        late[0] = False
        place = torch.arange(steps).unsqueeze(1) + late.cumsum(0)  # index of step t among row b's steps and pauses
        length = int(place[-1].max()) + 1
        slots = (place * batch + torch.arange(batch)).flatten()
        paused = torch.ones(length * batch, dtype=torch.bool).index_fill(0, slots, False).view(length, batch)
        over = torch.arange(length).unsqueeze(1) > place[-1]
        spread = inputs.new_zeros(length * batch, features).index_copy(0, slots, inputs.flatten(0, 1))
        pause_inputs = torch.stack([paused & ~over, over], dim=-1).to(inputs.dtype)

        weight, *others = self.lstm.parameters()
        gates = [[-SWITCH, -SWITCH], [-SWITCH, SWITCH], [0.0, 0.0], [0.0, 0.0]]  # in, forget, candidate, out
        switches = weight.new_tensor(gates).repeat_interleave(self.size, 0)
        outputs, _, cell = torch.lstm(
            torch.cat([spread.view(length, batch, -1), pause_inputs], -1), [part.unsqueeze(0) for part in state],
            [torch.cat([weight, switches], 1), *others], has_biases=True, num_layers=1, dropout=0.0,
            train=self.training, bidirectional=False, batch_first=False,
        )
        outputs = outputs.flatten(0, 1).index_select(0, slots).view(steps, batch, -1)
        return outputs, (outputs[-1], cell.squeeze(0))


def _step(inputs: Tensor, state: tuple[Tensor, Tensor], weight: Tensor) -> tuple[Tensor, Tensor]:
    """The state after a step: inputs [B, 4·size] are multiplied already; weight [size, 4·size] is the hidden's."""
    hidden, cell = state
    if inputs.is_cuda:
        return fused_step(inputs, state, weight)
    size = hidden.shape[1]
    kept, candidate, leave = torch.split(torch.addmm(inputs, hidden, weight), [2 * size, size, size], 1)
    enter, forget = kept.sigmoid().chunk(2, 1)
    cell = torch.addcmul(forget * cell, enter, candidate.tanh())
    return leave.sigmoid() * cell.tanh(), cell


def fused_step(inputs: Tensor, state: tuple[Tensor, Tensor], weight: Tensor) -> tuple[Tensor, Tensor]:
    """As `_step`, with all but the product in one kernel, which torch has for CUDA: nn.LSTMCell computes with it."""
    hidden, cell, _ = torch.ops.aten._thnn_fused_lstm_cell(inputs, state[0] @ weight, state[1])
    return hidden, cell


def _reset_state(state: tuple[Tensor, Tensor], start: Tensor) -> tuple[Tensor, Tensor]:
    """The state, zero in rows where `start`."""
    hidden, cell = state
    reset = start.unsqueeze(-1)
    return hidden.masked_fill(reset, 0.0), cell.masked_fill(reset, 0.0)


class WithMemory(nn.Module):
    """The base of networks whose heads read an LSTM, `memory`, or have none."""

    memory: ResettingLSTM | None

    def initial_state(self, batch: int) -> State:
        return self.memory.initial_state(batch) if self.memory is not None else ()

    def remembered(
        self, features: Tensor, *, previous_action: Tensor, reward: Tensor, start: Tensor, state: State,
        policy: Distribution,
    ) -> tuple[Tensor, State]:
        """The LSTM's outputs [T, B, size] and the state after the last step. It reads features [T, B, F], the previous
        action as `policy` encodes it (one-hot where it is a choice) and the reward [T, B]; action and reward are zero
        where an episode starts."""
        assert self.memory is not None
        action = policy.encode(previous_action).to(features.dtype)
        extras = torch.cat([action, reward.unsqueeze(-1)], dim=-1)
        inputs = torch.cat([features, extras.masked_fill(start.unsqueeze(-1), 0.0)], dim=-1)
        outputs, state = self.memory(inputs, start, state)
        return outputs, state
