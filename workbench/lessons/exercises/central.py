"""Exercises of lesson 2."""

from __future__ import annotations

from workbench.lessons.answers import choice, compared

longest_wait = choice(
    "largest", {
        "smallest": "A batch of one message runs as soon as that message is there.",
        "the same": "A batch runs when its last message has come. Does that take as long for one message as for eight?",
    },
    why="A batch of all environments runs when the slowest of them has come, so the others wait for it, in every step.",
)

short_timeout = choice(
    "fill falls, speed rises", {
        "fill rises, speed falls": "The timeout sends off those that are there. Is the batch fuller for it?",
        "both rise": "The timeout sends off those that are there. Is the batch fuller for it?",
        "both fall": "Emptier batches: right. But those that were sent off are not waiting any more.",
    },
    why="Batches leave before they are full, and a slow environment delays itself alone.",
)


def time_of_a_round_ms(environments, steps_per_s):  # type: ignore[no-untyped-def]
    """Milliseconds from one step of an environment to its next one."""
    return 1000 * environments / steps_per_s


round_ms = compared(
    time_of_a_round_ms, (32, 1600.0), (1, 50.0), (64, 6400.0),
    words="the milliseconds between two steps of one environment",
    names=("environments", "steps/s of all of them"),
    why="Little's law: what is under way = rate x time. 32 environments that make 1,600 steps/s together make 50 each, "
        "one in 20 ms.",
)
