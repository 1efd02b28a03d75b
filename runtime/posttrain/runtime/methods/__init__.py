"""Training methods: one file each."""
