"""The parameters of steps: one model for each kind of step, shared by the compiler and the runtime."""
