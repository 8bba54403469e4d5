"""Section 5.3 and Appendix D: the transformer."""
