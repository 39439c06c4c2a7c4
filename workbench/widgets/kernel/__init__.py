"""The kernel's side of all widgets: refreshing, subshells, saved views, closing, the files of the page."""
