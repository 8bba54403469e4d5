"""Reference numbers of the paper's figures, as the package ships them."""

from engram import figures

load = figures.reference
problem_of = figures.problem_of
