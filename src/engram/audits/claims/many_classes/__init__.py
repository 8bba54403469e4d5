"""Section 4.1 and Appendix B.2: orthogonal inputs, many classes (Theorem 3)."""
