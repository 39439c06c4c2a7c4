"""Saliency: how much each part of an observation counts for the action that was taken.

Both ways ask of the preference p(a_t): log π(a_t|x_t), Q(x_t, a_t), or, of actions that are numbers, the sum of their
middles. The recurrent state is as it was: what the network remembers of earlier observations is not followed.

    gradient    Σ |∂p(a_t)/∂x| over the stacked frames and channels (Simonyan et al. 2013, arXiv 1312.6034); x in 0 … 1
                where it is an image
    occlusion   ½ (p(a_t) - p'(a_t))², p' where a round patch of all stacked frames is blurred (Greydanus et al. 2018,
                arXiv 1711.00138, section 3.2, of the action taken instead of all logits): 144 patches in a grid of
                12 x 12, stretched to the image's size
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workbench.algorithms import NetworkOutput
from workbench.algorithms.action_scores import preference
from workbench.errors import InvalidInput, NetworkFailed
from workbench.networks.normalization import Observed
from workbench.policies.player import Player
from workbench.trajectory import Array, EnvironmentSpec, Part

GRID = 12  # patches along each side; the paper has 16, at 1.8 times the time
_PAPER_SIZE_PX, _PAPER_BLUR_PX, _PAPER_PATCH_PX = 80, 3.0, 5.0  # σ of both on its 80 x 80 images
_ROWS = 36  # perturbed images in one forward pass
_SAME = 1e-3  # relative error

Saliency = Callable[[Array], Array]  # of an action as its distribution keeps it


def saliency_of(player: Player, spec: EnvironmentSpec, *, method: str) -> Saliency:
    """From the action that `player` just took in its first row to its saliency, float32 [h, w], or [features].

    Of an observation of several parts it is that of the only image; the others stay as they are. Raises InvalidInput
    where there is no image, or more than one, and for the occlusion of vectors.
    """
    eyes = _Eyes(player, spec, _explained(spec, method))
    if method == "gradient":
        return partial(_gradient, eyes)
    if len(eyes.part.shape) != 3:
        raise InvalidInput(f"saliency='occlusion' blurs images, and observations of {spec.name} are vectors of "
                           f"{eyes.part.shape[0]}. Use saliency='gradient'.")
    return _Occlusion(eyes)


def _explained(spec: EnvironmentSpec, method: str) -> Part:
    """The part of an observation whose saliency is asked for."""
    images = [part for part in spec.seen if len(part.shape) == 3]
    if len(spec.seen) == 1 or len(images) == 1:
        return images[0] if images else spec.seen[0]
    names = ", ".join(part.name for part in spec.seen)
    raise InvalidInput(f"saliency={method!r} shows one array, and observations of {spec.name} have the parts {names}, "
                       f"{len(images) or 'none'} of them images. Use saliency=None.")


class _Eyes:
    """What the player's network saw last in its first row, and what it says where it sees another `part`."""

    def __init__(self, player: Player, spec: EnvironmentSpec, part: Part) -> None:
        self.part, self.spec = part, spec
        self._player, self._network = player, player.network
        self._statistics: dict[str, nn.Module] = {}
        if spec.parts and isinstance(player.network, Observed):
            self._network = player.network.network
            vectors = (one.name for one in spec.seen if one.dtype == "float32")
            self._statistics = dict(zip(vectors, player.network.statistics.values(), strict=False))

    @property
    def value(self) -> Tensor:
        """The part, [*seen]."""
        return self._seen()[self.part.name][0, 0]

    @property
    def said(self) -> NetworkOutput:
        """What the network said, [1, 1, ...]."""
        output = self._player.output
        return type(output)(*(part[:, :1] for part in output))

    def __call__(self, values: Tensor) -> NetworkOutput:
        """What it says, [1, B, ...], of `values` [B, *seen] of the part; all else is as it was."""
        _, *others, state = self._player.inputs
        rows = len(values)
        seen = {name: _repeated(one, rows) for name, one in self._seen().items()} | {self.part.name: values[None]}
        seen = {name: self._statistics[name](one) if name in self._statistics else one for name, one in seen.items()}
        output, _ = self._network(
            seen[""] if list(seen) == [""] else seen, *(_repeated(one, rows) for one in others),
            tuple(part[:1].expand(rows, *part.shape[1:]).clone() for part in state),
        )
        found: NetworkOutput = output
        return found

    def preference(self, output: NetworkOutput, action: Array) -> Tensor:
        """How much `output` is for the action, [1, B]."""
        player = self._player
        return preference(output, action=torch.as_tensor(action), config=player.config, actions=player.spec.actions)

    def _seen(self) -> dict[str, Tensor]:
        """All parts, [1, 1, *seen]."""
        observation = self._player.inputs[0][:, :1]
        if not self.spec.parts:
            return {"": observation}
        seen = cast(Observed, self._player.network).decoded(observation)
        return seen if isinstance(seen, dict) else {"": seen}


def _repeated(one: Tensor, rows: int) -> Tensor:
    """[1, rows, ...] of the first of [1, N, ...]; a copy, since one of inference has no gradient."""
    return one[:, :1].expand(1, rows, *one.shape[2:]).clone()


# --- gradient ---------------------------------------------------------------------------------------------------------


def _gradient(eyes: _Eyes, action: Array) -> Array:
    observation, output = _differentiable(eyes)
    try:
        (slope,) = torch.autograd.grad(eyes.preference(output, action)[0, 0], observation)
    except RuntimeError as error:
        raise NetworkFailed(f"the network cannot be differentiated by its observation: {error}. "
                            "Use saliency='occlusion'.") from None
    channels, *size = eyes.part.shape
    by_frame = slope.abs().view(eyes.spec.frame_stack, channels // eyes.spec.frame_stack, *size)
    found: Array = by_frame.sum((0, 1) if by_frame.ndim == 4 else 0).numpy()
    return found


def _differentiable(eyes: _Eyes) -> tuple[Tensor, NetworkOutput]:
    """The last observation [1, *seen] as a leaf of float32, and the network's output for it.

    Bytes have no gradient. A network takes floats for bytes in one of two ways: as 0 … 1 (ours), or as 0 … 255 where
    it divides itself; the one that gives the output that the bytes gave is right.
    """
    value, said = eyes.value, eyes.said
    for scale in (1 / 255, 1.0) if value.dtype == torch.uint8 else (1.0,):
        leaf = (value.float() * scale)[None].clone().requires_grad_()
        with torch.enable_grad():
            output = eyes(leaf)
        if _difference(output, said) < _SAME:
            return leaf, output
    raise NetworkFailed("the network says something else of the same observation as float32, so that it has no "
                        "gradient there. Use saliency='occlusion'.")


def _difference(mine: NetworkOutput, theirs: NetworkOutput) -> float:
    """Relative."""
    a, b = (torch.cat([part.detach().float().flatten() for part in one]) for one in (mine, theirs))
    return float((a - b).norm() / b.norm().clamp_min(1e-12))


# --- occlusion --------------------------------------------------------------------------------------------------------


class _Occlusion:
    """Blurs patches of what the player saw last."""

    def __init__(self, eyes: _Eyes) -> None:
        self._eyes = eyes
        height, width = eyes.part.shape[1:]
        self._size = (height, width)
        shrunk = min(height, width) / _PAPER_SIZE_PX
        self._blur = [_gaussian(torch.arange(size), torch.arange(size), _PAPER_BLUR_PX * shrunk)
                      for size in self._size]
        self._blur = [matrix / matrix.sum(1, keepdim=True) for matrix in self._blur]
        down, across = (_gaussian((torch.arange(GRID) + 0.5) * size / GRID - 0.5, torch.arange(size),
                                  _PAPER_PATCH_PX * shrunk) for size in self._size)
        self._patches = (down[:, None, :, None] * across[None, :, None, :]).flatten(0, 1)  # [144, H, W], 1 inside

    @torch.inference_mode()
    def __call__(self, action: Array) -> Array:
        """The saliency of `action`."""
        observation = self._eyes.value  # [channels, H, W]
        sharp = observation.float()
        blurred = self._blur[0] @ sharp @ self._blur[1].T
        before = self._eyes.preference(self._eyes.said, action)[0, 0]
        scores = []
        for patches in torch.split(self._patches, _ROWS):
            images = sharp + patches[:, None] * (blurred - sharp)
            images = images.round() if observation.dtype == torch.uint8 else images
            after = self._eyes.preference(self._eyes(images.to(observation.dtype)), action)[0]
            scores.append(0.5 * (after - before).square())
        grid = torch.cat(scores).view(1, 1, GRID, GRID)
        found: Array = F.interpolate(grid, self._size, mode="bilinear", align_corners=False)[0, 0].numpy()
        return found


def _gaussian(centres: Tensor, places: Tensor, sigma: float) -> Tensor:
    """exp(-(x-c)²/2σ²), [centres, places]."""
    return (-0.5 * ((places - centres[:, None]) / sigma).square()).exp()
