"""Steps of several processes: starting them, what they agree on, what each is held to."""
