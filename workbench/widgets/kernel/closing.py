"""Closing a view for good: each widget in it, and the layout and style of each, is a model in the browser."""

from __future__ import annotations

from typing import Any


def widgets(view: Any) -> list[Any]:
    """A view and everything in it."""
    return [view, *(one for child in getattr(view, "children", ()) for one in widgets(child))]


def close(view: Any) -> None:
    """Close a view and everything in it, with layouts and styles; those that are shared once."""
    parts = [getattr(one, part, None) for one in widgets(view) for part in ("layout", "style")]
    for one in {id(one): one for one in (*widgets(view), *parts) if one is not None}.values():
        one.close()
