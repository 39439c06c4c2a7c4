"""R2D2 (Kapturowski et al. 2019): Q-learning from prioritized replay, with a memory."""
