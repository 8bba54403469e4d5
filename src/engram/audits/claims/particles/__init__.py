"""Section 3 and Appendix A: gradients, particles and margins."""
