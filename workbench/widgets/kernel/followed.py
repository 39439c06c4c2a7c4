"""A view that is brought up to date while a page shows it, and for a minute longer."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from workbench.widgets.kernel import closing
from workbench.widgets.kernel.refresher import REFRESHER

UNSEEN_S = 60.0  # until a view that no front end shows is no longer refreshed


class FollowedView(ABC):
    """A subclass sets `view`, and then calls `_count_views`.

    Attributes:
        view: the ipywidgets box with everything.
    """

    period_s: ClassVar[float]
    view: Any
    _closed = False

    @abstractmethod
    def _update(self) -> None:
        """Brings everything up to date, or shows why that fails. Never raises."""

    def tick(self) -> bool:
        """Called by the refresher; returns whether to be called again. Never raises."""
        if self._closed:
            return False
        if self.view._view_count:
            self._viewed_at = time.monotonic()
        self._update()
        return time.monotonic() - self._viewed_at < UNSEEN_S

    def close(self) -> None:
        """Removes the view; what it shows goes on."""
        self._closed = True
        REFRESHER.remove(self)
        closing.close(self.view)

    def _count_views(self) -> None:
        """Makes front ends count their views of it, and follows whenever one appears."""
        self._viewed_at = time.monotonic()
        self.view._view_count = 0
        self.view.observe(self._on_view_count, names="_view_count")

    def _on_view_count(self, change: Mapping[str, Any]) -> None:
        if change["new"] and not self._closed:
            REFRESHER.add(self, period_s=self.period_s)

    def _follow(self) -> None:
        """Begin to follow, as a page is about to show the view."""
        self._viewed_at = time.monotonic()
        REFRESHER.add(self, period_s=self.period_s)
