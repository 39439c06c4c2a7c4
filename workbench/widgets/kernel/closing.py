"""Closing a view for good, because each widget in it, and each layout and style, is a model in the browser."""

from __future__ import annotations

from typing import Any


def widgets(view: Any) -> list[Any]:
    """A view and everything in it."""
    return [view, *(widget for child in getattr(view, "children", ()) for widget in widgets(child))]


def put(box: Any, *views: Any) -> None:
    """Shows these views in a box, and closes what was in it."""
    before, box.children = box.children, views
    for view in before:
        close(view)


def close(view: Any) -> None:
    """Closes a view and everything in it, with layouts and styles, each once."""
    parts = [getattr(widget, part, None) for widget in widgets(view) for part in ("layout", "style")]
    for model in {id(model): model for model in (*widgets(view), *parts) if model is not None}.values():
        model.close()
