"""`Run.share`: what is in the file, how large it is, and that text in it is nothing but text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.attacks import hostile
from tests.attacks.hostile import MARK, TEXT
from tests.widgets import recorded
from workbench.cli.commands import run as command
from workbench.errors import InvalidInput, StorageFailed
from workbench.metrics import MetricsWriter
from workbench.rundir import RunDirectory
from workbench.running.handle import Run
from workbench.widgets.charts.axes import AXES
from workbench.widgets.kernel import assets
from workbench.widgets.panel import dashboard
from workbench.widgets.sharing import shared_page
from workbench.wire import columns

MOST_BYTES = 10_000_000


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "home"


class Page(HTMLParser):
    """What a browser's parser finds in a file: elements, text by element, and the data blocks."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._within = ""
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._within = dict(attrs).get("id") or tag

    def handle_data(self, data: str) -> None:
        self.texts[self._within] = self.texts.get(self._within, "") + data

    def data(self, name: str) -> Any:
        return json.loads(self.texts[name])


def steered(name: str) -> RunDirectory:
    """A run of V-trace whose learning rate was tuned, as its supervisor records that."""
    directory = recorded.vtrace(name)
    writer = MetricsWriter(directory.metrics)
    writer.event("tune", "learning_rate 0.0006 → 0.0003", progress=recorded.at(70),
                 data={"old": {"learning_rate": 6e-4}, "new": {"learning_rate": 3e-4}})
    writer.event("error", "actor-0 ended with signal 9", progress=recorded.at(80))
    writer.close()
    directory.write(config=directory.config().with_live(learning_rate=3e-4).to_json())
    return directory


def test_the_file_has_facts_charts_the_rollout_the_card_and_the_configuration(tmp_path: Path) -> None:
    directory = steered("pong")
    recorded.rollout(directory)
    path = Run(directory).share(tmp_path / "pong.html")
    page = Page(path)
    assert path == tmp_path / "pong.html" and len(path.read_bytes()) < 1_000_000
    ids = {attributes.get("id") for _, attributes in page.elements}
    assert {"charts", "rollout", "player", "card", "configuration", "charts-data", "film", "film-0", "film-1"} <= ids
    assert "policy lag" in page.source and "307,200 of 10 M frames" in page.source
    assert "0.0006 → 0.0003 (at 179,200 frames)" in page.source
    assert re.search(r"<tr class=changed><td>learning_rate</td><td>0.0003</td>", page.source)
    assert "preprocessing" in page.source and "wb.launch(" in page.source


def test_every_chart_of_the_panel_is_there_over_every_axis(tmp_path: Path) -> None:
    for directory in (steered("one"), recorded.r2d2("two"), recorded.new("three")):
        data = Page(Run(directory).share(tmp_path / f"{directory.name}.html")).data("charts-data")
        drawn = dashboard.figures(dashboard.read(directory))
        assert [(one["title"], one["group"]) for one in data["charts"]] == [
            (one.title, one.group) for one in drawn.values()]
        assert data["axes"] == list(AXES)
        for chart in data["charts"]:
            assert chart["kind"] in ("lines", "bars", "parts", "events", "nothing"), chart["title"]
            for line in chart.get("lines", ()):
                assert {axis: len(line["x"][axis]) for axis in AXES} == {axis: len(line["y"][axis]) for axis in AXES}


def test_the_strip_says_what_happened_and_where(tmp_path: Path) -> None:
    data = Page(Run(steered("one")).share(tmp_path / "one.html")).data("charts-data")
    (strip,) = [one for one in data["charts"] if one["kind"] == "events"]
    assert strip["event"] == ["tune", "tune", "error"] and strip["message"][2] == "actor-0 ended with signal 9"
    assert strip["x"]["updates"] == [60, 70, 80] and strip["x"]["frames"][2] == 80 * 2560
    assert set(strip["event"]) <= data["marks"].keys() and set(strip["lane"]) <= set(data["lanes"])


def film_of(page: Page) -> tuple[dict[str, Any], dict[str, np.ndarray], bytes]:
    """Header, columns and pictures of the rollout, as the player reads them."""
    message = page.data("film")
    packed, pictures, _ = (base64.b64decode(page.texts[f"film-{at}"]) if f"film-{at}" in page.texts else b""
                           for at in range(message["buffers"]))
    return message["header"], columns.unpack(message["columns"], zlib.decompress(packed)), pictures


def test_the_rollout_with_the_highest_return_is_the_one_that_plays(tmp_path: Path) -> None:
    directory = recorded.vtrace("one")
    for seed, reward in ((1, -1.0), (2, 5.0), (3, 2.0)):
        recorded.rollout(directory, seed=seed, reward=reward)
    header, told, pictures = film_of(Page(Run(directory).share(tmp_path / "a.html")))
    assert "seed 2" in header["title"] and told["episode_return"][-1] == 20.0
    assert told["picture_end"][-1] == len(pictures) and len(told["picture_end"]) == 41


def test_a_run_without_checkpoint_and_rollout_says_so(tmp_path: Path) -> None:
    page = Page(Run(recorded.vtrace("one")).share(tmp_path / "a.html"))
    assert "no checkpoint yet" in page.source and "film" not in page.texts


def test_a_long_film_of_large_frames_is_thinned_until_the_file_is_small(tmp_path: Path) -> None:
    directory = recorded.vtrace("one")
    recorded.rollout(directory, steps=150, size=420)
    whole = sum(path.stat().st_size for path in directory.rollouts.glob("*/frames.bin"))
    path = Run(directory).share(tmp_path / "a.html")
    page = Page(path)
    header, told, pictures = film_of(page)
    lengths = np.diff(told["picture_end"], prepend=0)
    stride = int(np.flatnonzero(lengths)[1])
    assert whole > 15_000_000 and MOST_BYTES / 3 < path.stat().st_size < MOST_BYTES
    assert len(lengths) == 151 and stride > 1 and (np.flatnonzero(lengths) % stride == 0).all()
    assert f"its pictures have at most 320 px and the film shows one frame of {stride}" in page.source
    assert header["picture"] == {"mime": "image/jpeg", "height": 420, "width": 420} and pictures[:2] == b"\xff\xd8"


def test_a_rollout_whose_numbers_alone_are_too_many_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = recorded.vtrace("one")
    recorded.rollout(directory)
    bare = Page(Run(recorded.vtrace("two")).share(tmp_path / "b.html"))
    monkeypatch.setattr(shared_page, "LARGEST", len(bare.source) + shared_page.MARGIN)
    page = Page(Run(directory).share(tmp_path / "a.html"))
    assert "does not fit into this file" in page.source and "film" not in page.texts


def test_a_name_is_chosen_that_is_free_and_one_that_is_given_is_replaced(tmp_path: Path) -> None:
    run = Run(recorded.vtrace("pong-1"))
    assert [run.share().name, run.share().name] == ["pong-1.html", "pong-1-2.html"]
    (tmp_path / "own.htm").write_text("old")
    assert run.share(tmp_path / "own.htm").read_text().startswith("<!DOCTYPE html>")
    with pytest.raises(InvalidInput, match=r"'a\.pdf' is no name of a page\. End it in \.html"):
        run.share(tmp_path / "a.pdf")
    with pytest.raises(StorageFailed, match=r"cannot write .*No such file"):
        run.share(tmp_path / "none" / "a.html")


def test_the_command_line_shares_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded.vtrace("pong-1")
    assert command(["share", "pong-1", "-o", str(tmp_path / "x.html")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "x.html") and (tmp_path / "x.html").exists()


def test_hostile_text_of_a_run_and_of_its_rollout_is_text_alone(home: Path, tmp_path: Path) -> None:
    directory = hostile.run(home, TEXT)
    recorded.rollout(directory, text=TEXT[:400])
    page = Page(Run(directory).share(tmp_path / "a.html"))
    assert MARK in page.texts["h1"] and MARK in json.dumps(page.data("film")) and MARK in page.texts["charts-data"]
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"iframe", "img", "a", "base", "object", "embed", "svg", "form", "input"}
    assert [attributes.get("type") for tag, attributes in page.elements if tag == "script"] == [
        "application/json", "application/json", *["text/plain"] * 3, "module"]
    assert page.texts["style"] and sum(tag == "style" for tag, _ in page.elements) == 1
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "srcdoc", "style")], tag
    assert [attributes["href"] for _, attributes in page.elements if "href" in attributes] == ["data:,"]
    assert not re.search("[\\u202e\\x00\\x1b]", page.source)


def test_the_policy_allows_the_script_and_the_sheet_of_the_page_and_nothing_else(tmp_path: Path) -> None:
    page = Page(Run(recorded.vtrace("one")).share(tmp_path / "a.html"))
    (policy,) = [str(attributes["content"]) for tag, attributes in page.elements if tag == "meta"
                 and attributes.get("http-equiv") == "Content-Security-Policy"]
    script = re.findall(r'<script type="module">(.*?)</script>', page.source, re.DOTALL)
    style = re.findall(r"<style>(.*?)</style>", page.source, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for (text,) in (script, style)]
    assert policy == (f"default-src 'none'; script-src 'sha256-{digests[0]}'; style-src 'sha256-{digests[1]}'; "
                      "img-src data: blob:; base-uri 'none'; form-action 'none'")
    assert "unsafe" not in policy and len(assets.text("share.js")) < 60_000
