"""Every live hyperparameter of both algorithms has a control that works, made from its metadata alone."""

from __future__ import annotations

import math
from typing import Any

import ipywidgets
import pytest

from workbench.config import RunConfig, Setting
from workbench.config.settings import GROUPS, in_groups
from workbench.tables import readable, typed_number
from workbench.widgets.panel.tuning.control_grid import ControlGrid
from workbench.widgets.panel.tuning.controls import ERROR_S, FieldControl, SharedStyles, as_text, highest, lowest

LIVE = [
    pytest.param(setting, id=f"{algorithm}-{name}")
    for algorithm in ("vtrace", "r2d2")
    for name, setting in RunConfig.build("CartPole-v1", algorithm=algorithm).all_settings().items() if setting.live
]  # fmt: skip


class Asked:
    """What a control asks for, with its types."""

    def __init__(self) -> None:
        self.all: list[tuple[str, Any]] = []
        self.undone: list[str] = []

    def __call__(self, name: str, value: Any) -> None:
        self.all.append((name, value))


def controlled(setting: Setting, value: Any = ...) -> tuple[FieldControl, Asked]:
    asked = Asked()
    value = setting.default if value is ... else value
    return FieldControl(setting, value, asked, undo=asked.undone.append), asked


def r2d2(name: str) -> Setting:
    return RunConfig.build("CartPole-v1", algorithm="r2d2").all_settings()[name]


@pytest.mark.parametrize("setting", LIVE)
def test_it_shows_its_value_and_says_what_it_is(setting: Setting) -> None:
    control, asked = controlled(setting)
    assert control.field.value == (setting.default if setting.kind is bool else as_text(setting.default))
    said = control.field.tooltip
    for part in (setting.name, setting.help, setting.unit, setting.source, f"default {as_text(setting.default)}"):
        assert part in said
    label = control.field.description
    assert label.startswith(setting.title) and (not setting.unit or f"({setting.unit})" in label)
    if setting.low is not None:
        assert f"from {as_text(setting.low)} to {as_text(setting.high)}" in said and "e+" not in said
    assert asked.all == []


@pytest.mark.parametrize("setting", LIVE)
def test_what_a_person_does_asks_for_a_value_of_its_type(setting: Setting) -> None:
    if setting.kind is bool:
        control, asked = controlled(setting)
        control.field.value = not setting.default
        assert asked.all == [(setting.name, not setting.default)]
        return
    assert setting.low is not None and setting.high is not None
    control, asked = controlled(setting, setting.kind((setting.low + setting.high) / 2))
    for bound in (setting.low, setting.high):
        control.field.value = f"{bound:g}"
        name, value = asked.all[-1]
        assert (name, value, type(value)) == (setting.name, bound, setting.kind)
    before = len(asked.all)
    control.field.value = f"{setting.high * 2 + 1:g}"
    assert len(asked.all) == before and "out of bounds" in control.message.value


@pytest.mark.parametrize("setting", [one for one in LIVE if controlled(one.values[0])[0].slider is not None])
def test_a_slider_asks_within_the_bounds_wherever_it_is_moved(setting: Setting) -> None:
    control, asked = controlled(setting)
    slider = control.slider
    assert isinstance(slider, ipywidgets.FloatLogSlider) == (setting.scale == "log")
    assert slider.value == pytest.approx(setting.default, rel=0.02, abs=1e-9)
    for place in (0.0, 0.31, 0.97, 1.0):
        end = slider.min + place * (slider.max - slider.min)
        wanted = slider.base**end if setting.scale == "log" else end
        slider.value = round(wanted) if isinstance(slider, ipywidgets.IntSlider) else wanted
    assert len(asked.all) >= 3
    for name, value in asked.all:
        assert name == setting.name and type(value) is setting.kind
        assert setting.check(value) == value
    assert math.isclose(asked.all[-1][1], highest(slider), rel_tol=5e-3)
    assert setting.low is not None and setting.high is not None
    assert setting.low <= lowest(slider) < highest(slider) <= setting.high * (1 + 1e-9)


@pytest.mark.parametrize("name", ["learning_rate", "replay_ratio", "target_update_period", "max_gradient_norm",
                                  "checkpoint_interval_s"])
def test_a_field_marked_logarithmic_has_a_logarithmic_slider(name: str) -> None:
    assert isinstance(controlled(r2d2(name))[0].slider, ipywidgets.FloatLogSlider)


def test_a_linear_slider_of_fractions_reaches_a_tenth_of_the_bounds_around_its_value() -> None:
    control, asked = controlled(r2d2("discount"), 0.5)
    assert (control.slider.min, control.slider.max) == pytest.approx((0.4, 0.6))
    control.slider.value = 0.6
    assert asked.all == [("discount", 0.6)]
    control.succeeded(0.6)
    assert (control.slider.min, control.slider.max) == pytest.approx((0.5, 0.7))
    control.show(1.0)
    assert (control.slider.min, control.slider.max, control.slider.value) == pytest.approx((0.9, 1.0, 1.0))
    assert control.slider.description == "0.9 … 1"


def test_yes_or_no_is_a_checkbox_that_returns_to_what_is_in_force() -> None:
    control, asked = controlled(r2d2("save_replay"))
    assert isinstance(control.field, ipywidgets.Checkbox) and control.slider is None
    control.field.value = True
    assert asked.all == [("save_replay", True)]
    control.failed("the run is dead")
    assert control.field.value is False and "the run is dead" in control.message.value
    control.field.value = True
    control.succeeded(True)
    assert control.field.value is True and control.message.value == ""
    assert asked.all == [("save_replay", True)] * 2


def test_an_integer_in_a_narrow_range_has_a_slider_of_integers() -> None:
    control, asked = controlled(r2d2("echo_factor"))
    assert isinstance(control.slider, ipywidgets.IntSlider)
    control.slider.value = 4
    assert asked.all == [("echo_factor", 4)]


def test_a_fraction_is_refused_where_an_integer_is_asked_for() -> None:
    control, asked = controlled(r2d2("target_update_period"))
    control.field.value = "2.5"
    assert "target_update_period=2.5 must be a whole number" in control.message.value
    assert control.field.value == "2500" and asked.all == []
    control.field.value = "1e4"
    assert asked.all == [("target_update_period", 10_000)]


def test_a_string_with_choices_is_a_list_and_one_without_is_typed() -> None:
    mode = Setting("mode", str, "slow", "how it goes", choices=("slow", "fast"), live=True)
    control, asked = controlled(mode)
    assert tuple(control.field.options) == mode.choices and control.field.value == "slow"
    control.field.value = "fast"
    assert asked.all == [("mode", "fast")]
    assert "one of slow, fast" in control.field.tooltip
    control, asked = controlled(Setting("note", str, "", "what to remember", live=True))
    control.field.value = "a word"
    assert asked.all == [("note", "a word")]


def test_a_choice_may_be_none_where_that_is_allowed() -> None:
    control, asked = controlled(Setting("mode", str, None, "how", choices=("a",), live=True, optional=True))
    assert control.field.value == "none"
    control.field.value = "a"
    control.succeeded("a")
    control.field.value = "none"
    assert asked.all == [("mode", "a"), ("mode", None)]


def test_a_value_that_is_only_written_differently_asks_for_nothing() -> None:
    control, asked = controlled(r2d2("learning_rate"))
    control.field.value = "0.1e-3"
    assert asked.all == [] and control.field.value == "0.0001"


def test_an_answer_does_not_move_a_slider_that_a_person_has_moved_on() -> None:
    control, asked = controlled(r2d2("echo_factor"))
    control.slider.value = 4
    control.slider.value = 7
    control.succeeded(4)
    assert control.slider.value == 7
    control.failed("it went away")
    assert control.slider.value == 4 and "it went away" in control.message.value
    assert asked.all == [("echo_factor", 4), ("echo_factor", 7)]


def test_undo_hands_the_name_over_once_there_is_something_to_take_back() -> None:
    control, asked = controlled(r2d2("learning_rate"))
    assert control.undo.disabled
    control.undo.click()
    assert asked.undone == ["learning_rate"] and asked.all == []


def test_what_is_shown_meanwhile_does_not_answer_what_was_asked_for() -> None:
    control, asked = controlled(r2d2("learning_rate"))
    control.field.value = "0.002"
    control.show(3e-4)
    assert control.pending == 1 and control.field.value == "0.002"
    control.failed("the run is dead")
    assert control.pending == 0 and control.field.value == "0.0003"


def refused(name: str = "learning_rate") -> tuple[FieldControl, Asked]:
    """A control with an error under it."""
    control, asked = controlled(r2d2(name))
    control.field.value = "1e9"
    assert "out of bounds" in control.message.value and asked.all == []
    return control, asked


def test_an_error_goes_when_the_field_is_corrected() -> None:
    control, asked = refused()
    control.field.value = "0.002"
    assert control.message.value == "" and asked.all == [("learning_rate", 0.002)]


def test_an_error_goes_when_the_slider_is_moved() -> None:
    control, _ = refused()
    control.slider.value = 3e-4
    assert control.message.value == ""


def test_an_error_goes_when_the_field_is_cleared_and_the_value_in_force_returns() -> None:
    control, asked = refused("discount")
    control.field.value = ""
    assert control.message.value == "" and control.field.value == "0.997" and asked.all == []


def test_an_error_goes_when_the_value_in_force_is_committed_once_more() -> None:
    control, asked = refused()
    control.field._handle_custom_msg({"event": "submit"}, [])  # as a page sends it at Enter
    assert control.message.value == "" and asked.all == []


def test_an_error_goes_when_an_undo_is_asked_for() -> None:
    control, _ = refused()
    control.undo.click()
    assert control.message.value == ""


def test_an_error_goes_when_the_value_changes_elsewhere() -> None:
    control, _ = refused()
    control.show(1e-4)
    assert control.message.value, "nothing has changed"
    control.show(3e-4)
    assert control.message.value == ""


def test_an_error_goes_after_a_while() -> None:
    control, _ = refused()
    control.follow(control.value)
    assert control.message.value
    control._said_at -= ERROR_S
    control.follow(control.value)
    assert not control.message.value


def test_a_late_answer_removes_no_error_that_came_after_its_request() -> None:
    control, _ = controlled(r2d2("learning_rate"))
    control.field.value = "0.002"
    control.field.value = "-1"
    control.succeeded(0.002)
    assert "out of bounds" in control.message.value


@pytest.mark.parametrize("setting", LIVE)
def test_every_live_field_has_a_group(setting: Setting) -> None:
    assert setting.group in GROUPS


@pytest.mark.parametrize("algorithm", ["vtrace", "r2d2"])
def test_the_learning_rate_comes_first_and_prices_stand_with_the_system(algorithm: str) -> None:
    groups = in_groups(RunConfig.build("CartPole-v1", algorithm=algorithm).all_settings())
    assert list(groups) == [group for group in GROUPS if group in groups]
    assert next(iter(groups["learning"])) == "learning_rate" and "price_per_hour" in groups["system"]


@pytest.mark.parametrize(("value", "text"), [
    (10_000_000, "10 M"), (1e6, "1 M"), (10**13, "10 T"), (12_345_678, "12,345,678"), (2500, "2500"), (6e-4, "0.0006"),
    (-1e12, "-1 T"), (65_536, "65,536"), (12_345.6, "12345.6"), (True, "True"), (math.inf, "inf"),
    (10**400, "1" + "0" * 400),
])
def test_a_number_is_written_as_people_read_it_and_as_it_can_be_typed(value: float, text: str) -> None:
    assert readable(value) == text
    if value is not True and abs(value) < 1e300:
        assert typed_number(text) == value


def test_names_are_written_for_people() -> None:
    fields = RunConfig.build("CartPole-v1").all_settings()
    assert [fields[name].title for name in ("lambda_", "learning_rate", "batch_timeout_ms")] == [
        "lambda (λ)", "learning rate", "batch timeout (ms)"]


def grid(**values: Any) -> tuple[ControlGrid, dict[str, FieldControl]]:
    config = RunConfig.build("CartPole-v1", **values)
    controls = {name: controlled(setting, config.value(name))[0]
                for name, setting in config.all_settings().items() if setting.live}
    shown = ControlGrid(config.all_settings(), controls, SharedStyles())
    shown.show(())
    return shown, controls


def visible(controls: dict[str, FieldControl]) -> list[str]:
    return [name for name, control in controls.items() if "workbench-hidden" not in control.view._dom_classes]


@pytest.mark.parametrize(("words", "names"), [
    ("learning_rate", ["learning_rate", "warmup_updates"]), ("λ", ["lambda_"]), ("no such field", []),
])
def test_a_search_leaves_the_fields_with_these_words(words: str, names: list[str]) -> None:
    shown, controls = grid()
    assert visible(controls) == list(controls)
    shown.search.value = words
    assert visible(controls) == names
    shown.search.value = ""
    assert visible(controls) == list(controls)


def test_a_switch_leaves_the_fields_that_were_changed() -> None:
    shown, controls = grid(entropy_cost=0.02)
    shown.changed_only.value = True
    assert visible(controls) == ["entropy_cost"]
    shown.show(["discount"])
    assert visible(controls) == ["discount", "entropy_cost"]


def test_a_logarithmic_slider_reaches_a_decade_around_the_value_in_force_and_names_its_ends() -> None:
    control, asked = controlled(r2d2("learning_rate"), 2e-3)
    assert (lowest(control.slider), highest(control.slider)) == pytest.approx((2e-4, 2e-2))
    assert control.slider.description == "0.0002 … 0.02" and control.slider.readout
    control.show(1e-2)
    assert highest(control.slider) == pytest.approx(2e-2), "the value lies within the range"
    control.show(1e-7)
    assert (lowest(control.slider), highest(control.slider)) == pytest.approx((1e-8, 1e-6))
    control.show(0.9)
    assert (lowest(control.slider), highest(control.slider)) == pytest.approx((0.09, 1.0))
    control.show(0.0)
    assert control.slider.value == pytest.approx(0.09) and asked.all == []


def test_a_slider_at_its_end_goes_on_from_there_once_the_value_holds() -> None:
    control, asked = controlled(r2d2("learning_rate"))
    control.slider.value = 1e-3
    assert asked.all == [("learning_rate", 1e-3)] and highest(control.slider) == pytest.approx(1e-3)
    control.succeeded(1e-3)
    assert highest(control.slider) == pytest.approx(1e-2) and asked.all == [("learning_rate", 1e-3)]
    control.field.value = "0.5"
    assert asked.all[-1] == ("learning_rate", 0.5), "the field takes any value within the bounds"


@pytest.mark.parametrize("setting", [live for live in LIVE if controlled(live.values[0])[0].slider is not None])
def test_no_slider_asks_before_it_is_let_go(setting: Setting) -> None:
    slider = controlled(setting)[0].slider
    assert slider.continuous_update is False and " … " in slider.description and "e+" not in slider.description
