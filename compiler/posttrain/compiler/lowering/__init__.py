"""From what was checked and placed to the steps of a plan."""
