"""Ports on which a run listens for its other machines: any free one, or those that a firewall lets through."""

from __future__ import annotations

import re
from collections.abc import Sequence

from workbench.errors import OutOfBounds

ANY = (0,)  # the operating system chooses a free one


def ports_of(text: str) -> Sequence[int]:
    """The ports of "", "7000" or "7000-7015", in the order in which they are tried; ANY for "". Raises OutOfBounds."""
    if not text:
        return ANY
    match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", text.strip())
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1024 <= first <= last <= 65_535:
        raise OutOfBounds(f"ports={text!r} is no port from 1024 to 65535, such as '7000', and no range of them, such "
                          "as '7000-7015'.")
    return range(first, last + 1)


def check_ports(text: str, *, learners: int) -> None:
    """Raises OutOfBounds unless the ports suffice for one machine: one for the supervisor, one for each learner, and
    one where several learners find each other."""
    ports, needed = ports_of(text), 1 + learners + (learners > 1)
    if text and len(ports) < needed:
        raise OutOfBounds(f"ports={text!r} has {len(ports)} where one machine may need {needed}: for the supervisor, "
                          f"for each of learners={learners}" + (", for their rendezvous" if learners > 1 else "") +
                          f". Choose ports='{ports[0]}-{ports[0] + needed - 1}', for example.")
