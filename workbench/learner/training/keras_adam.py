"""Adam with the ε of Keras and TensorFlow, for settings that come from there."""

from __future__ import annotations

import torch
from torch import Tensor


class KerasAdam(torch.optim.Adam):
    """Adam with ε beside √v before v is corrected: ε̂ of Kingma and Ba 2015 (arXiv 1412.6980), at the end of section 2.

        m ← m + (1-β₁)(g - m),   v ← v + (1-β₂)(g² - v),   θ ← θ - lr √(1-β₂ᵗ) / (1-β₁ᵗ) · m / (√v + ε)

    torch's Adam does the same with ε √(1-β₂ᵗ) in place of ε: less in the first updates. Its state is torch's Adam's. A
    step reads no value, so that it can be recorded; the learning rate may be a tensor. Used with `capturable=True`.
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # torch's takes closures, which we never have
        """One step. Parameters without a gradient stay as they are."""
        for group in self.param_groups:
            lists: list[list[Tensor]] = [[] for _ in range(5)]
            parameters, gradients, means, squares, steps = lists
            self._init_group(  # type: ignore[no-untyped-call]  # torch's own has no types
                group, parameters, gradients, means, squares, [], steps)
            if parameters:
                beta1, beta2 = group["betas"]
                torch._foreach_add_(steps, 1)
                torch._foreach_lerp_(means, gradients, 1 - beta1)
                torch._foreach_mul_(squares, beta2)
                torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta2)
                roots = torch._foreach_sqrt(squares)
                torch._foreach_add_(roots, group["eps"])
                changes = torch._foreach_div(means, roots)
                t = torch.stack(steps).double()  # in float32, 1 - 0.999 has four digits
                rates = group["lr"] * (1 - beta2**t).sqrt() / (1 - beta1**t)
                torch._foreach_mul_(changes, rates.unbind())
                torch._foreach_sub_(parameters, changes)
