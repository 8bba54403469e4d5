"""The studies of large steps: what they compare is met at small sizes, and what they refuse."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import engram
from engram._errors import InputError
from engram.studies.central import averaged
from engram.studies.edge import doubling

EXAMPLES = Path(__file__).parents[2] / "examples"
SPHERE = {"family": "sphere", "num_tokens": 6, "num_classes": 2, "dim": 2, "seed": 0}


def test_edge_meets_what_is_known_of_fixed_points_and_cycles(tmp_path):
    result = engram.study("edge", tiny=True, out=tmp_path)
    assert result.is_met
    assert sum(row.reference is not None for row in result.rows) == 6
    chaotic = result.data["exponents"].exponent > 3 * result.data["exponents"].error
    settled = result.data["diagram"].period == 1
    assert chaotic.any()
    assert not (chaotic.values[: settled.size] & settled.values).any()


def test_the_end_of_stability_is_not_reported_outside_of_the_rates_looked_at():
    nowhere = doubling(SPHERE, 1.2, 1.5, steps=64)
    assert np.isnan(nowhere.low)
    assert np.isnan(nowhere.high)


def test_edge_refuses_what_can_be_recalled():
    with pytest.raises(InputError, match=r"more tokens than can be recalled.*another `seed`"):
        engram.study("edge", tiny=True, num_tokens=2, dim=4)


def test_averaging_takes_off_what_alternates_and_keeps_lines():
    step = np.arange(8.0)[:, None]
    np.testing.assert_allclose(averaged(3 * step + (-1.0) ** step)[1:], 3 * step[1:-1])


def test_central_flow_of_figure_2_is_nearer_than_gradient_flow(tmp_path):
    result = engram.study("central", tiny=True, out=tmp_path)
    assert set(result.data) == {"fig2 10"}
    here = result.data["fig2 10"]
    reference = engram.simulate(
        engram.two_tokens(0.95, 0.75), engram.GradientDescent(10.0, 11), record=["sharpness"]
    )
    ours = here.sharpness.sel(path="descent")
    np.testing.assert_allclose(ours, reference.sharpness, rtol=1e-8)
    near = here.distance.isel(step=-2)
    assert near.sel(path="small") < near.sel(path="flow")
    # Beyond its first step, which begins above the edge, the flow stays at 2/η or below.
    assert here.sharpness.sel(path="small")[1:].max() <= 0.2 * (1 + 1e-3)


def test_horizon_meets_the_powers_of_the_budget(tmp_path):
    sizes = {"num_tokens": 4, "dim": 8, "per_step": 0.004, "horizons": 12, "longest": 4096}
    result = engram.study("horizon", tiny=True, out=tmp_path, **sizes)
    known = [row for row in result.rows if row.reference is not None]
    assert [row.reference for row in known] == [1, 2, 1]
    assert all(row.is_met for row in known)
    with pytest.raises(InputError, match=r"`num_tokens` must be small.*only 0 can be recalled"):
        engram.study("horizon", tiny=True, num_tokens=60, dim=1)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("edge", r"1.01 of the edge: exponent -0\.0\d+ .*settles or cycles\n(.*\n)*3.60.*chaotic"),
        ("central", r"gradient flow.* 0\.4\d+ at the end\n(.*\n)*with finite.* 0\.0000 at the end"),
        ("horizon", r"learning rates win\n- From some T on the larger the rate the better"),
    ],
)
def test_examples_of_large_steps_run(name, says, capsys):
    runpy.run_path(str(EXAMPLES / f"study_{name}.py"))
    assert re.search(says, capsys.readouterr().out)
