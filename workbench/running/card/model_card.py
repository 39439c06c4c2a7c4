"""A policy's card as Hugging Face reads it: README.md with YAML in front, for a folder of `wb.export_policy`.

The YAML has the metadata of huggingface.co/docs/hub/model-cards, with the evaluation as `model-index`. The page says
how to load the policy, what it was evaluated by, how it was trained, and what it cannot do.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from workbench.checkpoints import Checkpoint
from workbench.environments.atari.protocols import starts_of
from workbench.errors import WorkbenchError, printable
from workbench.playing import onnx_contract
from workbench.playing.evaluating import evaluation_log
from workbench.playing.evaluating.evaluation import Evaluation
from workbench.playing.given_classes import not_in_files
from workbench.rundir import RunDirectory, home, of_checkpoint
from workbench.running.card import sections
from workbench.running.card.card import Section, card, escaped, fenced
from workbench.running.card.sections import Row
from workbench.running.connection import stored_status
from workbench.tables import counted

FILE, FILM = "README.md", "replay.mp4"  # as Hugging Face's pages look for them


def model_card(
    checkpoint: Checkpoint, *, evaluation: Evaluation | None = None, name: str = "policy", film: bool = False,
    onnx: Mapping[str, Any] | None = None,
) -> str:
    """The card's text.

    Args:
        evaluation: of this checkpoint; None: that of most episodes in its run's log, if there is one.
        name: of the folder or file that the reader will have.
        film: whether replay.mp4 lies beside it.
        onnx: what the export of an .onnx file answered; None: of a folder.
    """
    run = of_checkpoint(checkpoint.path)
    evaluation = evaluation or (None if run is None else _longest(run, checkpoint))
    title = name if run is None else run.name
    parts = [f"# {escaped(title)}", escaped(_summary(checkpoint)), *([f"![One episode]({FILM})"] if film else [])]
    if onnx is None:
        parts += ["## Use", fenced(_use(checkpoint, name))]
    else:
        parts += ["## Use", fenced(onnx_contract.code(name, spec=checkpoint.spec, facts=onnx))]
        parts += [Section(title, tuple(rows)).markdown for title, rows in onnx_contract.tables(checkpoint.spec, onnx)]
    tables = _sections(checkpoint, run, evaluation)
    parts += [section.markdown for section in tables if section.rows]
    with suppress(WorkbenchError):  # a damaged record of a run leaves out how to train it again
        parts += ["## Train it again", fenced(card(run).code)] if run is not None else []
    text = "\n\n".join([f"---\n{_yaml(_metadata(checkpoint, title, evaluation))}\n---", *parts]) + "\n"
    return text.replace(str(home()), "$WORKBENCH_HOME").replace(str(Path.home()), "~")  # it is made to be published


def _longest(run: RunDirectory, checkpoint: Checkpoint) -> Evaluation | None:
    """The evaluation with most episodes: a short look later does not stand for it. Of several a greedy one, as the
    page's code acts, and of those the newest."""
    known = [entry.evaluation for entry in evaluation_log.kept(run) if entry.of(checkpoint)]
    return max(reversed(known), key=lambda evaluation: (len(evaluation.returns), evaluation.greedy), default=None)


def _summary(checkpoint: Checkpoint) -> str:
    config = checkpoint.config
    return (f"A policy of {config.algorithm} for {config.environment}, trained with RL Workbench for "
            f"{counted(checkpoint.frames, 'frames')} ({counted(checkpoint.steps, 'steps')}, "
            f"{counted(checkpoint.updates, 'updates')}).")


def _use(checkpoint: Checkpoint, name: str) -> str:
    config = checkpoint.config
    environment = config.environment
    folder = name[: -len(".zip")] if name.lower().endswith(".zip") else name
    own = not_in_files(checkpoint)
    define = f"  # define {' and '.join(own.values())} first: these files hold no code" if own else ""
    made = own.pop("environment", None)
    given = "".join(f", {kind}={name}" for kind, name in own.items())
    launched, playing = (f"{environment!r}", "") if made is None else (made, f", environment={made}")
    launched += "" if "algorithm" in own else f", algorithm={config.algorithm!r}"
    launched += f", environment_options={config.environment_options}" if config.environment_options else ""
    more = [f"run = wb.launch({launched}{given}, checkpoint={folder!r})  # begins with its weights"] if define else []
    imported = [] if made else ["import gymnasium"]
    options = f"**{config.environment_options}" if config.environment_options else ""
    makes = f"{made}({options})" if made else f"gymnasium.make({environment!r})"
    return "\n".join([
        *imported, f"import workbench as wb{define}", "",
        f"env = {makes}  # {'' if made else 'or your own, with the same spaces, '}wrapped as in training",
        f"policy = wb.load_policy({folder!r}, env=env{given})", "observation, _ = env.reset()",
        "action = policy.act(observation, 0.0)", "", f"wb.evaluate({folder!r}, episodes=100{given}{playing})", *more])


def _sections(checkpoint: Checkpoint, run: RunDirectory | None, evaluation: Evaluation | None) -> Iterator[Section]:
    config = checkpoint.config
    yield Section("Results", tuple(_results(checkpoint, evaluation)))
    yield Section("Environment and preprocessing", tuple(sections.environment(config, checkpoint)))
    if run is not None:
        yield Section("Run", tuple(sections.run(run.read(), config, checkpoint, run)))
    yield Section("Hyperparameters", tuple(sections.hyperparameters(config)))
    if run is not None:
        yield Section("Machine and versions", tuple(sections.machine(run.read(), stored_status(run))))
    yield Section("Limits", tuple(_limits(checkpoint, evaluation)))
    yield Section("Units", sections.UNITS)


def _results(checkpoint: Checkpoint, evaluation: Evaluation | None) -> Iterator[Row]:
    if evaluation is not None:
        how = evaluation.protocol or "the run's own environment"
        differs = f" with {evaluation.differs}" if evaluation.differs else ""
        level = "" if evaluation.no_interval else ", 95 %"
        yield ("mean return", f"{evaluation.mean:.4g} {evaluation.uncertainty}{level}",
               f"{counted(len(evaluation.returns), 'episodes')}, seed {evaluation.seed}, "
               f"{_actions(evaluation)}, {how}{differs}")
        yield "standard deviation", f"{_deviation(evaluation):.4g}", "of the episodes' returns"
        yield "interquartile mean", f"{evaluation.iqm:.4g}", ""
        if evaluation.mean_score is not None:
            yield "mean score", f"{evaluation.mean_score:.4g}", "of the environment's own score"
        if (human := evaluation.human_normalized) is not None:
            table = 2 if starts_of(evaluation.protocol) == "no-ops" else 3
            yield "human-normalized", f"{100 * human:.3g} %", f"arXiv 1511.06581, table {table}"
    if checkpoint.episode_return is not None:
        yield "mean training return", f"{checkpoint.episode_return:.4g}", "of the last episodes before the checkpoint"


def _deviation(evaluation: Evaluation) -> float:
    """The sample's standard deviation; 0 of one episode."""
    return float(np.std(evaluation.returns, ddof=1)) if len(evaluation.returns) > 1 else 0.0


def _actions(evaluation: Evaluation) -> str:
    return "likeliest actions" if evaluation.greedy else "sampled actions"


def _limits(checkpoint: Checkpoint, evaluation: Evaluation | None) -> Iterator[Row]:
    learnt = f"It has learnt {checkpoint.config.environment} with the preprocessing above, and nothing else."
    yield "environment", learnt, ""
    yield "training runs", "One run with one seed: another run may come out otherwise.", "wb.aggregate compares several"
    if evaluation is None:
        yield "evaluation", "It was not evaluated for this card.", "wb.evaluate(..., episodes=100)"
    yield "code", "The files hold weights and settings, no code.", ""


def _metadata(checkpoint: Checkpoint, title: str, evaluation: Evaluation | None) -> dict[str, Any]:
    config = checkpoint.config
    tags = [config.environment, "deep-reinforcement-learning", "reinforcement-learning", config.algorithm]
    metadata: dict[str, Any] = {"library_name": "rl-workbench", "pipeline_tag": "reinforcement-learning", "tags": tags}
    metrics = list(_metrics(checkpoint, evaluation))
    if metrics:
        task = {"type": "reinforcement-learning", "name": "reinforcement-learning"}
        dataset = {"name": config.environment, "type": config.environment}
        result = {"task": task, "dataset": dataset, "metrics": metrics}
        metadata["model-index"] = [{"name": title, "results": [result]}]
    return metadata


def _metrics(checkpoint: Checkpoint, evaluation: Evaluation | None) -> Iterator[dict[str, Any]]:
    """As Hugging Face's leaderboards read them: mean_reward as "mean +/- standard deviation"."""
    if evaluation is not None and math.isfinite(evaluation.mean):
        protocol = evaluation.protocol or "own environment"
        name = f"mean return of {counted(len(evaluation.returns), 'episodes')}, {_actions(evaluation)}, {protocol}"
        yield {"type": "mean_reward", "value": f"{evaluation.mean:.2f} +/- {_deviation(evaluation):.2f}", "name": name,
               "verified": False}
    elif evaluation is None and checkpoint.episode_return is not None and math.isfinite(checkpoint.episode_return):
        yield {"type": "mean_reward", "value": f"{checkpoint.episode_return:.2f}", "name": "mean return while training",
               "verified": False}


def _yaml(metadata: Mapping[str, Any]) -> str:
    """The entries with their values as JSON, which is YAML as well."""
    values = {name: json.dumps(value, ensure_ascii=False, indent=2) for name, value in metadata.items()}
    text = "\n".join(f"{name}: {value}".replace("\n", "\n  ") for name, value in values.items())
    return printable(text, but="\n")
