"""What was changed and what of it was taken back, from events alone."""

from __future__ import annotations

from typing import Any

from workbench.running.reading.changes import Change, changes, last


def tune(number: int, *, undoes: int | None = None, **values: tuple[Any, Any]) -> dict[str, Any]:
    old, new = ({name: pair[side] for name, pair in values.items()} for side in (0, 1))
    return {"id": number, "kind": "tune", "time": 0.0, "frames": 10 * number,
            "data": {"old": old, "new": new, "undoes": undoes}}


def fields(found: list[Change]) -> list[tuple[str, Any]]:
    return [(one.name, one.old) for one in found]


def test_the_last_change_that_stands_is_taken_back_first_and_then_the_one_before() -> None:
    events = [tune(1, a=(1, 2)), tune(2, b=(5, 6)), tune(3, a=(2, 3))]
    assert fields(last(changes(events))) == [("a", 2)]
    events.append(tune(4, undoes=3, a=(3, 2)))
    assert fields(last(changes(events))) == [("b", 5)]
    assert fields(last(changes(events), "a")) == [("a", 1)]
    events += [tune(5, undoes=2, b=(6, 5)), tune(6, undoes=1, a=(2, 1))]
    assert last(changes(events)) == []
    assert [one.undone for one in changes(events)] == [True] * 3 + [False] * 3


def test_fields_that_were_changed_together_are_taken_back_together_but_for_those_that_were_already() -> None:
    events = [tune(1, a=(1, 2), b=(5, 6))]
    assert fields(last(changes(events))) == [("a", 1), ("b", 5)]
    assert fields(last(changes(events), "b")) == [("b", 5)]
    events.append(tune(2, undoes=1, b=(6, 5)))
    assert fields(last(changes(events))) == [("a", 1)]


def test_a_change_after_an_undo_is_the_next_to_be_taken_back() -> None:
    events = [tune(1, a=(1, 2)), tune(2, undoes=1, a=(2, 1)), tune(3, a=(1, 7))]
    assert fields(last(changes(events))) == [("a", 1)]


def test_what_was_set_to_the_value_that_it_had_is_no_change_to_take_back() -> None:
    events = [tune(1, a=(1, 2), b=(5, 5)), tune(2, a=(2, 2))]
    assert fields(last(changes(events))) == [("a", 1)]
    assert last(changes(events), "b") == []


def test_events_of_other_kinds_and_those_without_old_values_are_no_changes() -> None:
    scale = {"id": 2, "kind": "scale", "time": 0.0, "frames": 1, "data": {"actors": 4}}
    assert changes([{**tune(1, a=(1, 2)), "kind": "checkpoint"}, scale]) == []
