"""Data steps: what columns come out, and the operations that the runtime carries out."""
