"""Training rows as Arrow files that several processes read and write."""
