"""The journal of an episode: what was written comes back, whatever cut it off."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from workbench.errors import InvalidInput
from workbench.playing import store
from workbench.playing.store import Journal, RolloutWriter, read_journal

OPENING = {"title": "t", "seed": 3}
STEPS = [([1], "person", 0.5), ([[0.25, -1.0]], "agent", -1.0)]


def test_what_is_written_comes_back_without_a_line_that_was_cut_off(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "one.begun", OPENING)
    assert not journal.path.exists()
    for step in STEPS:
        journal.append(step)
    assert read_journal(journal.path) == (OPENING, STEPS)
    with open(journal.path, "a") as file:
        file.write('[[1], "per')
    assert read_journal(journal.path) == (OPENING, STEPS)
    again = Journal(journal.path, OPENING)
    again.rewrite(STEPS)
    again.append(STEPS[0])
    assert read_journal(journal.path) == (OPENING, [*STEPS, STEPS[0]])
    again.remove()
    assert not list(tmp_path.iterdir())


def test_no_step_follows_one_that_could_not_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "away"
    folder.mkdir()
    journal = Journal(folder / "one.begun", OPENING)
    journal.append(STEPS[0])
    folder.rename(tmp_path / "elsewhere")
    journal.append(STEPS[1])
    (tmp_path / "elsewhere").rename(folder)
    journal.append(STEPS[0])
    assert read_journal(journal.path) == (OPENING, STEPS[:1])


@pytest.mark.parametrize("text", ["", "{}", "[]\n[]", '{"title": "t"}\n[1]', "\x00"])
def test_what_is_no_journal_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.begun"
    with pytest.raises(InvalidInput, match="no episode to go on with"):
        read_journal(path)
    path.write_text(text)
    with pytest.raises(InvalidInput, match="not the journal of an episode"):
        read_journal(path)


def test_an_episode_is_kept_as_it_is_so_far_and_filled_further(tmp_path: Path) -> None:
    target = tmp_path / "kept"
    with store.scratch_beside(target) as scratch, RolloutWriter(scratch) as writer:
        for number in range(3):
            writer.append(values=np.float32(number))
            assert writer.show(np.full((4, 4, 3), number, np.uint8))[1][:4] == b"\x89PNG"
            with store.replacing(target) as folder:
                writer.finish({"seed": number}, into=folder)
            record, arrays, frames = store.read(target)
            assert record["seed"] == number and arrays["values"].tolist() == list(range(number + 1))
            assert frames is not None and [one[0, 0, 0] for one in frames] == list(range(number + 1))
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
