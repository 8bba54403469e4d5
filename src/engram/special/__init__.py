"""Numerical ideas that the formulas need and that have no home in the paper."""

from engram.special._lanczos import largest_eigenpairs as largest_eigenpairs
from engram.special._log_omega import log_omega as log_omega
from engram.special._normals import normals as normals
from engram.special._scalar import bisect as bisect
from engram.special._scalar import logsumexp as logsumexp
from engram.special._scalar import sigmoid as sigmoid
from engram.special._scalar import softmax as softmax
from engram.special._scalar import softplus as softplus
