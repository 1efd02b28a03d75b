"""From bytes to typed declarations: the passes before anything is resolved."""
