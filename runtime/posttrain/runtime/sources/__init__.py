"""Data sources, one file each, and the modules that read and cast rows for them."""
