"""What outlives a process: the store, the journal, and who may touch them."""
