"""The panel of a run."""
