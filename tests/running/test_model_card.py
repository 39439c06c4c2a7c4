"""The card beside an exported policy: the metadata that Hugging Face reads, and a page that holds."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import yaml

import workbench as wb
from tests.played import checkpoint_in
from workbench.errors import InvalidInput
from workbench.playing.evaluating import evaluation_log
from workbench.playing.evaluating.evaluation import Evaluation
from workbench.running.card.model_card import model_card

GOLDEN = Path(__file__).parent / "model_card.md"


def evaluation_of(checkpoint: wb.Checkpoint, **fields: Any) -> Evaluation:
    known = {"environment": checkpoint.config.environment, "checkpoint": checkpoint.path, "seed": 0, "greedy": True,
             "checkpoint_frames": checkpoint.frames, "returns": (9.0, 10.0, 11.0, 10.0, 10.0), "lengths": (10,) * 5}
    return Evaluation(**{**known, **fields})


def front(text: str) -> dict[str, Any]:
    """The metadata of a card."""
    begin, metadata, _ = text.split("---\n", 2)
    assert begin == ""
    return dict(yaml.safe_load(metadata))


def test_a_card_begins_as_this_one_does(tmp_path: Path) -> None:
    one = checkpoint_in(tmp_path, "CartPole-v1")
    text = model_card(one, evaluation=evaluation_of(one), name="cartpole-policy", film=True)
    assert text.partition("## Environment and preprocessing")[0] == GOLDEN.read_text()
    for title in ("Hyperparameters", "Machine and versions", "Limits", "Units", "Train it again"):
        assert f"\n## {title}\n" in text
    assert "| learning_rate | 0.0006 |" in text


def test_the_card_takes_the_longest_evaluation_that_the_run_keeps_and_else_says_that_there_is_none(
    tmp_path: Path,
) -> None:
    one = checkpoint_in(tmp_path, "CartPole-v1")
    assert "model-index" not in front(model_card(one)) and "It was not evaluated for this card" in model_card(one)
    run = wb.attach(tmp_path / "run")
    for returns, greedy in (((5.0, 5.0), True), ((7.0, 7.0), True), ((8.0, 8.0), False), ((9.0,), True)):
        lengths = (1,) * len(returns)
        evaluation_log.keep(run.directory, one, evaluation_of(one, returns=returns, lengths=lengths, greedy=greedy))
    (index,) = front(model_card(one))["model-index"]
    (result,) = index["results"]
    assert result["dataset"] == {"name": "CartPole-v1", "type": "CartPole-v1"}
    assert [metric["value"] for metric in result["metrics"]] == ["7.00 +/- 0.00"], "its code is greedy"


class Odd(gymnasium.Env):
    """An environment with a name that YAML and Markdown would read as something else."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    metadata: dict[str, Any] = {}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.observation_space.sample(), {}

    def step(self, action: int) -> Any:
        return self.observation_space.sample(), 0.0, True, False, {}


@pytest.mark.parametrize("name", ["yes", "a: b #c", "- x", "é\"'\\", "{x}", "*", "1.5", "trailing "])
def test_any_name_comes_back_from_the_yaml(tmp_path: Path, name: str) -> None:
    one = checkpoint_in(tmp_path, Odd)
    object.__setattr__(one, "meta", {**one.meta, "config": {**one.meta["config"], "environment": name}})
    metadata = front(model_card(one, evaluation=evaluation_of(one)))
    assert metadata["tags"][0] == name and metadata["model-index"][0]["results"][0]["dataset"]["name"] == name


def test_a_zip_holds_the_card_and_another_checkpoints_evaluation_is_refused(tmp_path: Path) -> None:
    one, other = checkpoint_in(tmp_path / "a", "CartPole-v1"), checkpoint_in(tmp_path / "b", "CartPole-v1")
    with pytest.raises(InvalidInput, match="this evaluation is of .*/b/run/"):
        wb.export_policy(one, target=tmp_path / "taken.zip", evaluation=evaluation_of(other))
    packed = wb.export_policy(one, target=tmp_path / "taken.zip", evaluation=evaluation_of(one))
    with zipfile.ZipFile(packed) as archive:
        text = archive.read("taken/README.md").decode()
    assert r"| mean return | 10 \[9.122, 10.88\], 95 % |" in text
    assert "wb.load_policy('taken', env=env)" in text, "as it is called once it is unzipped"


def test_a_film_lies_beside_the_card_and_a_folder_gives_films_gymnasiums_names(tmp_path: Path) -> None:
    one = checkpoint_in(tmp_path, "testing/catch-v0")
    there = wb.export_policy(one, target=tmp_path / "taken", film=True)
    assert (there / "replay.mp4").read_bytes()[4:8] == b"ftyp" and "![One episode](replay.mp4)" in (
        there / "README.md").read_text()
    assert wb.load_policy(there, env=gymnasium.make("testing/catch-v0"))
    (played,) = wb.attach(tmp_path / "run").rollouts
    (tmp_path / "films").mkdir()
    names = [played.save(tmp_path / "films").name for _ in range(2)]
    assert names == ["rl-video-episode-0.mp4", "rl-video-episode-1.mp4"]


@pytest.mark.skipif(importlib.util.find_spec("huggingface_hub") is None, reason="make test-trackers installs it")
def test_hugging_faces_own_class_reads_the_card(tmp_path: Path) -> None:
    from huggingface_hub import ModelCard

    one = checkpoint_in(tmp_path, "CartPole-v1")
    there = wb.export_policy(one, target=tmp_path / "taken", evaluation=evaluation_of(one))
    card = ModelCard.load(there / "README.md")
    assert card.data.library_name == "rl-workbench" and "reinforcement-learning" in card.data.tags
    assert card.data.pipeline_tag == "reinforcement-learning" and card.data.model_name == "run"
    (result,) = card.data.eval_results
    assert (result.task_type, result.dataset_name, result.metric_type) == (
        "reinforcement-learning", "CartPole-v1", "mean_reward")
    assert result.metric_value == "10.00 +/- 0.71"
