"""Copies of a run beyond its machine: all that it needs to go on, in a folder or in object storage, and back."""

FOLDER = "WORKBENCH_MIRROR"  # variable with the folder to which runs of the launcher "colab" are copied
RECORD = "mirror.json"  # of a run: what was copied there last
LAST_COPY_S = 660.0  # of a run that has ended: a minute more than its supervisor takes
