"""Exercises of lesson 16."""

from __future__ import annotations

from workbench.lessons.answers import choice, compared, number

STEPS_PER_S, UNROLL, NETWORK_MB = 100_000, 20, 30


parameter_traffic = number(
    STEPS_PER_S / UNROLL * NETWORK_MB / 1000,
    "unrolls per second x size of the network",
    {"steps/s": STEPS_PER_S, "steps in an unroll": UNROLL, "network, MB": NETWORK_MB},
    hints={
        3_000: "That would be the traffic if actors fetched the network before each step. They fetch it before each "
               "unroll.",
        150_000: "That is in MB/s. The answer is wanted in GB/s.",
    },
    tolerance=0.02,
    why="100,000 steps/s in unrolls of 20 are 5,000 unrolls/s, and 30 MB for each are 150 GB/s.",
)


def bytes_of_parameters(network_bytes, environments, unroll):  # type: ignore[no-untyped-def]
    """Bytes of parameters that travel to an actor, for each step of one of its environments."""
    return network_bytes / (environments * unroll)


parameter_bytes = compared(
    bytes_of_parameters, (30_000_000, 1, 20), (6_750_876, 16, 20), (36_620, 4, 5),
    words="the bytes of parameters for each step",
    names=("bytes of the network", "environments of the actor", "steps in an unroll"),
    why="One copy lasts for one unroll of each environment of the actor: environments x unroll steps share it.",
)

full_first = choice(
    "card out", {
        "actors' cores": "They are the limit while there are few. More cores mend that, and the learner still has one "
                         "card and one accelerator.",
        "card in": "Unrolls come in, 7.4 kB for each step. Compare that with the parameters that go out: 6.75 MB / "
                   "(8 environments x 20 steps).",
        "accelerator": "It trains on more than 40,000 steps/s here, since it does not act. How many steps/s do the "
                       "parameters leave, on a card of 10 Gbit/s?",
    },
    why="6.75 MB / (8 x 20) are 42 kB of parameters for each step. 10 Gbit/s are 1.25 GB/s: no more than 29,600 "
        "steps/s.",
)

one_gpu = choice(
    "classic", {
        "central": "In the central layout the same GPU acts for all environments and trains. In the classic one the "
                   "actors' cores do the acting.",
        "about the same": "Look at the GPU's work: in one layout it acts and trains, in the other it only trains.",
    },
    why="The learner's GPU only trains there; the actors' cores choose the actions. That takes many cores.",
)
