"""What differs between two plans: what was changed, and what that makes to be done again."""
