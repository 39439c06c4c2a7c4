"""Things to touch, and sizes that fit the machine."""

from __future__ import annotations

import altair as alt
import ipywidgets
import pandas as pd
import pytest

from workbench.lessons import fit, slider, speed_probe, touch


def test_a_drawing_follows_its_controls() -> None:
    control = slider(0, 1, 0.5)
    box = touch(lambda height: f"height {height}", height=control)
    shown = box.children[-1]
    assert shown.children[0].value == "height 0.5" and control.description == "height"
    control.value = 0.75
    assert shown.children[0].value == "height 0.75"


def test_pictures_that_were_replaced_are_closed_and_a_failure_is_shown_in_their_place() -> None:
    control = slider(0, 1, 0.5)
    box = touch(lambda x: f"{1 / (x - 0.25):g}", x=control)
    first = box.children[-1].children[0]
    control.value = 0.75
    assert first.comm is None, "closed"
    control.value = 0.25
    assert box.children[-1].children[0].value == "ZeroDivisionError: float division by zero"
    control.value = 0.75
    assert box.children[-1].children[0].value == "2"
    with pytest.raises(ZeroDivisionError):
        touch(lambda x: 1 / 0, x=slider(0, 1, 0.5))


def test_a_chart_is_shown_as_a_picture() -> None:
    def draw(points: int) -> alt.Chart:
        return alt.Chart(pd.DataFrame({"x": range(points)})).mark_point().encode(x="x")

    box = touch(draw, points=ipywidgets.IntSlider(3))
    assert box.children[-1].children[0].value[:4] == b"\x89PNG"


@pytest.mark.parametrize(("share", "size", "least", "fitted"), [
    (1.0, 200_000, 1, 200_000), (2.0, 200_000, 1, 200_000), (0.21, 200_000, 1, 42_000), (0.1, 200_000, 60_000, 60_000),
    (0.999, 3, 1, 3), (0.1, 10, 20, 10)])
def test_a_size_shrinks_with_the_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], share: float, size: int, least: int,
    fitted: int,
) -> None:
    monkeypatch.setattr(speed_probe, "machine_share", lambda: share)
    assert fit(size, least=least) == fitted
    assert (f"{fitted:,}" in capsys.readouterr().out) == (fitted < size)


def test_the_machine_is_measured_once_unless_its_speed_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    speed_probe.machine_share.cache_clear()
    monkeypatch.delenv(speed_probe.SPEED, raising=False)
    measured = speed_probe.machine_share()
    assert 0.05 <= measured <= 1 and speed_probe.machine_share() == measured
    speed_probe.machine_share.cache_clear()
    monkeypatch.setenv(speed_probe.SPEED, "0.5")
    assert speed_probe.machine_share() == 0.5
    speed_probe.machine_share.cache_clear()
