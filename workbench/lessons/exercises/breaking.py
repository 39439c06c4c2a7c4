"""Exercises of lesson 11: what is lost when something breaks, predicted."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# The solutions stand in a lesson as a student would write them.

from __future__ import annotations

from workbench.lessons.answers import compared, table

ANSWERS = {
    "kill an actor": "A", "kill the learner": "B", "kill the supervisor": "C", "stop the learner": "D",
    "fill the disk": "E", "an observation of NaN": "A", "rewards of 1e30": "F",
}  # fmt: skip
HINTS = {
    "kill an actor": "an actor knows no policy and keeps no unroll that is finished; ask what only it had.",
    "kill the learner": "the weights live in the learner; ask where else they are.",
    "kill the supervisor": "somebody has to notice a death and start a process again; ask who is left to do that.",
    "stop the learner": "a process that stands still has lost nothing; ask how one would tell it from a dead one.",
    "fill the disk": "what a run has stored must stay true; ask what it should do with metrics that it cannot write.",
    "an observation of NaN": "it is found in the actor, before it travels; ask which process has the environment.",
    "rewards of 1e30": "the reward itself is finite, its square is not; ask whether it would help to go on by itself.",
}


predictions = table(
    ANSWERS, HINTS, missing="There are predictions missing: give each harm one letter, from A to F.",
    why="docs/promises.md has the whole list, and names for each promise the test that does the harm.",
)


def unfinished(steps, unroll_length):
    """Steps in unrolls that were not finished, of environments that have made so many steps each."""
    return sum(made % unroll_length for made in steps)


partial_unrolls = compared(
    unfinished,
    ([0, 20, 40], 20, "where every unroll is finished"),
    ([19, 21, 45], 20, "with unrolls of 20 steps"),
    ([7, 7, 7, 7], 5, "with four environments and unrolls of 5 steps"),
    why="A finished unroll is at the learner. What is left over is at most T − 1 steps each.",
)


def goes_on_from(checkpoints, frames):
    """Frames from which a learner goes on that was killed at so many frames."""
    return max((at for at in checkpoints if at <= frames), default=0)


rollback = compared(
    goes_on_from,
    ([], 1_000, "before the first checkpoint"),
    ([500, 900, 1_400], 1_200, "between two checkpoints (one is of a later life, and was not there yet)"),
    ([900, 500], 950, "where the list is not in order"),
    ([1_000], 1_000, "right at a checkpoint"),
    why="The newest checkpoint before the kill; before the first one, the run begins again.",
)
