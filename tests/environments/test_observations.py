"""Observations cut apart without torch are what a network sees, and pictures of them tell their planes apart."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from workbench.environment_spec import EnvironmentSpec, Part
from workbench.environments.observations import PLANES, decode, drawable, encode, picture, picture_of
from workbench.networks.normalization import Observed

PARTS = {
    "one of bits": (Part("", (3, 5, 7), "bits"),),
    "one of floats": (Part("speed", (5,), "float32"),),
    "bits, floats, bytes": (Part("planes", (2, 3, 3), "bits"), Part("speed", (3,), "float32"),
                            Part("screen", (1, 4, 5), "uint8")),
}


def spec_of(parts: tuple[Part, ...]) -> EnvironmentSpec:
    return EnvironmentSpec("mine", (sum(part.wire_bytes for part in parts),), "uint8", 2, parts=parts)


def rows_of(spec: EnvironmentSpec, number: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    cut = [rng.normal(size=(number, *part.shape)).astype("<f4").reshape(number, -1).view(np.uint8)
           if part.dtype == "float32" else rng.integers(0, 256, (number, part.wire_bytes), np.uint8)
           for part in spec.parts]
    return np.concatenate(cut, axis=1)


@pytest.mark.parametrize("name", PARTS)
def test_parts_are_those_that_a_network_sees(name: str) -> None:
    spec = spec_of(PARTS[name])
    rows = rows_of(spec, 4)
    theirs = Observed(torch.nn.Identity(), spec, normalise=False).decoded(torch.from_numpy(rows)[None])
    mine = decode(rows, spec.parts)
    pairs = {"": (mine, theirs)} if not isinstance(mine, dict) else {key: (mine[key], theirs[key]) for key in mine}
    assert len(pairs) == len(spec.parts)
    for (own, seen), part in zip(pairs.values(), spec.parts, strict=True):
        assert own.dtype == np.dtype(part.seen_dtype) and own.shape == (4, *part.shape)
        np.testing.assert_array_equal(own, seen[0].numpy())
        np.testing.assert_array_equal(decode(rows[2], spec.parts)[part.name] if isinstance(mine, dict)
                                      else decode(rows[2], spec.parts), own[2])


def test_without_parts_an_observation_is_as_it_travels() -> None:
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert decode(rows, ()) is rows
    assert drawable(rows).names == ("x[0]", "x[1]", "x[2]")


def test_the_image_among_the_parts_is_drawn_and_without_one_all_numbers_by_their_names() -> None:
    spec = spec_of(PARTS["bits, floats, bytes"])
    rows = rows_of(spec, 2)
    seen = drawable(rows, parts=spec.parts)
    assert seen.values.shape == (2, 2, 3, 3) and seen.names == ()
    np.testing.assert_array_equal(picture_of(rows[1], spec), picture(seen.values[1]))
    vectors = spec_of((Part("speed", (2,), "float32"), Part("on", (3,), "bits")))
    rows = rows_of(vectors, 2)
    seen = drawable(rows, parts=vectors.parts)
    assert seen.names == ("speed[0]", "speed[1]", "on[0]", "on[1]", "on[2]") and seen.values.dtype == np.float32
    np.testing.assert_array_equal(seen.values[:, :2], decode(rows, vectors.parts)["speed"])
    assert picture_of(rows[0], vectors) is None


def test_the_plane_that_is_lit_in_the_fewest_places_is_seen() -> None:
    planes = np.zeros((4, 1, 4), np.uint8)
    planes[0, 0, :3] = planes[1, 0, 1:3] = planes[2, 0, 2] = 255  # as in widgets/tests/player.test.js
    assert picture(planes)[0].tolist() == [*PLANES[:3].tolist(), [0, 0, 0]]
    planes[0, 0, 3] = 100  # no bits any more: they lie over each other
    assert picture(planes)[0, 3].tolist() == (PLANES[0] * 100 / 255).astype(int).tolist()


def test_one_channel_is_grey_and_three_are_colours() -> None:
    image = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
    np.testing.assert_array_equal(picture(image), image.transpose(1, 2, 0))
    np.testing.assert_array_equal(picture(image[:1]), image[0][..., None].repeat(3, 2))


def test_planes_have_colours_of_their_own_the_same_in_the_page() -> None:
    assert len({tuple(colour) for colour in PLANES.tolist()}) == len(PLANES) == 23
    source = (Path(__file__).parents[2] / "widgets" / "src" / "pixels.js").read_text()
    bright = re.search(r"BRIGHT = \[(.*?)\];", source, re.S)
    assert bright is not None
    theirs = [[int(one) for one in found] for found in re.findall(r"\[(\d+), (\d+), (\d+)\]", bright[1])]
    assert theirs == PLANES[:8].tolist()


@pytest.mark.parametrize("name", PARTS)
def test_parts_that_are_put_together_again_are_the_row(name: str) -> None:
    spec = spec_of(PARTS[name])
    for row in rows_of(spec, 4):
        decoded = decode(row[None], spec.parts)
        values = {one: array[0] for one, array in (decoded if isinstance(decoded, dict) else {"": decoded}).items()}
        again = decode(encode(values, spec.parts)[None], spec.parts)
        for one, array in (again if isinstance(again, dict) else {"": again}).items():
            np.testing.assert_array_equal(array[0], values[one])
