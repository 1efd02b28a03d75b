"""What each verb needs: its parameters, its columns, its metrics."""
