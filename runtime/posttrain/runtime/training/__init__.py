"""The shared training code: parameters, the training loop, checkpoints and validation."""
