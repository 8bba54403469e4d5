"""Section 4.3: the dynamics in the plane."""
