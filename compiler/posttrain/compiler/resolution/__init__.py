"""What every name stands for, and what is made from what."""
