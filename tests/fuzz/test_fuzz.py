"""Seconds of what benchmarks/fuzz.py does for hours: refused by an error of ours, at once, and nothing grows."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np
import pytest

from tests.fuzz.fuzzing import CORPUS, Found, Target, fuzz
from tests.fuzz.live import LIVE
from tests.fuzz.targets import READERS
from workbench.checkpoints.tensorfile import read

TARGETS = {**READERS, **LIVE}


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """The target of that name, running."""
    logging.disable()  # gRPC logs what clients did wrong
    made = TARGETS[request.param]()
    try:
        yield made
    finally:
        made.close()
        logging.disable(logging.NOTSET)


def check(found: Found) -> None:
    assert not found.faults and not found.hangs, f"seed 0: {found.faults}, {found.hangs} hangs"
    assert found.kinds > 5, "hardly anything was tried"
    assert any(said.startswith("accepted") for said in found.outcomes), "what is right is refused"
    assert found.growth_mb < 32


@pytest.mark.parametrize(("target", "inputs"), [
    ("hello", 3000), ("step", 3000), ("shared", 3000), ("handover", 1000), ("tensorfile", 3000), ("checkpoint", 1500),
], indirect=["target"])
def test_a_reader_refuses_whatever_is_wrong_by_an_error_of_ours(target: Target, inputs: int) -> None:
    check(fuzz(target, inputs=inputs))


@pytest.mark.parametrize("target", ["stream"], indirect=True)
def test_streams_that_are_wrong_end_with_a_clear_status_and_the_learner_trains_on(target: Target) -> None:
    check(fuzz(target, inputs=700))


@pytest.mark.parametrize("target", ["control"], indirect=True)
def test_calls_that_are_wrong_are_refused_and_strangers_are_not_heard(
    target: Target, capfd: pytest.CaptureFixture[str]
) -> None:
    check(fuzz(target, inputs=400))


def test_the_corpus_is_small() -> None:
    kept = [path for path in CORPUS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in kept) < 2**20
    assert {path.parent.name for path in kept} <= TARGETS.keys()


@pytest.mark.parametrize("offsets", [[-400, -396], [-8, -4], [0, 8], [2**63, 2**63 + 4], [4, 8]])
def test_no_array_of_a_file_lies_outside_of_it(tmp_path, offsets) -> None:
    """NumPy itself takes a negative offset, and reads what lies before the file in memory."""
    header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":%s}}' % str(offsets).encode()
    (tmp_path / "file").write_bytes(len(header).to_bytes(8, "little") + header + b"1234")
    with open(tmp_path / "file", "rb") as file, pytest.raises(ValueError, match="array"):
        read(file)


def test_arrays_of_a_file_do_not_share_bytes_so_that_a_small_file_stays_small_in_memory(tmp_path) -> None:
    one = b'"%d":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}'
    header = b"{" + b",".join(one % number for number in range(1000)) + b"}"
    (tmp_path / "file").write_bytes(len(header).to_bytes(8, "little") + header + np.arange(4, dtype=np.uint8).tobytes())
    with open(tmp_path / "file", "rb") as file, pytest.raises(ValueError, match="begins at 0, and the one before"):
        read(file)
