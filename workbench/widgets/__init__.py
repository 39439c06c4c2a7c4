"""Live views of a run in a notebook, over ipywidgets and Altair; nothing is loaded from the internet."""
