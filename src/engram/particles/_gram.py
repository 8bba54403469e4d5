"""The inner products through which particles feel one another."""

from jaxtyping import Float

from engram._precision import compiled
from engram._types import Array
from engram.problem import Problem


@compiled()
def input_gram(problem: Problem) -> Float[Array, "N N"]:
    r"""Input correlations $\alpha_{ij} = \langle e_i, e_j \rangle$.

    Paper: eq:correlation.
    """
    return problem.inputs @ problem.inputs.T


@compiled()
def output_gram(problem: Problem) -> Float[Array, "M M"]:
    r"""Output correlations $\langle u_i, u_j \rangle$.

    Paper: eq:correlation, where only their differences `output_gaps` are named.
    """
    return problem.outputs @ problem.outputs.T


@compiled()
def output_gaps(problem: Problem) -> Float[Array, "M M M"]:
    r"""Output gaps $\beta_{ijk} = \langle u_i, u_j - u_k \rangle$.

    Paper: eq:correlation.
    """
    G = problem.outputs @ problem.outputs.T
    return G[:, :, None] - G[:, None, :]
