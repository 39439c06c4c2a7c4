"""Environments of one actor in processes of their own, for those that Python steps slowly."""
