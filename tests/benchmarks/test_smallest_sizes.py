"""Every script in benchmarks/ runs to its end at its smallest size, started as a user starts it, and prints its tables.

Nothing is said of speeds: machines differ, and other work goes on beside.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.benchmarks.test_command_lines import BENCHMARKS, ROOT, SCRIPTS

pytestmark = pytest.mark.full

POSITIVE = r"(?=[\d,.]*[1-9])[\d,]+(\.\d+)?"  # a number of a table that is not 0
SPEED = r"[\d,]+(\.\d+)?"  # one that rounding may have made 0
# What the script is given, and a row of its tables: patterns of its first cells.
SIZES: dict[str, list[tuple[str, list[str]]]] = {
    "algorithms.py": [("--tasks cartpole --algorithms vtrace --seeds 1 --frames 2000 --folder {results}",
                       ["cartpole", "workbench", "vtrace", POSITIVE, SPEED, POSITIVE + ".*", POSITIVE + ".*"])],
    "atari5.py": [("--frames 40000 --games Qbert --episodes 2",
                   ["Qbert", "1", POSITIVE, POSITIVE, POSITIVE, POSITIVE, POSITIVE + " of .*"])],
    "echo.py": [("--rounds 1 --frames 1000 --algorithms vtrace --factors 1", ["1", POSITIVE, r"1\.00", POSITIVE])],
    "environment_speed.py": [("bare CartPole-v1 2 --seconds 0.1", [])],
    "environments.py": [
        ("speed CartPole-v1 --grpc --environments 2 --rounds 1 --seconds 0.1",
         ["CartPole-v1", POSITIVE, POSITIVE, SPEED, SPEED, r"\d+%"]),
        ("learn cartpole actors=1 envs_per_actor=2 learner_threads=1 total_frames=2000 --results {results}/made",
         ["CartPole-v1", "vtrace", "1", SPEED, POSITIVE]),
        ("learn cartpole algorithm=r2d2 actors=1 envs_per_actor=2 learner_threads=1 --target 1 --window 2 --name other "
         "--episodes 0 --results {results}", ["CartPole-v1", "r2d2", "1", SPEED, POSITIVE]),
    ],
    "first_hour.py": [("--parts lab --longest 120", [r"first panel of a fresh kernel: numbers", POSITIVE])],
    "fuzz.py": [("hello step tensorfile checkpoint --inputs 50", ["checkpoint", "50", POSITIVE, ".*", POSITIVE, "0"]),
                ("stream control --inputs 50", ["control", "50.*", SPEED, ".*", POSITIVE, "0"])],
    "gpu.py": [],  # see below
    "gpu_algorithms.py": [("--device cpu --cases vmpo-cartpole --updates 2",
                           ["vmpo-cartpole", POSITIVE, POSITIVE, SPEED, "goes on", "nothing"])],
    "kills.py": [("--kills 2 --actors 1 --learner-kills 1 --calm-seconds 1 --warm-up-seconds 0",
                  ["updating", "1", "1", SPEED, SPEED])],
    "largest_run.py": [("--actors 64 --learners 4 --seconds 0.5 --warm-up 0.5",
                        [r"`max_batch=512`", POSITIVE, r"[+-][\d.]+%", ".+", POSITIVE])],
    "learner_threads.py": [("--rounds 1 --seconds 0.1 --cases cartpole --arms 1 --bare", [])],
    "load.py": [("--minutes 0.05 --actors 1 --envs 2 --readers 1", ["steps lost, repeated, or mixed up", "0", "0"])],
    "newcomer.py": [("--frames 500 --target 10 --episodes 2", [r"`run\.wait\(frames=500\)`", SPEED])],
    "panel.py": [("--minutes 0.05 --looks 2 --steps 40000 --openings 1", ["no panel", POSITIVE, POSITIVE])],
    "planning.py": [("--actors 64 --seconds 1", ["Pong, as planned", POSITIVE, "actor cores", POSITIVE, POSITIVE])],
    "population.py": [("--members 2 --frames 1000 --seeds 1 --parallel 1 --episodes 2",
                       ["population-based training", POSITIVE, POSITIVE])],
    "pretrained.py": [("cartpole --hours 0 --episodes 2 --folder {results}", [])],
    "ray_actors.py": [("--actors 2 --nodes 1", ["2", "2", POSITIVE, POSITIVE, POSITIVE, SPEED])],
    "remote.py": [("--environment CartPole-v1 --rounds 1 --seconds 0.1 --envs 2 --warm-up-updates 1",
                   ["ray", POSITIVE, POSITIVE + "%", "95%: (reached|missed)"])],
    "replay.py": [("--unrolls 64 --rounds 1 --folder {results}", ["disk: sampled", POSITIVE, POSITIVE, POSITIVE])],
    "scaling.py": [("--environment CartPole-v1 --only batch --values 2 4 --rounds 1 --seconds 0.1 --warm-up-updates 1",
                    ["32 environments", "4", POSITIVE, POSITIVE]),
                   ("--environment CartPole-v1 --only learners --values 2 --rounds 1 --seconds 0.1 --warm-up-updates 1",
                    ["2 actors of 64 environments", "2", POSITIVE, POSITIVE])],
    "seeds.py": [("--seeds 1 --share 0.05", [])],
    "service.py": [("--rounds 1 --seconds 0.1 --actors 1 --sizes 2 --flight 2",
                    [r"shared memory: \+ 4 frames stacked", POSITIVE, POSITIVE, POSITIVE])],
    "service_sides.py": [],  # service.py starts it
    "slow_environments.py": [("--rounds 1 --seconds 0.1 --environments wait-5 --bare", ["wait-5", "alone", POSITIVE])],
    "stand_ins.py": [("--actors 2 --seconds 2", ["2", "2", POSITIVE, POSITIVE, POSITIVE, SPEED + "%"])],
    "storing_speed.py": [("--rounds 1", ["episodes into the metrics, rows/s", POSITIVE, f"{POSITIVE} to {POSITIVE}"])],
    "strangers.py": [("--rounds 1 --seconds 0.1 --ways half", ["half", POSITIVE, POSITIVE])],
    "startup.py": [("--rounds 1 --environments CartPole-v1", [r"\*\*first trained batch\*\*", POSITIVE])],
    "sweep.py": [("--trials 2 --frames 1000 --seeds 1 --parallel 1", ["defaults", SPEED])],
    "throughput.py": [("--environment CartPole-v1 --rounds 1 --seconds 0.1 --envs 2 --warm-up-updates 1",
                       [r"\(d\) whole system, all cores", POSITIVE, POSITIVE])],
    "peers/compare.py": [],  # see below
    "peers/measure_one.py": [("single-process --seconds 0.1 --warm-up-updates 1", [])],
}
WRITE_FILES = {"environments.py"}  # whether asked to or not
EACH = [pytest.param(script, words, row, id=f"{script} {words.split()[0]}") for script, sizes in SIZES.items()
        for words, row in sizes]


def started(script: str, words: str, *, results: Path) -> subprocess.CompletedProcess[str]:
    """What a script says, as a process in the repository's root."""
    command = [sys.executable, f"benchmarks/{script}", *shlex.split(words.format(results=results))]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def rows(text: str) -> list[list[str]]:
    """The cells of all rows of Markdown tables."""
    return [[cell.strip(" *") for cell in line.strip("|").split(" | ")] for line in text.splitlines()
            if line.startswith("| ")]


def has_row(text: str, patterns: list[str]) -> bool:
    """Whether a row begins with cells that match, one for each pattern."""
    return any(len(row) >= len(patterns) and all(re.fullmatch(pattern.replace(r"\*\*", ""), cell) for pattern, cell in
               zip(patterns, row, strict=False)) for row in rows(text))


def test_every_script_is_started_here():
    assert set(SIZES) == set(SCRIPTS)


@pytest.mark.parametrize(("script", "words", "row"), EACH)
def test_a_script_runs_to_its_end_and_prints_its_table(script, words, row, home: Path, tmp_path: Path):
    before = {path: path.stat().st_mtime_ns for path in (BENCHMARKS / "results").iterdir()}
    done = started(script, words, results=tmp_path)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert not row or has_row(done.stdout, row), f"no row {row} in\n{done.stdout}"
    assert not re.search(r"\b(nan|inf)\b", done.stdout), done.stdout
    if script in WRITE_FILES and "{results}" in words:
        assert {path.suffix for path in tmp_path.rglob("*.*")} == {".csv", ".md", ".png"}
        assert re.search("^0 min: ", done.stdout, re.MULTILINE) and "nothing to stop" not in done.stdout
    assert before == {path: path.stat().st_mtime_ns for path in (BENCHMARKS / "results").iterdir()}


def test_gpu_keeps_the_numbers_of_the_other_parts_where_one_fails(tmp_path: Path):
    deep = tmp_path / ("x" * 120)  # no socket's path may be that long, and the service listens on one
    deep.mkdir()
    command = [sys.executable, "benchmarks/gpu.py", *shlex.split(
        "--device cpu --parts free bare --rounds 1 --seconds 0.1 --actors 1 --envs 2 --batch-size 2")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False,
                          env={**os.environ, "TMPDIR": str(deep)})
    assert done.returncode == 1
    failed, bare = done.stderr.splitlines()
    assert failed.startswith("round 1: free failed: ") and re.fullmatch(f"round 1: bare {POSITIVE}", bare)
    assert ["service, free environments, 64 per message", "not measured", ""] in [
        [cell.strip(" |") for cell in row] for row in rows(done.stdout)], done.stdout


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
@pytest.mark.parametrize(("script", "words"), [("gpu.py", "--rounds 1"), ("gpu_algorithms.py", "--updates 1")])
def test_without_a_gpu_a_script_for_one_says_so_in_one_line_and_measures_nothing(script, words):
    done = started(script, words, results=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"benchmarks/{script}: --device cuda: torch sees no GPU here; --device cpu tries")


def test_all_parts_of_gpu_say_a_number_on_a_cpu():
    done = started("gpu.py", "--device cpu --rounds 1 --seconds 0.1 --actors 1 --envs 2 --batch-size 2 "
                   "--warm-up-updates 1", results=ROOT)
    assert done.returncode == 0, done.stderr
    parts = [line.split()[2] for line in done.stderr.splitlines()]
    assert parts == ["environments", "system", "free", "update", "bare"]
    for said in ("whole system / environments alone = ", "service [1-9]", r"update [\d.,]+ ms = [\d.]+ x [\d.,]+ ms"):
        assert re.search(said, done.stdout), done.stdout


def test_peers_are_compared_with_those_that_are_there_and_the_others_are_named(tmp_path: Path):
    done = started("peers/compare.py", "--rounds 1 --seconds 0.1 --choose-seconds 0 --warm-up-updates 1 --folder "
                   "{results}", results=tmp_path)
    assert done.returncode == 0, done.stderr
    table = rows(done.stdout)
    ours = [row for row in table if row[0].startswith("workbench, ")]
    loops = [row for row in table if row[0].startswith("single-process loop")]
    assert len(ours) == len(loops) == 2
    for row in (*ours, *loops):
        assert re.fullmatch(POSITIVE, row[3]), row
    for row in loops:
        assert re.fullmatch(r"[\d.]+x", row[6]) and re.fullmatch(r"[\d.]+x", row[7]), row
    for name, title in (("sample-factory", "Sample Factory"), ("rllib", "RLlib"), ("torchrl", "TorchRL")):
        install = f"not installed: python benchmarks/peers/compare.py --install --peers {name}"
        assert f"left out: {name} is {install}" in done.stderr
        assert any(row[0] == title and row[-1].strip(" |") == install for row in table), done.stdout
    assert set(json.loads((tmp_path / "chosen.json").read_text())["settings"]) == {
        "ours", "ours-fp32", "single-process", "single-process-bf16"}
