"""Live views of a run in a notebook, over ipywidgets and Altair; nothing is loaded from the internet."""

from workbench.widgets.kernel.subshells import end_what_a_page_began, keep_to_the_pages_choice

keep_to_the_pages_choice()
end_what_a_page_began()
