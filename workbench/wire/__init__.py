"""What travels between processes: binary step messages, JSON calls, tokens."""
