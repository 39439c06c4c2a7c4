"""The accelerator process: inference service, batcher, training loop, checkpoints."""
