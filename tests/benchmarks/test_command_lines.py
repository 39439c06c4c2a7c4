"""Every script in benchmarks/ answers --help at once, a wrong argument in one line; documented commands are right."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
SLOW_TO_IMPORT = {"torch", "ray", "pandas", "altair", "gymnasium", "playwright", "envpool", "vizdoom"}
COMMAND = re.compile(r"`python (benchmarks/[^`]+\.py[^`]*)`")


def modules() -> list[Path]:
    return sorted(path for path in BENCHMARKS.rglob("*.py") if "build" not in path.parts)


def has_command_line(path: Path) -> bool:
    return 'if __name__ == "__main__":' in path.read_text()


SCRIPTS = [str(path.relative_to(BENCHMARKS)) for path in modules() if has_command_line(path)]


def asked(*questions: tuple[str, str, list[str]]) -> tuple[list[dict[str, Any]], set[str]]:
    """The answers of one bare interpreter, and the modules that it has loaded."""
    done = subprocess.run([sys.executable, str(Path(__file__).with_name("asking.py"))], input=json.dumps(questions),
                          capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return told["answers"], set(told["modules"])


def one_line(answer: dict[str, Any], script: str) -> str:
    """The only line that a refusal says."""
    assert answer["code"] == 2 and answer["output"] == "", answer
    (line,) = answer["errors"].splitlines()
    assert line.startswith(f"benchmarks/{script}")
    return line


def test_a_module_without_a_command_line_says_so():
    for path in modules():
        docstring = path.read_text().partition("\nfrom __future__")[0]
        assert has_command_line(path) != ("o command line" in docstring), path


def test_every_script_answers_help_with_its_usage_and_imports_nothing_slow():
    answers, loaded = asked(*(("start", script, ["--help"]) for script in SCRIPTS))
    assert len(answers) == len(SCRIPTS) > 20
    for script, answer in zip(SCRIPTS, answers, strict=True):
        assert answer["code"] == 0 and answer["errors"] == "", (script, answer)
        assert answer["output"].startswith(f"usage: benchmarks/{script}"), script
        assert f"python benchmarks/{script}" in answer["output"], script
    assert not SLOW_TO_IMPORT & loaded


def test_every_script_has_the_options_that_its_docstring_names():
    commands = {"environments.py": [["speed"], ["learn"]]}
    asks = [(script, words) for script in SCRIPTS for words in commands.get(script, [[]])]
    answers, _ = asked(*(("start", script, [*words, "--help"]) for script, words in asks))
    options: dict[str, str] = {}
    for (script, _), answer in zip(asks, answers, strict=True):
        options[script] = options.get(script, "") + answer["output"].partition("\noptions:")[2]
    for script in SCRIPTS:
        usage = re.search(r"\n((?:    .+\n)+)", (BENCHMARKS / script).read_text())
        assert usage, script
        for option in re.findall(r"--[a-z][a-z-]+", usage[1]):
            assert re.search(rf"^  {option}\b", options[script], re.MULTILINE), (script, option)


def test_every_script_refuses_an_unknown_option_in_one_line():
    answers, loaded = asked(*(("start", script, ["--nonsense"]) for script in SCRIPTS))
    for script, answer in zip(SCRIPTS, answers, strict=True):
        assert "unknown argument '--nonsense'" in (line := one_line(answer, script)) or "required" in line
    assert not SLOW_TO_IMPORT & loaded


WRONG = [
    ("atari5.py", "--games Pong", "invalid choice: 'Pong'"),
    ("atari5.py", "--frames 10", "'10' is not a whole number from 1,000"),
    ("atari5.py", "--algorithm pppo", "unknown algorithm 'pppo'. Did you mean 'ppo'?"),
    ("atari5.py", "--preset atari-few", "Did you mean 'atari-few-cores'"),
    ("echo.py", "--round 3", "unknown argument '--round'; did you mean --rounds?"),
    ("echo.py", "--rounds 0", "--rounds: '0' is not a whole number from 1 to 1,000"),
    ("echo.py", "--frames many", "--frames: 'many' is not a whole number from 1,000 to 1,000,000,000"),
    ("echo.py", "--factors 1 100", "--factors: '100' is not a whole number from 1 to 64"),
    ("algorithms.py", "--tasks cartpol", "'cartpol'"),
    ("echo.py", "--algorithms ppo", "'ppo'"),
    ("pretrained.py", "pingpong", "'pingpong'"),
    ("pretrained.py", "pong --hours -1", "'-1' is not a number from 0 to 1,000"),
    ("learner_threads.py", "--cases pole", "'pole' is none of cartpole"),
    ("learner_threads.py", "--arms 2", "--arms needs 1"),
    ("slow_environments.py", "--environments wait-6", "'wait-6' is none of compute-1"),
    ("environment_speed.py", "bare CartPole-v2 4", "CartPole-v2"),
    ("environment_speed.py", "bare CartPole-v1 3", "'3' is not a whole number from 2 to 4,096 and a multiple of 2"),
    ("environment_speed.py", "play CartPole-v1 4", "name that one"),
    ("environments.py", "", "required"),
    ("environments.py", "speed CartPole-v1 --environments 16,7", "'7' is not a whole number"),
    ("environments.py", "speed CartPol", "unknown environment 'CartPol'"),
    ("environments.py", "learn CartPole-v1", "CartPole-v1 is no task that has a target. Did you mean 'cartpole'?"),
    ("environments.py", "learn cartpole actors", "'actors' is no FIELD=VALUE"),
    ("environments.py", "learn cartpole actor=2", "Did you mean 'actors'"),
    ("environments.py", "learn cartpole learning_rate=7e9", "learning_rate"),
    ("environments.py", "learn pong --preset atari-few", "Did you mean 'atari-few-cores'"),
    ("environments.py", "learn pong algorithm=sac --preset atari-few-cores", "is for vtrace, r2d2, ppo"),
    ("environments.py", "learn cartpol", "cartpol is no task that has a target. Did you mean 'cartpole'?"),
    ("environments.py", "learn CartPol --target 475", "unknown environment 'CartPol'"),
    ("environments.py", "learn", "required: NAME (--help"),
    ("environments.py", "learn cartpole --results README.md", "cannot make README.md: File exists"),
    ("environments.py", "learn cartpole --report --name no-such-run", "no-such-run"),
    ("first_hour.py", "--parts lap", "'lap' is none of lab, launch"),
    ("first_hour.py", "--out nowhere/table.md", "there is no directory 'nowhere'"),
    ("fuzz.py", "helo", "no target helo; there are hello"),
    ("gpu.py", "--device cpu --parts sytem", "'sytem'"),
    ("gpu_algorithms.py", "--updates 0", "--updates: '0' is not a whole number from 1 to 10,000"),
    ("gpu.py", "--seconds nan", "'nan' is not a number from 0.1 to 3,600"),
    ("kills.py", "--kills -1", "'-1' is not a whole number from 0"),
    ("largest_run.py", "--learners 0", "'0' is not a whole number from 1 to 10,000"),
    ("stand_ins.py", "--actors 64 4097", "'4097' is not a whole number from 1 to 4,096"),
    ("storing_speed.py", "--rounds 0", "--rounds: '0' is not a whole number from 1 to 1,000"),
    ("load.py", "--minutes 0", "'0' is not a number from 0.05 to 10,000"),
    ("newcomer.py", "--target 501", "'501' is not a number from 1 to 500"),
    ("panel.py", "--steps 1000", "'1000' is not a whole number from 40,000"),
    ("planning.py", "--actors 1", "'1' is not a whole number from 64 to 100,000"),
    ("population.py", "--members 1", "'1' is not a whole number from 2 to 256"),
    ("ray_actors.py", "--actors 16 4097", "'4097' is not a whole number from 1 to 4,096"),
    ("remote.py", "--envs 3", "'3' is not a whole number from 2 to 4,096 and a multiple of 2"),
    ("remote.py", "--ways tsl", "'tsl'"),
    ("replay.py", "--folder nowhere", "there is no directory 'nowhere'"),
    ("scaling.py", "--values 4", "--values needs --only"),
    ("scaling.py", "--only environments --values 1", "envs_per_actor"),
    ("scaling.py", "--only learners --values 100000", "actors"),
    ("scaling.py", "--environment ALE/Pongg-v5", "ALE/Pongg-v5"),
    ("seeds.py", "--seeds 0", "argument --seeds: '0' is not a whole number from 1 to 1,000"),
    ("service.py", "--sizes 32", "--sizes has 1 numbers and --flight 2"),
    ("service_sides.py", "server unix:x {", "is no JSON object"),
    ("service_sides.py", "server unix:x {}", "the settings have no 'server'"),
    ("startup.py", "--environments CartPole-v2", "CartPole-v2"),
    ("strangers.py", "--ways rude", "'rude' is none of half"),
    ("sweep.py", "--trials 0", "'0' is not a whole number from 1 to 10,000"),
    ("throughput.py", "--precision fp16", "'fp16'"),
    ("throughput.py", "--environment Nothing-v0", "Nothing-v0"),
    ("peers/compare.py", "--peers rlib", "'rlib'"),
    ("peers/compare.py", "--peers rllib --folder nowhere",
     "rllib: not installed; python benchmarks/peers/compare.py --install --peers rllib"),
    ("peers/compare.py", "--chosen --folder nowhere", "nowhere/chosen.json is not there"),
    ("peers/measure_one.py", "rllib --setting {}x", "is no JSON object"),
    ("peers/measure_one.py", 'torchrl --setting \'{"thread": 2}\'', "no setting 'thread' of torchrl; there are"),
]


def test_a_wrong_argument_is_refused_in_one_line_that_names_it(home: Path):
    asks = [("start", script, shlex.split(words)) for script, words, _ in WRONG]
    answers, _ = asked(*asks)
    for (script, words, says), answer in zip(WRONG, answers, strict=True):
        line = one_line(answer, script)
        assert says in line, (script, words, line)
    assert {script for script, _, _ in WRONG} == set(SCRIPTS)


def test_a_script_started_as_a_user_starts_it_refuses_in_one_line():
    done = subprocess.run([sys.executable, "benchmarks/peers/compare.py", "--rounds", "x"], cwd=ROOT, check=False,
                          capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("benchmarks/peers/compare.py: argument --rounds: 'x' is not a whole number from 1 to 1,000 "
                           "(--help shows what there is)\n")


def documented() -> list[tuple[str, str]]:
    """Each command in the documentation, and where it stands."""
    files = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")),
             *sorted(BENCHMARKS.rglob("*.md"))]
    return [(command, str(file.relative_to(ROOT))) for file in files for command in COMMAND.findall(file.read_text())]


def test_the_commands_in_the_documentation_are_accepted_as_they_stand_there():
    commands = documented()
    assert len(commands) > 40
    assert {"benchmarks/README.md", "benchmarks/results/peers.md"} <= {where for _, where in commands}
    asks = []
    for command, _ in commands:
        script, *words = shlex.split(command)
        asks.append(("read", script.removeprefix("benchmarks/"), words))
    answers, _ = asked(*asks)
    for (command, where), answer in zip(commands, answers, strict=True):
        assert answer["code"] == -1, f"{where}: python {command}: {answer['errors']}"


def test_the_documentation_names_no_script_that_is_not_there():
    for file in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *BENCHMARKS.rglob("*.md")):
        for script in re.findall(r"benchmarks/[\w/]+\.py", file.read_text()):
            assert (ROOT / script).exists(), (file, script)


