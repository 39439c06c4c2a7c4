"""What happens to steps between inference and training: unrolls (and, later, replay)."""
