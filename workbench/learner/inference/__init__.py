"""Acting for all actors: their streams, batches of their steps, the tables of their environments."""
