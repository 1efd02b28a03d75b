"""What the compiler proves of `benchmark` stages: their tasks, and what these ask of a model."""
