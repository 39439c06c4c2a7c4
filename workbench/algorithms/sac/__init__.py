"""SAC (Haarnoja et al. 2018): a stochastic policy and twin critics from replay, at a temperature that adapts."""
