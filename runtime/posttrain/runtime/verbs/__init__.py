"""The verbs of stages other than training. One file for each verb."""
