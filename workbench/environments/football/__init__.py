"""Google Research Football, on envpool's engine or upstream's."""

FAMILY = {"title": "Google Research Football", "packages": ("envpool", "gfootball"), "extra": "football"}
