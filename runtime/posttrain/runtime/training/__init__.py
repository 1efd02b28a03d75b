"""What training methods share: parameters, checkpoints, the loop's events."""
