"""Text, a catalog and a target in; a plan or diagnostics out. Nothing here has effects."""
