"""Inference for all actors: their streams, batches of their steps, tables of their environments."""
