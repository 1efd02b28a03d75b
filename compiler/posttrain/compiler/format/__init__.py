"""`recipe fmt`: formats a recipe canonically, preserving its comments and its meaning."""
