"""PPO (Schulman et al. 2017): epochs of minibatches that keep the policy near the one that acted."""
