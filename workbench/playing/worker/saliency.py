"""Saliency: how much each part of an observation counts for the action that was taken.

Both methods explain the preference p(a_t): log π(a_t|x_t), Q(x_t, a_t), or, for actions that are numbers, the sum of
their means. The recurrent state stays fixed: the effect of earlier observations through it is left out.

    gradient    Σ |∂p(a_t)/∂x| over the stacked frames and channels (Simonyan et al. 2013, arXiv 1312.6034); x in 0 … 1
                if it is an image
    occlusion   ½ (p(a_t) - p'(a_t))², p' with a round patch of all stacked frames blurred (Greydanus et al. 2018,
                arXiv 1711.00138, section 3.2, for the action taken instead of all logits): 144 patches in a grid of
                12 x 12, stretched to the image's size
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from workbench.algorithms import NetworkOutput
from workbench.algorithms.action_masks import is_never
from workbench.environment_spec import EnvironmentSpec, Part
from workbench.environments.observations import shown
from workbench.errors import InvalidInput, NetworkFailed
from workbench.networks.normalization import Observed, output_of
from workbench.policies.player import Player
from workbench.trajectory import Array

GRID = 12  # patches along each side; the paper has 16, at 1.8 times the time
_PAPER_SIZE_PX, _PAPER_BLUR_PX, _PAPER_PATCH_PX = 80, 3.0, 5.0  # σ of both on its 80 x 80 images
_LEAST_BLUR_PX = 1.5  # of a small image, which less would leave as it is
_ROWS = 36  # perturbed images in one forward pass
_SAME = 1e-3  # relative error

Saliency = Callable[[Array], Array]  # from an action in its distribution's form


def saliency_of(player: Player, spec: EnvironmentSpec, *, method: str) -> Saliency:
    """A function from the action that `player` just took in its first row to saliency, float32 [h, w] or [features].

    For an observation of several parts it covers the only image, or the only one beside a mask of actions; the others
    stay fixed. Raises InvalidInput if such an observation has no image or several, and for the occlusion of vectors.
    """
    view = _NetworkView(player, spec, _explained(spec, method))
    if method == "gradient":
        return partial(_gradient, view)
    if len(view.part.shape) != 3:
        raise InvalidInput(f"saliency='occlusion' blurs images, and observations of {spec.name} are vectors of "
                           f"{view.part.shape[0]}. Use saliency='gradient'.")
    return _Occlusion(view)


def _explained(spec: EnvironmentSpec, method: str) -> Part:
    """The part of an observation whose saliency is computed."""
    seen = list(shown({part.name: part for part in spec.seen}).values())
    images = [part for part in seen if len(part.shape) == 3]
    if len(seen) == 1 or len(images) == 1:
        return images[0] if images else seen[0]
    names = ", ".join(part.name for part in seen)
    raise InvalidInput(f"saliency={method!r} shows one array, and observations of {spec.name} have the parts {names}, "
                       f"{len(images) or 'none'} of them images. Use saliency=None.")


class _NetworkView:
    """The last input of a player's network in its first row, and the network's output for another `part`."""

    def __init__(self, player: Player, spec: EnvironmentSpec, part: Part) -> None:
        self.part, self.spec = part, spec
        self._player = player

    @property
    def value(self) -> Tensor:
        """The part's last value, [*seen]."""
        return self._seen()[self.part.name][0, 0]

    @property
    def output(self) -> NetworkOutput:
        """The network's last output, [1, 1, ...]."""
        output = self._player.output
        return type(output)(*(part[:, :1] for part in output))

    def __call__(self, values: Tensor) -> NetworkOutput:
        """The output, [1, B, ...], for `values` [B, *seen] of the part, with all other inputs as they were."""
        _, *others, state = self._player.inputs
        rows = len(values)
        parts = {name: _repeated(array, rows) for name, array in self._seen().items()} | {self.part.name: values[None]}
        output, _ = output_of(
            self._player.policy.network, parts, *(_repeated(array, rows) for array in others),
            tuple(part[:1].expand(rows, *part.shape[1:]).clone() for part in state),
        )
        return cast(NetworkOutput, output)

    def preference(self, output: NetworkOutput, action: Array) -> Tensor:
        """The preference of `output` for the action, [1, B]."""
        policy = self._player.policy
        return policy.algorithm.preference(output, action=torch.as_tensor(action), config=policy.config)

    def _seen(self) -> dict[str, Tensor]:
        """All parts of the last observation by name, [1, 1, *seen]."""
        observation = self._player.inputs[0][:, :1]
        if not self.spec.parts:
            return {"": observation}
        parts = cast(Observed, self._player.policy.network).decoded(observation)
        return parts if isinstance(parts, dict) else {"": parts}


def _repeated(tensor: Tensor, rows: int) -> Tensor:
    """The first of [1, N, ...], repeated to [1, rows, ...]; a copy, since tensors of inference have no gradient."""
    return tensor[:, :1].expand(1, rows, *tensor.shape[2:]).clone()


# --- gradient ---------------------------------------------------------------------------------------------------------


def _gradient(view: _NetworkView, action: Array) -> Array:
    observation, output = _differentiable(view)
    try:
        (slope,) = torch.autograd.grad(view.preference(output, action)[0, 0], observation)
    except RuntimeError as error:
        raise NetworkFailed(f"the network cannot be differentiated by its observation: {error}. "
                            "Use saliency='occlusion'.") from None
    channels, *size = view.part.shape
    by_frame = slope.abs().view(view.spec.frame_stack, channels // view.spec.frame_stack, *size)
    saliency: Array = by_frame.sum((0, 1) if by_frame.ndim == 4 else 0).numpy()
    return saliency


def _differentiable(view: _NetworkView) -> tuple[Tensor, NetworkOutput]:
    """The last observation [1, *seen] as a leaf of float32, and the network's output for it.

    Bytes have no gradient. A network accepts floats in their place either as 0 … 1 (ours), or as 0 … 255 if it divides
    them itself; the right way is the one that reproduces the output.
    """
    value, expected = view.value, view.output
    for scale in (1 / 255, 1.0) if value.dtype == torch.uint8 else (1.0,):
        leaf = (value.float() * scale)[None].clone().requires_grad_()
        with torch.enable_grad():
            output = view(leaf)
        if _difference(output, expected) < _SAME:
            return leaf, output
    raise NetworkFailed("the network's output differs for the same observation as float32, so that it has no "
                        "gradient there. Use saliency='occlusion'.")


def _difference(mine: NetworkOutput, theirs: NetworkOutput) -> float:
    """The relative L2 distance, without what a mask of actions says."""
    a, b = (torch.cat([part.detach().float().flatten() for part in output]) for output in (mine, theirs))
    a, b = a[~is_never(b)], b[~is_never(b)]
    return float((a - b).norm() / b.norm().clamp_min(1e-12))


# --- occlusion --------------------------------------------------------------------------------------------------------


class _Occlusion:
    """Computes the saliency by blurring patches of the last observation."""

    def __init__(self, view: _NetworkView) -> None:
        self._view = view
        height, width = view.part.shape[1:]
        self._size = (height, width)
        scale = min(height, width) / _PAPER_SIZE_PX
        blur_px = max(_LEAST_BLUR_PX, _PAPER_BLUR_PX * scale)
        self._blur = [_gaussian(torch.arange(size), torch.arange(size), blur_px) for size in self._size]
        self._blur = [matrix / matrix.sum(1, keepdim=True) for matrix in self._blur]
        down, across = (_gaussian((torch.arange(GRID) + 0.5) * size / GRID - 0.5, torch.arange(size),
                                  _PAPER_PATCH_PX * scale) for size in self._size)
        self._patches = (down[:, None, :, None] * across[None, :, None, :]).flatten(0, 1)  # [144, H, W], 1 inside

    @torch.inference_mode()
    def __call__(self, action: Array) -> Array:
        """The saliency of `action`."""
        observation = self._view.value  # [channels, H, W]
        sharp = observation.float()
        blurred = self._blur[0] @ sharp @ self._blur[1].T
        before = self._view.preference(self._view.output, action)[0, 0]
        scores = []
        for patches in torch.split(self._patches, _ROWS):
            images = sharp + patches[:, None] * (blurred - sharp)
            images = images.round() if observation.dtype == torch.uint8 else images
            after = self._view.preference(self._view(images.to(observation.dtype)), action)[0]
            scores.append(0.5 * (after - before).square())
        grid = torch.cat(scores).view(1, 1, GRID, GRID)
        saliency: Array = F.interpolate(grid, self._size, mode="bilinear", align_corners=False)[0, 0].numpy()
        return saliency


def _gaussian(centres: Tensor, places: Tensor, sigma: float) -> Tensor:
    """exp(-(x-c)²/2σ²), [centres, places]."""
    return (-0.5 * ((places - centres[:, None]) / sigma).square()).exp()
