"""Section 5.1: more associations than the memory holds."""
