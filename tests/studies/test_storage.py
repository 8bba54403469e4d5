"""Storage schemes: errors by hand, what samples do not show, and the study at a tiny size."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import engram
from engram import capacity
from engram._errors import InputError
from engram.problem import zipf
from engram.studies import read_study
from engram.theory import scaling


def test_errors_of_outer_products_are_those_of_the_matrix():
    rng = np.random.default_rng(0)
    N, M, d = 12, 3, 4
    E, U = rng.normal(size=(2, N, d)), rng.normal(size=(2, M, d))
    q, p, y = rng.random((2, N)), zipf(N, 2.0), np.arange(N) % M
    for k, error in enumerate(capacity.outer_product_errors(E, U, y, q, p)):
        W = sum(q[k, x] * np.outer(U[k, y[x]], E[k, x]) for x in range(N))
        wrong = [(U[k] @ W @ E[k, x]).argmax() != y[x] for x in range(N)]
        assert error == pytest.approx(p @ wrong, rel=1e-12)


def test_what_samples_do_not_show():
    np.testing.assert_allclose(
        scaling.unseen_mass(np.full(8, 1 / 8), [0, 1, 5]), (7 / 8) ** np.array([0, 1, 5])
    )
    np.testing.assert_array_equal(scaling.unseen_mass([1.0, 0.0], [0, 3]), [1, 0])
    for exponent in (1.5, 2.0, 3.0):
        p, T = np.asarray(zipf(10**6, exponent)), np.array([1e3, 2e3])
        slope = np.diff(np.log(scaling.unseen_mass(p, T)))[0] / np.log(2)
        # The sum over x is an integral up to its first terms, and the tail beyond N = 10^6 is left out.
        assert slope == pytest.approx(-scaling.sample_exponent(exponent), abs=0.02)
    with pytest.raises(InputError, match="sum to 1"):
        scaling.unseen_mass([0.5, 0.4], 3)


def test_schemes_filled_from_many_samples_are_those_of_known_frequencies():
    law = {"num_tokens": 30, "num_classes": 5, "exponent": 2.0, "draws": 40, "seed": 1}
    quiet = lambda done, total: None
    known = capacity.scheme_errors([16], **law, progress=quiet).error.sel(dim=16)
    filled = capacity.sampled_scheme_errors([16], [10**6], **law, progress=quiet)
    # The embeddings are the same draws; counts of a million rank the first two tokens surely.
    threshold = filled.error.sel(scheme="threshold", dim=16, samples=10**6)
    np.testing.assert_array_equal(threshold, known.sel(scheme="threshold"))
    assert float(filled.unseen.max()) < 1e-3


def test_the_study_meets_its_exact_number_and_names_asymptotic_ones():
    result = engram.study("storage", tiny=True)
    assert [row.quantity.split(",")[0] for row in result.rows[:2]] == [
        "exponent in d",
        "exponent in d",
    ]
    assert result.rows[0].reference == -0.25
    assert result.rows[1].reference == -1.0
    assert result.rows[3].is_met
    # What is learnt knows all frequencies, too, and is better than either scheme.
    learned = result.data["learned_0"].error.sel(dim=16).mean()
    assert float(learned) < float(result.data["dimension"].error.sel(dim=16).mean("draw").min())


def test_without_a_finite_tail_no_exponent_is_known():
    asked = read_study("storage", exponent=1.0, tiny=True)
    data = {
        "dimension": capacity.scheme_errors([4, 8], 20, 5, 1.0, 5, 0, lambda done, total: None),
        "samples": capacity.sampled_scheme_errors([4], [4, 8], 20, 5, 1.0, 5, 0, lambda done, total: None),
    }  # fmt: skip
    assert [row.reference for row in asked.compare(data)[:3]] == [None, None, None]


def test_the_example_prints_what_it_says(capsys):
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "study_storage.py"))
    assert re.search(
        r"(?s)exponent in T of the unseen part: -0.4.*times the threshold's error",
        capsys.readouterr().out,
    )
