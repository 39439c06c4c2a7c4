"""AWR (Peng et al. 2019): the policy imitates its own actions, the more the better they turned out."""
