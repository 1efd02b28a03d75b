"""Where rows come from: one file for each source."""
