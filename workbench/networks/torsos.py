"""Torsos: from stacked observations [N, *stacked] to features [N, F]. Each has `features`, its F.

Images are computed in channels-last layout and in autocast's dtype where the caller has turned it on. Bytes become
numbers without a pass of their own: the first layer's weights are divided by 255 instead (0 … 255 are exact in bf16).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workbench.errors import ShapeMismatch

Shape = tuple[int, ...]
SQRT2 = math.sqrt(2)


_BLOCK = 4  # pixels: the stride of the first layer of `nature` and `impala_shallow`, and the bytes of a word


def orthogonal(layer: nn.Linear | nn.Conv2d, gain: float) -> None:
    """Sets the weights to an orthogonal matrix times `gain` (arXiv 1312.6120) and the bias to 0."""
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def lecun_normal(layer: nn.Linear | nn.Conv2d) -> None:
    """Sets the weights to noise of variance 1/fan_in, as in SEED's ResNet, and the bias to 0."""
    fan_in = layer.weight[0].numel()
    nn.init.trunc_normal_(layer.weight, std=math.sqrt(1 / fan_in))
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def compute_dtype(observation: Tensor) -> torch.dtype:
    """Autocast's dtype on the observation's device, or float32."""
    device = observation.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else torch.float32


def first_convolution(layer: nn.Conv2d, observation: Tensor) -> Tensor:
    """`layer` of uint8/255 or float32 images [N, C, H, W], in channels-last layout."""
    weight = layer.weight / 255 if observation.dtype == torch.uint8 else layer.weight
    if _trains_by_blocks(layer, observation):
        return F.conv2d(_blocks(observation).to(compute_dtype(observation)), _blocks_of_weights(weight), layer.bias)
    bytes_first = observation.contiguous(memory_format=torch.channels_last)  # twice as fast as both in one `to`
    return F.conv2d(bytes_first.to(compute_dtype(observation)), weight, layer.bias, layer.stride, layer.padding)


def _trains_by_blocks(layer: nn.Conv2d, observation: Tensor) -> bool:
    """Whether the layer trains in bf16 on a CPU, where few channels are slow, and `_blocks` can be taken."""
    sizes = (*observation.shape[2:], *layer.kernel_size, observation.storage_offset())
    fits = layer.stride == (_BLOCK, _BLOCK) and layer.padding == (0, 0) and not any(size % _BLOCK for size in sizes)
    wanted = (torch.is_grad_enabled() and layer.weight.requires_grad and observation.device.type == "cpu"
              and compute_dtype(observation) == torch.bfloat16)
    return wanted and fits and observation.dtype == torch.uint8 and observation.is_contiguous()


def _blocks(images: Tensor) -> Tensor:
    """[N, C*16, H/4, W/4] in channels-last layout: the 4x4 pixels of a block, of uint8 images [N, C, H, W], as its
    channels, in the order of C, row and column. Four pixels of a row are moved as one word."""
    count, channels, height, width = images.shape
    words = images.view(torch.int32).view(count, channels, height // _BLOCK, _BLOCK, width // _BLOCK)
    blocks = words.permute(0, 2, 4, 1, 3).contiguous().view(torch.uint8)  # [N, H/4, W/4, C, 16]
    return blocks.flatten(3).permute(0, 3, 1, 2)


def _blocks_of_weights(weight: Tensor) -> Tensor:
    """The weights of a convolution of stride 4, [O, C, K, K], for one of stride 1 on `_blocks`: [O, C*16, K/4, K/4]."""
    out, channels, height, width = weight.shape
    blocks = weight.reshape(out, channels, height // _BLOCK, _BLOCK, width // _BLOCK, _BLOCK).permute(0, 1, 3, 5, 2, 4)
    return blocks.reshape(out, -1, *blocks.shape[4:]).contiguous(memory_format=torch.channels_last)


class Dense(nn.Linear):
    """A layer that computes in autocast's dtype under autocast.

    Copies for inference may therefore keep its weights in that dtype (`keep_dense_in`), which saves a cast per call.
    """


def keep_dense_in(network: nn.Module, dtype: torch.dtype) -> None:
    """Casts the weights of every `Dense` layer to `dtype`, autocast's; the network's outputs stay the same bit for bit.
    """
    for module in network.modules():
        if isinstance(module, Dense):
            module.to(dtype)


class MLP(nn.Module):
    """Two hidden layers of tanh, 64 wide: the field's usual for CartPole and MuJoCo (arXiv 1707.06347, section 6.1)."""

    width = 64
    activation: type[nn.Module] = nn.Tanh

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.features = self.width
        first, second = nn.Linear(math.prod(shape), self.width), nn.Linear(self.width, self.width)
        self.hidden = nn.Sequential(first, self.activation(), second, self.activation())
        for layer in (first, second):
            orthogonal(layer, SQRT2)

    def forward(self, observation: Tensor) -> Tensor:
        """Features [N, F] of observations of any shape, flattened."""
        features = observation.flatten(1).to(compute_dtype(observation))
        if observation.dtype == torch.uint8:
            features = features / 255
        hidden: Tensor = self.hidden(features)
        return hidden


class MLP256(MLP):
    """Two hidden layers of ReLU, 256 wide: SAC's (arXiv 1812.05905, table 1)."""

    width = 256
    activation = nn.ReLU


class Numbers(nn.Module):
    """No layers: observations of any shape as numbers."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.features = math.prod(shape)

    def forward(self, observation: Tensor) -> Tensor:
        """Features [N, F], float32."""
        return _numbers(observation)


class Convolutions(nn.Module):
    """Convolutions and a dense layer, each followed by ReLU."""

    def __init__(self, shape: Shape, layers: list[nn.Conv2d], *, dense: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.features = dense
        height, width = shape[1:]
        for layer in layers:
            height, width = _size_after(layer, height), _size_after(layer, width)
        self.dense = Dense(layers[-1].out_channels * height * width, dense)
        for layer in layers:
            orthogonal(layer, SQRT2)
        orthogonal(self.dense, SQRT2)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, observation: Tensor) -> Tensor:
        """Features [N, F] of images [N, C, H, W]."""
        first, *rest = self.layers
        assert isinstance(first, nn.Conv2d)
        features = first_convolution(first, observation)
        for layer in rest:
            features = layer(F.relu(features))
        return F.relu(self.dense(F.relu(features.flatten(1))))  # flat first: both layouts at once slow ReLU's gradient


def _size_after(layer: nn.Conv2d, size: int) -> int:
    kernel, stride, padding = layer.kernel_size[0], layer.stride[0], int(layer.padding[0])
    return (size + 2 * padding - kernel) // stride + 1


def nature(shape: Shape) -> Convolutions:
    """The torso of DQN (Mnih et al. 2015, Nature 518, methods): 32 8x8/4, 64 4x4/2, 64 3x3/1, dense 512."""
    _require_image(shape, "nature", smallest=36)
    layers = [nn.Conv2d(shape[0], 32, 8, 4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3, 1)]
    return Convolutions(shape, layers, dense=512)


def impala_shallow(shape: Shape) -> Convolutions:
    """IMPALA's shallow torso (arXiv 1802.01561, figure 3 left; Mnih et al. 2016): 16 8x8/4, 32 4x4/2, dense 256."""
    _require_image(shape, "impala-shallow", smallest=20)
    return Convolutions(shape, [nn.Conv2d(shape[0], 16, 8, 4), nn.Conv2d(16, 32, 4, 2)], dense=256)


def small_cnn(shape: Shape) -> Convolutions:
    """For images under 84 px: 32, 64, 64 of 3x3, dense 256; a layer halves the image while it is over 8 px."""
    _require_image(shape, "small-cnn", smallest=1)
    layers = []
    channels, size = shape[0], min(shape[1:])
    for width in (32, 64, 64):
        stride = 2 if size > 8 else 1
        layers.append(nn.Conv2d(channels, width, 3, stride, padding=1))
        channels, size = width, -(-size // stride)
    return Convolutions(shape, layers, dense=256)


class ResidualBlock(nn.Module):
    """x + conv(relu(conv(relu(x)))), 3x3."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList([nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2)])

    def forward(self, images: Tensor) -> Tensor:
        """Images of the same shape."""
        first, second = self.convolutions
        inner: Tensor = second(F.relu(first(F.relu(images))))
        return images + inner


class ImpalaDeep(nn.Module):
    """IMPALA's deep torso (arXiv 1802.01561, figure 3 right): three stacks of 16, 32, 32 channels, dense 256.

    A stack is a 3x3 convolution, a 3x3/2 max-pool and two residual blocks. SEED's football network has a fourth. The
    pools pad on all sides, where TensorFlow's "SAME" pads even sizes only at the right and the bottom.
    """

    def __init__(self, shape: Shape, *, stacks: tuple[int, ...] = (16, 32, 32)) -> None:
        super().__init__()
        _require_image(shape, "impala-deep", smallest=1)
        self.features = 256
        channels, height, width = shape
        self.entries, self.blocks = nn.ModuleList(), nn.ModuleList()
        for out_channels in stacks:
            self.entries.append(nn.Conv2d(channels, out_channels, 3, padding=1))
            self.blocks.append(nn.Sequential(ResidualBlock(out_channels), ResidualBlock(out_channels)))
            channels, height, width = out_channels, -(-height // 2), -(-width // 2)
        self.dense = Dense(channels * height * width, self.features)
        for part in self.modules():
            if isinstance(part, nn.Conv2d | nn.Linear):
                lecun_normal(part)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, observation: Tensor) -> Tensor:
        """Features [N, F] of images [N, C, H, W]."""
        images = observation
        for index, (entry, blocks) in enumerate(zip(self.entries, self.blocks, strict=True)):
            assert isinstance(entry, nn.Conv2d)
            images = first_convolution(entry, images) if index == 0 else entry(images)
            images = blocks(F.max_pool2d(images, 3, 2, padding=1))
        return F.relu(self.dense(F.relu(images.flatten(1))))


def football(shape: Shape) -> ImpalaDeep:
    """SEED's torso for Google Research Football (football/networks.py): four stacks of 16, 32, 32, 32, dense 256."""
    _require_image(shape, "football", smallest=1)
    return ImpalaDeep(shape, stacks=(16, 32, 32, 32))


class Joined(nn.Module):
    """Concatenated features of an observation's parts: each image has its own torso, all vectors share one.

    Args:
        images, vectors: make the torso of an image, and that of all vectors side by side.
    """

    def __init__(
        self, shapes: Mapping[str, Shape], images: Callable[[Shape], nn.Module],
        vectors: Callable[[Shape], nn.Module] = MLP,
    ) -> None:
        super().__init__()
        self._images = [name for name, shape in shapes.items() if len(shape) == 3]
        self._vectors = [name for name, shape in shapes.items() if len(shape) != 3]
        self.images = nn.ModuleList([images(shapes[name]) for name in self._images])
        numbers = sum(math.prod(shapes[name]) for name in self._vectors)
        self.vectors = vectors((numbers,)) if numbers else None
        parts = [*self.images, *([self.vectors] if self.vectors is not None else [])]
        self.features = sum(int(part.features) for part in parts)

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        """Features [N, F] of parts [N, ...] by name."""
        features = [torso(observation[name]) for name, torso in zip(self._images, self.images, strict=True)]
        if self.vectors is not None:
            numbers = [_numbers(observation[name]) for name in self._vectors]
            with torch.autocast(numbers[0].device.type, enabled=False):  # bf16 would round a position of 1001 to 1000
                features.append(self.vectors(torch.cat(numbers, -1)))
        return torch.cat(features, -1)


def _numbers(values: Tensor) -> Tensor:
    flat = values.flatten(1).float()
    return flat / 255 if values.dtype == torch.uint8 else flat


def _require_image(shape: Shape, name: str, *, smallest: int) -> None:
    if len(shape) != 3:
        raise ShapeMismatch(f"network {name!r} needs images (channels, height, width), but observations are {shape}. "
                            f"Use network='mlp'.")
    if min(shape[1:]) < smallest:
        raise ShapeMismatch(f"network {name!r} needs images of at least {smallest}x{smallest} px, but observations are "
                            f"{shape}. Use network='small-cnn'.")
