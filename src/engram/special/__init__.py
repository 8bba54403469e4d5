"""Numerical ideas that the formulas need and that have no home in the paper."""

from engram.special._lanczos import largest_eigenpairs as largest_eigenpairs
from engram.special._log_omega import log_omega as log_omega
