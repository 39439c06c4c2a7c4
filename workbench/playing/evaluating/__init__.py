"""Episodes that were played to judge a policy: their returns, what they say of it, and where they are kept."""
