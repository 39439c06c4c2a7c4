"""The card of a run has all that is needed to judge it and to do it again."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.conftest import SMALL
from tests.played import checkpoint_in
from tests.widgets import recorded
from workbench import rundir
from workbench.__main__ import main
from workbench.config import RunConfig
from workbench.errors import InvalidInput, StorageFailed
from workbench.metrics import MetricsWriter, Progress
from workbench.playing.evaluating import evaluation_log
from workbench.running.card import curve as card_curve
from workbench.running.starts import checking


def curve_of(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])


def relaunched(code: str, monkeypatch: pytest.MonkeyPatch) -> tuple[RunConfig, list[tuple[str, Any]]]:
    """What the code of a card would launch, and then do."""
    done: list[tuple[str, Any]] = []
    launched: list[RunConfig] = []

    class Handle:
        def __getattr__(self, name: str) -> Any:
            return lambda **given: done.append((name, given))

    def launch(environment: str, *, algorithm: str, preset: str | None = None, **fields: Any) -> Handle:
        launched.append(checking.checked_config(environment, algorithm, None, preset, (), fields)[0])
        return Handle()

    monkeypatch.setattr(wb, "launch", launch)
    exec(code, {})
    return launched[0], done


def test_a_card_has_the_settings_with_units_what_happened_and_the_curve(home: Path) -> None:
    directory = recorded.vtrace("pong")
    one = recorded_checkpoint = checkpoint_in(home / "other", "ALE/Pong-v5")
    evaluation_log.keep(directory, recorded_checkpoint, wb.Evaluation(
        "ALE/Pong-v5", one.path, 1200, 7, True, (1.0, 2.0, 3.0), (9, 9, 9), "noop-starts"))
    text = wb.attach("pong").card().markdown
    for row in ("| environment | ALE/Pong-v5 |  |", "| option repeat_action_probability | 0.25 |",
                "| option max_frames_per_episode | 108000 frames |", "| unroll_length | 20 steps |", "| seed | 0 |",
                "| max_abs_reward | 1.0 |", "| tune | learning_rate 0.0006 → 0.0003 | at 153,600 frames |",
                "| frames | 307,200 | of 10,000,000 |", "| human-normalized | random play -20.7, human 14.6 |",
                "3 episodes, IQM 2, seed 7, likeliest actions, noop-starts", "| updates | steps of the optimizer"):
        assert row in text, row
    assert curve_of(text).tag.endswith("svg")
    assert "\n\n" not in text[text.index("<svg") : text.index("</svg>")], "a blank line would end it in Markdown"


def test_the_code_of_a_card_launches_the_run_as_it_was_and_changes_it_as_it_was_changed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = RunConfig.build("CartPole-v1", learning_rate=3e-4, actors=4, seed=5, network="mlp", max_hours=2.0)
    now = config.replaced(learning_rate=1e-4, entropy_cost=0.5, actors=2)
    directory = rundir.create("tuned", {"created": 0.0, "config": now.to_json(), "state": "stopped", "error": None,
                                        "parent": None, "preset": "some", "versions": {"torch": "1.2"}})
    writer = MetricsWriter(directory.metrics)
    for name, old, new, frames in (("learning_rate", 3e-4, 2e-4, 100), ("entropy_cost", 0.01, 0.5, 100),
                                   ("learning_rate", 2e-4, 1e-4, 200), ("actors", 4, 2, 300)):
        kind = "scale" if name == "actors" else "tune"
        writer.event(kind, f"{name} {old} → {new}", progress=Progress(frames, 1, 1, 1.0),
                     data={"old": {name: old}, "new": {name: new}})
    writer.close()
    card = wb.attach("tuned").card()
    assert "preset='none'" in card.code and "| torch | 1.2 |" in card.markdown
    launched, done = relaunched(card.code, monkeypatch)
    assert launched == config
    assert done == [("wait", {"frames": 100}), ("tune", {"learning_rate": 2e-4}), ("wait", {"frames": 100}),
                    ("tune", {"entropy_cost": 0.5}), ("wait", {"frames": 200}), ("tune", {"learning_rate": 1e-4}),
                    ("wait", {"frames": 300}), ("scale", {"actors": 2})]


def test_the_code_of_a_card_names_an_environment_of_the_users_own_as_its_class(home: Path) -> None:
    config = RunConfig.build("DictEnv")
    rundir.create("own", {"created": 0.0, "config": config.to_json(), "state": "stopped", "error": None, "parent": None,
                          "preset": None, "code": {"environment": True}})
    assert "run = wb.launch(DictEnv,\n" in wb.attach("own").card().code


def test_the_code_of_a_card_begins_with_the_same_weights_and_names_what_is_to_be_given(home: Path) -> None:
    checkpoint = home / "runs" / "old" / "checkpoints" / "000000000100"
    parent = {"checkpoint": str(checkpoint), "take": "weights", "run": "old"}
    for name, algorithm, more in (("warm", "vtrace", {}), ("fork", "vtrace", {"take": "all"}), ("clone", "bc", {})):
        config = RunConfig.build("CartPole-v1", algorithm=algorithm)
        rundir.create(name, {"created": 0.0, "config": config.to_json(), "state": "stopped", "error": None,
                             "parent": {**parent, **more} if algorithm == "vtrace" else None, "preset": None})
    assert "checkpoint='old@000000000100'" in wb.attach("warm").card().code
    assert "# checkpoint: of which it took the weights, and as a fork also its" in wb.attach("fork").card().code
    assert "demonstrations=...)" in wb.attach("clone").card().code


@pytest.mark.full
def test_a_card_of_a_real_run_says_what_the_network_sees_and_where_it_ran(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = wb.launch("testing/catch-v0", name="caught", total_frames=2000, progress=False, wait_ready=False,
                    **{**SMALL, "actors": 1})
    run.wait(timeout_s=240)
    assert main(["card", "caught", "--output", str(home / "caught.html")]) == 0
    assert capsys.readouterr().out.strip() == str(home / "caught.html")
    page = (home / "caught.html").read_text()
    assert page.startswith("<!doctype html>") and "as the network sees it" in page and " parameters</td>" in page
    assert "where it was launched" in page and "<td style" in page and f">{wb.__version__}<" in page
    assert len(curve_of(page).findall("{*}polyline")) == 1
    assert relaunched(run.card().code, monkeypatch)[0] == run.config
    assert main(["card", "caught"]) == 0
    assert capsys.readouterr().out.startswith("# caught\n\nvtrace on testing/catch-v0, seed 0: finished after 2,")


def test_a_card_of_a_run_that_has_just_begun_has_no_curve_and_hides_no_text_as_markup(home: Path) -> None:
    recorded.new("new", environment_options={"repeat_action_probability": 0.0}).write(versions={"<b>|": "1"})
    card = wb.attach("new").card()
    assert card.curve == "" and repr(card) == f"Card(new: {card.summary})"
    assert "| &lt;b&gt;\\| | 1 |" in card.markdown and "<td" in card._repr_html_() and "<b>" not in card._repr_html_()


def test_a_card_is_saved_as_what_its_name_says(home: Path) -> None:
    recorded.new("kept")
    card = wb.attach("kept").card()
    assert card.save(home / "a.md").read_text() == card.markdown == str(card)
    with pytest.raises(InvalidInput, match="'a.pdf' says no format. End it in one of .md, .html"):
        card.save(home / "a.pdf")
    with pytest.raises(InvalidInput, match=r"^3 is no path. Give one such as 'pong.md'"):
        card.save(3)  # type: ignore[arg-type]
    with pytest.raises(StorageFailed, match="No such file or directory. Choose another place"):
        card.save(home / "none" / "a.md")
    (home / "other.md").write_text("mine")
    (home / "link.md").symlink_to(home / "other.md")
    card.save(home / "link.md")
    assert (home / "other.md").read_text() == "mine" and (home / "link.md").read_text() == card.markdown
    assert not (home / "link.md").is_symlink() and not list(home.glob(".*.md"))


def test_ticks_are_round_and_a_curve_stays_inside_its_axes() -> None:
    assert card_curve.ticks(0.0, 1.0) == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    for low, high in ((-21.0, 20.5), (3e6, 1e9), (0.001, 0.0013), (-5.0, -4.9)):
        assert 3 <= len(card_curve.ticks(low, high)) <= 7
    x, y = np.linspace(0, 1e7, 50), np.random.default_rng(0).normal(size=50) * 1e5
    drawn = curve_of(card_curve.curve({"a": (x, y), "flat": (x, 0 * y), "one": (x[:1], y[:1])}, x_title="<f>",
                                      y_title="r"))
    lines = drawn.findall("{*}polyline")
    assert len(lines) == 2, "one point is no line"
    points = np.array([pair.split(",") for pair in lines[0].attrib["points"].split()], float)
    assert (points[0, 0], points[-1, 0]) == (62.0, 628.0)
    assert (points[:, 1].min(), points[:, 1].max()) == (24.0, 220.0)
    assert points[y.argmax(), 1] == 24.0, "up is more"
    assert card_curve.curve({}, x_title="x", y_title="y") == ""


def test_a_change_before_a_restore_is_repeated_where_the_weights_of_now_had_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tuned at 5,000 frames, killed at 6,000, restored at 4,000: the weights had the new rate from 4,000 on."""
    config = RunConfig.build("CartPole-v1", learning_rate=3e-4, entropy_cost=0.01)
    directory = rundir.create("killed", {"created": 0.0, "config": config.replaced(learning_rate=5e-5).to_json(),
                                         "state": "stopped", "error": None, "parent": None})
    writer = MetricsWriter(directory.metrics)

    def tune(name: str, old: float, new: float, frames: int) -> None:
        writer.event("tune", "", progress=Progress(frames, 1, 1, 1.0), data={"old": {name: old}, "new": {name: new}})

    tune("entropy_cost", 0.02, 0.01, 1000)
    tune("learning_rate", 3e-4, 2e-4, 5000)
    tune("learning_rate", 2e-4, 1e-4, 5500)
    writer.event("restore", "", progress=Progress(4000, 1, 1, 1.0), data={"rows": {}})
    tune("learning_rate", 1e-4, 5e-5, 4500)
    writer.close()
    launched, done = relaunched(wb.attach("killed").card().code, monkeypatch)
    assert launched.value("learning_rate") == 3e-4 and launched.value("entropy_cost") == 0.02
    assert done == [("wait", {"frames": 1000}), ("tune", {"entropy_cost": 0.01}), ("wait", {"frames": 4000}),
                    ("tune", {"learning_rate": 1e-4}), ("wait", {"frames": 4500}), ("tune", {"learning_rate": 5e-5})]


def test_the_headline_says_the_best_return_and_a_collapse(home: Path) -> None:
    directory = recorded.vtrace("pong")
    status = recorded.STATUS | {"best_return": 18.5, "best_return_frames": 200_000}
    for fields, headline in (({}, "mean return -20, best mean return 18.5 at 200,000 frames."),
                             ({"judged_by": "episode_return", "best_mean": 18.5, "best_mean_frames": 200_000,
                               "collapsed": True}, "mean return -20, far below its best of 18.5 at 200,000 frames.")):
        writer = MetricsWriter(directory.metrics)
        writer.status(status | fields)
        writer.close()
        assert wb.attach("pong").card().summary.endswith(f"training after 307,200 frames, {headline}") or (
            wb.attach("pong").card().summary.endswith(f"dead after 307,200 frames, {headline}"))
