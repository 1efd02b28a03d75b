"""What is held against training stages beyond their form: one small file for each kind of mistake."""
