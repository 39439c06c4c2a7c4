"""The pages of docs/ that are made from the code are fresh and complete, and what they say of a run holds for one."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import eventually
from workbench.config import ALGORITHMS, WEIGHT_FIELDS, RunConfig, settings
from workbench.config.own_algorithm import config_class
from workbench.config.own_algorithm import described as description_of
from workbench.errors import InvalidInput, UnknownName, WrongType
from workbench.metrics.meanings import GROUPS, METRICS, described, metrics_of

DOCS = Path(__file__).parents[1] / "docs"
SIZES = {"actors": 1, "envs_per_actor": 4, "evaluation_envs_per_actor": 1, "batch_size": 4, "unroll_length": 8}


@pytest.mark.parametrize("name", ["fields", "metrics", "commands", "errors"])
def test_a_page_made_from_the_code_is_fresh(name: str) -> None:
    made = runpy.run_path(str(DOCS / f"{name}.py"))["page"]()
    assert (DOCS / f"{name}.md").read_text(encoding="utf-8") == made, f"make it anew: python docs/{name}.py"


def test_the_page_of_fields_has_every_field() -> None:
    text = (DOCS / "fields.md").read_text(encoding="utf-8")
    for config in (RunConfig, *ALGORITHMS.values()):
        for name, field in settings(config).items():
            assert f"| `{name}` |" in text and field.help.replace("|", "\\|") in text


def test_the_page_of_fields_says_which_a_fork_cannot_change() -> None:
    text = (DOCS / "fields.md").read_text(encoding="utf-8")
    assert re.search("^    ", text, re.M) is None, "Markdown takes this for code"
    initial = {name for config in ALGORITHMS.values() for name, field in settings(config).items() if field.initial}
    assert set(re.findall(r"^\| `(\w+)` \|.*\| new run \|", text, re.M)) == {*WEIGHT_FIELDS, *initial}


def test_every_error_has_a_remedy() -> None:
    made = runpy.run_path(str(DOCS / "errors.py"))
    names = {kind.__name__ for _, kind in made["tree"](wb.WorkbenchError)}
    public = {name for name, kind in vars(wb.errors).items() if isinstance(kind, type)
              and issubclass(kind, wb.WorkbenchError)}
    assert names == public == made["REMEDIES"].keys()
    assert names == set(re.findall(r"(?:── |^    )(\w+)", wb.errors.__doc__ or "", re.M)), "the tree in the docstring"


# --- metrics ----------------------------------------------------------------------------------------------------------


def test_metrics_of_an_algorithm_are_described_beside_its_fields() -> None:
    for config in ALGORITHMS.values():
        for name, metric in metrics_of(config).items():
            assert metric.help and metric.name == name not in METRICS
    assert all(metric.group in GROUPS and metric.help for metric in METRICS.values())


@pytest.mark.parametrize("algorithm", [pytest.param(name, marks=[] if name == "vtrace" else
                                                    pytest.mark.full) for name in ALGORITHMS if name != "bc"])
def test_every_metric_of_a_run_is_described(home: Path, algorithm: str) -> None:
    sizes = {**SIZES, "replay_min_size": 8} if "replay_min_size" in settings(ALGORITHMS[algorithm]) else SIZES
    run = wb.launch("CartPole-v1", algorithm=algorithm, launcher="inline", progress=False, **sizes)
    try:
        run.wait(updates=20, timeout_s=240, progress=False)
        known = described(ALGORITHMS[algorithm])
        of_the_loss = {name for name, metric in metrics_of(ALGORITHMS[algorithm]).items()
                       if "only with" not in metric.help}
        eventually(lambda: of_the_loss | {"episode_return", "policy_lag_mean"} <= set(run.metric_names))
        names = set(run.metric_names)
        assert names <= known.keys()
        elsewhere = re.compile("(episode|evaluation|replay|priority|sample|xla|life|rounds)_")
        unrecorded = [name for name in known.keys() - names
                      if not elsewhere.match(name) and "only with" not in known[name].help]
        assert not unrecorded, "described, and recorded by no run"
    finally:
        run.stop()


def test_an_algorithm_of_ones_own_describes_its_metrics() -> None:
    class Config(wb.LearningConfig):
        beta: float = 0.1
        metrics = {"bonus": ("mean bonus of a step", "reward")}

    made = config_class(json.dumps(description_of(Config, taken={})))
    assert metrics_of(made)["bonus"].title == "bonus (reward)" and "gradient_norm" in metrics_of(made)

    class Wrong(wb.LearningConfig):
        metrics = {"bonus": "mean bonus"}

    with pytest.raises(InvalidInput, match="two texts"):
        description_of(Wrong, taken={})


# --- wb.fields --------------------------------------------------------------------------------------------------------


def test_fields_lists_every_field_once() -> None:
    table = wb.fields()
    names = [row.name for row in table]
    assert len(names) == len(set(names))
    assert set(names) == {name for config in (RunConfig, *ALGORITHMS.values()) for name in settings(config)}
    assert table["discount"].setting.high == 1.0 and "r2d2: 0.997" in table["discount"].elsewhere
    assert table["actors"].having == ("run",) and "<table" in table._repr_html_()


def test_fields_of_an_algorithm_have_its_defaults() -> None:
    assert {row.name: row.setting for row in wb.fields("r2d2")} == settings(ALGORITHMS["r2d2"])
    assert {row.name for row in wb.fields("run")} == settings(RunConfig).keys()


def test_fields_of_a_field_has_a_row_for_each_algorithm() -> None:
    table = wb.fields("learning_rate")
    assert [row.name for row in table] == list(ALGORITHMS)
    assert table["ppo"].setting.default == 2.5e-4 and "0.00025" in str(table)
    assert [row.name for row in wb.fields("n_steps")] == ["r2d2"]


@pytest.mark.parametrize(("name", "near"), [("gamma", "discount"), ("r2d", "r2d2"), ("learning_rat", "learning_rate")])
def test_fields_proposes_the_nearest_name(name: str, near: str) -> None:
    with pytest.raises(UnknownName, match=f"'{near}'"):
        wb.fields(name)
    with pytest.raises(WrongType):
        wb.fields(3)  # type: ignore[arg-type]


def test_fields_loads_no_torch() -> None:
    code = "import sys, workbench as wb; str(wb.fields()); print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


# --- the run directory ------------------------------------------------------------------------------------------------


def layout() -> dict[str, re.Pattern[str]]:
    """The names of docs/run-directory.md, such as checkpoints/<number>/meta.json; a `*` stays within its folder."""
    text = (DOCS / "run-directory.md").read_text(encoding="utf-8")
    patterns = {}
    for name in re.findall(r"^\| `([^`]+)` \|", text, re.M):
        parts = re.split(r"(<[^>]+>|\*\*|\*)", name)
        patterns[name] = re.compile("".join(
            ".+" if part == "**" else "[^/]+" if part[:1] in ("<", "*") else re.escape(part) for part in parts))
    return patterns


@pytest.mark.full
def test_every_file_of_a_run_is_on_the_page(home: Path) -> None:
    run = wb.launch("CartPole-v1", progress=False, **SIZES)
    try:
        run.wait(updates=5, timeout_s=240, progress=False)
        run.checkpoint()
        wb.rollout(run, max_steps=5).branch(2, action=0)
        alive = [path.relative_to(run.path) for path in run.path.rglob("*")]
    finally:
        run.stop()
    ended = [path.relative_to(run.path) for path in run.path.rglob("*")]
    patterns = layout()
    assert {str(path) for path in (*alive, *ended)
            if not any(pattern.fullmatch(str(path)) for pattern in patterns.values())} == set()
    of_every_run = list(patterns)[:list(patterns).index("rollouts")]
    absent = [name for name in of_every_run if not any(patterns[name].fullmatch(str(path)) for path in alive)]
    assert absent == ["code/*", "checkpoints/<number>/replay.safetensors"]
