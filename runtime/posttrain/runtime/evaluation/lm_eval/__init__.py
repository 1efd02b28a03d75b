"""lm-eval's tasks put to models, and the rows and figures that they become."""
