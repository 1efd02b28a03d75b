"""Steps of several processes: starting them, their rendezvous, their strategy."""
