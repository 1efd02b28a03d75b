"""What a lock needs of the world outside: the hub's commits, and the platforms of images."""
