"""Exercises, one module for each lesson that has any: how an answer is checked, and one that is right."""
