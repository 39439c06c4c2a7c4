"""What makes an environment of one kind or another keep the contract."""
