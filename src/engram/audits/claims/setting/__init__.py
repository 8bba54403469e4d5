"""Sections 1 and 2: the loss, and the dynamics that lower it."""
