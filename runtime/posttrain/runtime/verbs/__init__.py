"""What stages do beside training: one file for each verb."""
