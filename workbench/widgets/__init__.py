"""Live views of a run in a notebook, over ipywidgets and Altair; nothing is loaded from the internet."""

from workbench.widgets.subshells import keep_to_the_pages_choice

keep_to_the_pages_choice()
