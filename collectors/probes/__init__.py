"""The probing tools, and the prober that runs them at one node."""
