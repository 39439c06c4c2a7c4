"""Frame stacking by one rule in two forms: a step at a time for inference, a whole unroll for training.

The stack of x_t holds x_{t-S+1} … x_t, oldest first. A frame from before the episode of x_t is zero: a START at step t
zeroes every frame older than t. A network therefore sees the same in inference and in training.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def push_frames(stack: Tensor, *, observation: Tensor, start: Tensor) -> Tensor:
    """The stacks of x_t, [N, S, *frame], from those of x_{t-1}.

    Args:
        stack: [N, S, *frame], oldest first; not changed.
        observation: [N, *frame], x_t.
        start: bool [N], whether x_t starts an episode.
    """
    pushed = torch.empty_like(stack)
    keep = _as_mask(~start, stack[:, 1:])
    torch.mul(stack[:, 1:], keep, out=pushed[:, :-1])
    pushed[:, -1] = observation
    return pushed


def push_words(words: Tensor, *, observation: Tensor, start: Tensor) -> Tensor:
    """`push_frames` for four single-channel byte frames, packed in an int32 per pixel, [N, H, W], oldest frame lowest.

    One pass shifts such a stack, and its memory layout suits convolutions (channels last).

    Args:
        words: int32 [N, H, W]; not changed.
        observation: uint8 [N, 1, H, W], x_t.
        start: bool [N].
    """
    older = (words >> 8).bitwise_and_(torch.where(start, 0, 0xFFFFFF).to(words.dtype)[:, None, None])
    return older.bitwise_or_(observation[:, 0].to(words.dtype).bitwise_left_shift_(24))


def push_words_in_place(words: Tensor, *, rows: Tensor, observation: Tensor, start: Tensor) -> Tensor:
    """`push_words` for some rows of a table on the CPU. Returns their stacks, a view of the table if they lie together.

    The rows of one group of environments do, and are changed where they are; those of several are copied there and
    back. NumPy does it in few calls: after a network's work each call of Python costs several times what it does alone.

    Args:
        words: int32 [M, H, W], the table.
        rows: int64 [N], at least one, each once.
        observation: uint8 [N, 1, H, W], x_t.
        start: bool [N].
    """
    table, places = words.numpy().view(np.uint32), rows.numpy()
    together = (np.diff(places) == 1).all()
    stacks = table[places[0] : places[0] + len(places)] if together else table[places]
    np.right_shift(stacks, 8, out=stacks)
    stacks[start.numpy()] = 0
    stacks.view(np.uint8).reshape(*stacks.shape, 4)[..., 3] = observation[:, 0].numpy()
    if not together:
        table[places] = stacks
    return torch.from_numpy(stacks.view(np.int32))


def frames_of_words(words: Tensor) -> Tensor:
    """The stacks uint8 [N, 4, H, W] in `words` int32 [N, H, W]; a view of the same memory."""
    return words.contiguous().view(torch.uint8).view(*words.shape, 4).permute(0, 3, 1, 2)


def join_frames(stack: Tensor) -> Tensor:
    """[N, S*C, ...] as a network sees it, from [N, S, C, ...]."""
    return stack.flatten(1, 2)


def stack_frames(observation: Tensor, *, stack_prefix: Tensor, start: Tensor) -> Tensor:
    """The stacks of every step of an unroll, joined along the first axis of a frame: [T+1, B, S*C, ...].

    Args:
        observation: [T+1, B, C, ...], single frames.
        stack_prefix: [B, S-1, C, ...], the frames before x_0, oldest first, zero from before its episode.
        start: bool [T+1, B].
    """
    older = stack_prefix.shape[1]  # S-1
    if older == 0:
        return observation
    steps = observation.shape[0]
    frames = torch.cat([stack_prefix.transpose(0, 1), observation])  # [S-1+T+1, B, C, ...]
    episode = start.long().cumsum(0)  # [T+1, B], counted within the unroll
    episode = torch.cat([episode.new_zeros(older, episode.shape[1]), episode])
    stacked = observation.new_empty(*observation.shape[:2], older + 1, *observation.shape[2:])
    for slot in range(older):
        same_episode = episode[slot : slot + steps] == episode[older:]
        older_frames = frames[slot : slot + steps]
        torch.mul(older_frames, _as_mask(same_episode, older_frames), out=stacked[:, :, slot])
    stacked[:, :, older] = observation
    return stacked.flatten(2, 3)


def _as_mask(keep: Tensor, like: Tensor) -> Tensor:
    """`keep` as 0 and 1 of `like`'s dtype, with axes of length 1 appended."""
    return keep.to(like.dtype).reshape(*keep.shape, *[1] * (like.ndim - keep.ndim))
