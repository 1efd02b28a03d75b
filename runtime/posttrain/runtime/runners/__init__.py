"""Where steps run: one file for each runner."""
