"""A view that is brought up to date while a page shows it, and for a minute longer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from workbench.widgets.kernel import closing
from workbench.widgets.kernel.onlookers import Onlookers
from workbench.widgets.kernel.refresher import REFRESHER


class FollowedView(ABC):
    """A subclass sets `view` and `_onlookers`, which wake `_follow`.

    Attributes:
        view: the ipywidgets box with everything.
    """

    period_s: ClassVar[float]
    view: Any
    _onlookers: Onlookers
    _closed = False

    @abstractmethod
    def _update(self) -> None:
        """Brings everything up to date, or shows why that fails. Never raises."""

    def tick(self) -> bool:
        """Called by the refresher; returns whether to be called again. Never raises."""
        if self._closed or not self._onlookers.present:
            return False
        self._update()
        return True

    def close(self) -> None:
        """Removes the view; what it shows goes on."""
        self._closed = True
        REFRESHER.remove(self)
        closing.close(self.view)

    def _follow(self) -> None:
        if not self._closed:
            REFRESHER.add(self, period_s=self.period_s)
