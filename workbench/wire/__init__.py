"""What travels between processes: binary step messages, JSON calls, tokens.

All modules import `grpc` from here, because its fork handlers must be off, and it reads that from the environment when
it is loaded. While its threads are busy, these handlers sometimes kill a forked child before the child becomes a
program of its own: a `!command` in a notebook, a game, or a process of Ray's. No forked child of ours speaks gRPC.
"""

import os

_FORK_SUPPORT = "GRPC_ENABLE_FORK_SUPPORT"
_users_choice = os.environ.get(_FORK_SUPPORT)
os.environ.setdefault(_FORK_SUPPORT, "0")
import grpc  # noqa: E402

if _users_choice is None:
    del os.environ[_FORK_SUPPORT]  # programs that the user starts get the user's own environment

__all__ = ["grpc"]
