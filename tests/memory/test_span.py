"""The span of the updates: all of it, and nothing else."""

import numpy as np
import pytest

import cases
from engram import memory


@pytest.mark.parametrize("name", cases.PROBLEMS)
def test_bases_span_the_differences_of_outputs_and_the_inputs_that_occur(name):
    problem = cases.PROBLEMS[name]
    gaps = (problem.outputs[:, None] - problem.outputs[None]).reshape(-1, problem.output_dim)
    rows = (gaps, problem.inputs[problem.probs > 0])
    for basis, spanned in zip(memory.update_bases(problem), rows, strict=True):
        assert basis.shape == (spanned.shape[1], np.linalg.matrix_rank(spanned))
        np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-14)
        np.testing.assert_allclose(spanned @ basis @ basis.T, spanned, atol=1e-13)
