"""What happens to steps between inference and training: unrolls, their queue, and replay."""
