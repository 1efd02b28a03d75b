"""Memory and time of a stage before it runs, in closed form: what one device holds, and for how long."""
