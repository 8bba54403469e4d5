"""Section 4.1 and Appendix B.1: orthogonal inputs, two classes (Theorem 2)."""
