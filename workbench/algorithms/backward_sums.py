"""The recursion that advantages and V-trace's targets have in common. Tensors are time-major: [T, B]."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def backward_sums(terms: Tensor, factors: Tensor) -> Tensor:
    """x_t = d_t + f_t x_{t+1} at each step t, with 0 after the last one, [T, B]; without gradients.

    A sum over 2n steps is one over n of them and, times their factors, one over the n that follow (Hillis and Steele
    1986). That takes log2(T) passes over all steps where a loop takes T over one each, and to begin a pass costs more
    than the few numbers of a step.

    Args:
        terms: d_t, [T, B].
        factors: f_t, [T, B].
    """
    sums, products, span = terms, factors[:-1], 1  # of `span` steps from t on; products where as many follow
    while span < len(terms):
        sums = torch.cat([torch.addcmul(sums[:-span], products, sums[span:]), sums[-span:]])
        products = (products[:-span] * products[span:]).clamp(max=torch.finfo(products.dtype).max)  # 0 times it is 0
        span *= 2
    return sums
