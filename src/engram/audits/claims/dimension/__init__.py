"""Section 5.2: larger dimension."""
