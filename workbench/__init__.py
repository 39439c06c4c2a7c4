"""A workbench for distributed reinforcement learning that is driven from a notebook; importing it loads no torch."""
