"""The runners, which execute steps as processes or in containers."""
