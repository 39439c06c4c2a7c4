"""What computes: a CPU, a CUDA GPU, an XLA device, behind one interface."""
