"""Readers against whatever hypothesis thinks of, which shrinks what fails to the smallest input."""

from __future__ import annotations

import io
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import SPECS
from workbench import checkpoints
from workbench.checkpoints.checkpoint import digest
from workbench.checkpoints.tensorfile import Content, read
from workbench.errors import CheckpointCorrupt, ShapeMismatch
from workbench.trajectory import StepBatch
from workbench.wire.messages import GroupActions, GroupStep, Hello, Welcome

QUICK = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner,
                                                                                         max_size=4), max_leaves=12)
NUMBERS = st.integers(-(2**65), 2**65)


def hello() -> dict[str, Any]:
    told: dict[str, Any] = json.loads(Hello(1, 5, 12, 2, SPECS[2]).encode())
    return told


@QUICK
@given(st.binary(max_size=300))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    for decode in (Hello.decode, Welcome.decode, lambda one: GroupStep.decode(one, SPECS[1]),
                   lambda one: GroupActions.decode(one, SPECS[2].actions)):
        try:
            decode(data)
        except ShapeMismatch as error:
            assert len(str(error)) < 2000


@QUICK
@given(st.sampled_from([*hello(), *(f"spec.{name}" for name in hello()["spec"])]), JSON | NUMBERS)
def test_a_hello_with_any_value_in_any_field_is_refused_or_comes_out_as_it_went_in(field: str, value: Any) -> None:
    told = hello()
    holder = told["spec"] if "." in field else told
    holder[field.removeprefix("spec.")] = value
    try:
        decoded = Hello.decode(json.dumps(told).encode())
    except ShapeMismatch as error:
        assert len(str(error)) < 2000
        return
    assert all(type(getattr(decoded, name)) is int for name in ("actor", "run_id", "environments", "groups"))
    assert decoded.actor >= 0 and 1 <= decoded.run_id < 2**63 and 1 <= decoded.groups <= decoded.environments
    assert Hello.decode(decoded.encode()) == decoded


@QUICK
@given(st.sampled_from(SPECS), st.integers(1, 6), st.data())
def test_any_step_comes_out_as_it_went_in(spec, count: int, data) -> None:
    finals = data.draw(st.lists(st.integers(0, count - 1), unique=True))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    frames = random.integers(0, 255, (count + len(finals), *spec.observation_shape)).astype(spec.observation_dtype)
    step = StepBatch(frames[:count], random.random(count, np.float32), random.integers(0, 32, count, np.uint8),
                     np.array(finals, np.int32), frames[count:] if finals else None,
                     random.random(count, np.float32) if spec.scored else None)
    group, first_env = data.draw(st.integers(0, 2**16 - 1)), data.draw(st.integers(0, 2**32 - 1))
    sent = GroupStep(group, first_env, step, 0.5, 0.25).encode()
    assert GroupStep.decode(sent, spec).encode() == sent
    cut = data.draw(st.integers(0, len(sent) - 1))
    with pytest.raises(ShapeMismatch):
        GroupStep.decode(sent[:cut], spec)


@pytest.mark.parametrize("time_s", [math.nan, math.inf, -1.0, 1e30])
def test_times_that_are_none_do_not_reach_the_metrics(time_s: float) -> None:
    step = StepBatch(np.zeros((1, 4), np.float32), np.zeros(1, np.float32), np.zeros(1, np.uint8))
    for times in ((time_s, 0.0), (0.0, time_s)):
        with pytest.raises(ShapeMismatch, match="has durations"):
            GroupStep.decode(GroupStep(0, 0, step, *times).encode(), SPECS[0])


@QUICK
@given(st.lists(st.text(max_size=20), max_size=20))
def test_names_of_actions_come_out_as_they_went_in(names: list[str]) -> None:
    hello = Hello(1, 2**61, 16, 2, SPECS[0], tuple(names))
    assert Hello.decode(hello.encode()) == hello


ENTRY = st.fixed_dictionaries({"dtype": st.sampled_from(["F32", "U8", "BOOL", "F8", "I64"]) | LEAVES,
                               "shape": st.lists(NUMBERS | st.integers(0, 4), max_size=3) | JSON,
                               "data_offsets": st.lists(NUMBERS | st.integers(0, 16), max_size=3) | JSON})


@QUICK
@given(header=st.dictionaries(st.text(max_size=4), ENTRY | JSON, max_size=3) | JSON, content=st.binary(max_size=16),
       data=st.data())
def test_any_header_of_a_file_of_tensors_is_refused_or_its_arrays_are_the_files_bytes(
    header: Any, content: bytes, data, tmp_path: Path
) -> None:
    text = json.dumps(header).encode()
    told = data.draw(st.just(len(text)) | st.integers(0, 2**64 - 1))
    path = tmp_path / "file"
    path.write_bytes(told.to_bytes(8, "little") + text + content)
    with open(path, "rb") as file:
        try:
            arrays = read(file)
        except ValueError:
            return
    assert sum(array.nbytes for array in arrays.values()) <= len(content) + len(text)


@QUICK
@given(st.dictionaries(st.text(max_size=4), st.integers(0, 5).flatmap(
    lambda size: st.sampled_from(["float32", "uint8", "int64", "bool"]).map(lambda kind: np.ones((size, 2), kind)))))
def test_any_arrays_come_back_from_their_file(arrays: dict[str, Any]) -> None:
    content, file = Content.of("model", arrays), io.BytesIO()
    content.write(file)
    with tempfile.TemporaryFile() as there:
        there.write(file.getvalue())
        there.flush()
        back = read(there)
    assert back.keys() == {name for name in arrays if name != "__metadata__"}
    for name, array in back.items():
        np.testing.assert_array_equal(array, arrays[name])


@QUICK
@given(field=st.sampled_from([
    "format", "created", "requested", "files", "meta", "meta.frames", "meta.steps", "meta.updates", "meta.time_s",
    "meta.episode_return", "files.model.safetensors"]), value=JSON | NUMBERS)
def test_a_meta_json_with_any_value_in_any_field_is_corrupt_or_one_that_can_be_shown_and_sorted(
    field: str, value: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoints"
    if not folder.exists():
        checkpoints.write(folder, frames=7, groups={"model": {"w": np.ones(3, np.float32)}}, requested=False,
                          meta={"steps": 1, "updates": 1, "time_s": 0.5})
        (folder / "000000000007" / "meta.json").rename(tmp_path / "meta.json")
    content = json.loads((tmp_path / "meta.json").read_bytes())
    del content["sha256"]
    top, _, inner = field.partition(".")
    (content[top] if inner else content)[inner or top] = value
    (folder / "000000000007" / "meta.json").write_text(json.dumps({**content, "sha256": digest(content)}))
    try:
        found = checkpoints.at(folder / "000000000007")
        repr(found)
        found.verify()
    except CheckpointCorrupt:
        assert checkpoints.newest_good(folder)[0] is None
    else:
        assert checkpoints.newest_good(folder)[0] is not None and found.frames >= 0
