"""Notices by which a cloud takes a spot machine back, asked of its metadata server.

    cloud    asked                                                a notice is                       seconds left
    aws      /latest/meta-data/spot/instance-action               an answer with a "time"           120
    gcp      /computeMetadata/v1/instance/preempted               TRUE                              30
    azure    /metadata/scheduledevents                            an event of the type Preempt      30

AWS answers 404 as long as there is no notice, and wants a session's token first (IMDSv2). The metadata server is asked
every 2 s (AWS recommends 5 s, and 30 s are soon over), by a thread that ends with its process. A server that does not
answer is said once.

Sources: the clouds' documentation, "Spot Instance interruption notices", "Preemptible VM instances" and "Scheduled
Events".
"""

from __future__ import annotations

import datetime
import json
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

SERVER = "WORKBENCH_SPOT_SERVER"  # replaces the metadata server, for tests
_EVERY_S = 2.0
_ANSWER_S = 2.0
_UNHEARD = 5  # answers that fail in a row before it is said
_AWS_SESSION_S = "21600"


@dataclass(frozen=True)
class Notice:
    """That a cloud takes this machine back: in words, and how many seconds are left."""

    words: str
    seconds: float


@dataclass(frozen=True)
class Cloud:
    """Where a cloud says that it takes a machine back, and how its answer is read.

    Attributes:
        server, path, headers: of the request.
        seconds: that a notice leaves where it names no time.
        read: the notice's time as text, "" where it has none; None: no notice.
    """

    server: str
    path: str
    seconds: float
    read: Callable[[str], str | None]
    headers: dict[str, str] = field(default_factory=dict)


def _aws(answer: str) -> str | None:
    return str(json.loads(answer).get("time", ""))


def _gcp(answer: str) -> str | None:
    return "" if answer.strip() == "TRUE" else None


def _azure(answer: str) -> str | None:
    events = json.loads(answer).get("Events", [])
    return next((str(event.get("NotBefore", "")) for event in events if event.get("EventType") == "Preempt"), None)


CLOUDS = {
    "aws": Cloud("http://169.254.169.254", "/latest/meta-data/spot/instance-action", 120.0, _aws),
    "gcp": Cloud("http://metadata.google.internal", "/computeMetadata/v1/instance/preempted", 30.0, _gcp,
                 {"Metadata-Flavor": "Google"}),
    "azure": Cloud("http://169.254.169.254", "/metadata/scheduledevents?api-version=2020-07-01", 30.0, _azure,
                   {"Metadata": "true"}),
}


def watch(cloud: str, *, on_notice: Callable[[Notice], None], on_silence: Callable[[str], None]) -> threading.Event:
    """Ask that cloud until it takes this machine back, and call `on_notice` once; the event ends the asking.

    `on_silence` is called once if the metadata server does not answer, with what to do.
    """
    ended = threading.Event()
    threading.Thread(target=_ask_on, args=[cloud, ended, on_notice, on_silence], name="spot-notices",
                     daemon=True).start()
    return ended


def notice(cloud: str) -> Notice | None:
    """The cloud's notice, or None. Raises OSError or ValueError where it does not answer as it should."""
    at = CLOUDS[cloud]
    server = os.environ.get(SERVER, at.server)
    headers = at.headers or {"X-aws-ec2-metadata-token": _aws_token(server)}
    try:
        time = at.read(_answer(f"{server}{at.path}", headers))
    except urllib.error.HTTPError as error:
        if cloud == "aws" and error.code == 404:
            return None
        raise
    if time is None:
        return None
    seconds = _seconds_until(time, at.seconds)
    return Notice(f"{cloud} takes this spot machine back in {seconds:.0f} s", seconds)


def _ask_on(
    cloud: str, ended: threading.Event, on_notice: Callable[[Notice], None], on_silence: Callable[[str], None]
) -> None:
    unheard = 0
    while not ended.wait(_EVERY_S):
        try:
            if (given := notice(cloud)) is not None:
                on_notice(given)
                return
            unheard = 0
        except Exception as error:  # whatever answers at that address
            unheard += 1
            if unheard == _UNHEARD:
                why = str(error) or type(error).__name__
                on_silence(f"the metadata server of spot={cloud!r} does not answer ({why}): this run would not "
                           "notice that its machine is taken back. Is the machine one of that cloud's?")


def _answer(url: str, headers: dict[str, str], *, method: str = "GET") -> str:
    request = urllib.request.Request(url, headers=headers, method=method)  # noqa: S310 - of CLOUDS
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a link-local address, never by a proxy
    with opener.open(request, timeout=_ANSWER_S) as answer:
        return str(answer.read(2**16).decode())


def _aws_token(server: str) -> str:
    headers = {"X-aws-ec2-metadata-token-ttl-seconds": _AWS_SESSION_S}
    return _answer(f"{server}/latest/api/token", headers, method="PUT")


def _seconds_until(time: str, usual: float) -> float:
    """Seconds until a time such as 2026-11-26T08:22:00Z, or RFC 1123's; `usual` where it is none."""
    with suppress(ValueError):
        then = datetime.datetime.fromisoformat(time)
        then = then if then.tzinfo else then.replace(tzinfo=datetime.UTC)
        return max(0.0, (then - datetime.datetime.now(datetime.UTC)).total_seconds())
    return usual
