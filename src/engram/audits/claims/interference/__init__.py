"""Section 4.2 and Appendix C: two tokens that interfere (Theorem 4, Proposition 1)."""
