"""Facts about models, accelerators and pinned libraries, read from tables without any download."""
