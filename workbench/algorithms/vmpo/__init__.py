"""V-MPO (Song et al. 2020): the policy imitates the better half of its actions, and moves by a bounded KL."""
