"""What travels between processes: binary step messages, JSON calls, tokens.

`grpc` is loaded here, and by all others from here. It reads its environment once, when it is loaded, and must find that
it has nothing to do when this process forks: while its threads are busy, its handlers of a fork now and then let the
child die before it becomes a program of its own, and the child may be a `!command` in a notebook, a game, or Ray's.
Nothing of ours speaks gRPC in a forked child.
"""

import os

_FORKS = "GRPC_ENABLE_FORK_SUPPORT"
_wished = os.environ.get(_FORKS)
os.environ.setdefault(_FORKS, "0")
import grpc  # noqa: E402

if _wished is None:
    del os.environ[_FORKS]  # the user's own programs get the environment that the user made

__all__ = ["grpc"]
