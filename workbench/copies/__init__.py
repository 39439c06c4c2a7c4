"""Copies of a run beyond its machine: all that it needs to go on, in a folder or in object storage, and back."""
