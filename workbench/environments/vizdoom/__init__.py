"""ViZDoom, in processes of its own."""

FAMILY = {"title": "ViZDoom, first-person", "packages": ("vizdoom",), "extra": "doom"}
