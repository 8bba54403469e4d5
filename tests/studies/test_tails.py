"""The study of heavy tails: groups of tokens, when they are learnt, and optimizers of one's own."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import engram
from engram import InputError
from engram.cli._main import app
from engram.registry import KINDS, entries
from engram.studies import read_study, spec_text
from engram.studies._optimizers import optimizer_tables
from engram.studies._tail_runs import (
    effective_ranks,
    group_losses,
    learning_steps,
    singular_values,
    tenths,
)
from engram.studies._work import plugins_in

EXAMPLE = Path(__file__).parents[2] / "examples" / "study_tails.py"
OWN = """
import jax
import jax.numpy as jnp
from engram.dynamics import AbstractOptimizer
from engram.registry import register


@register("optimizer", "my_sign")
class MySign(AbstractOptimizer):
    learning_rate: float

    def update(self, gradient, memory, state, index, system):
        return jax.tree.map(lambda g: -self.learning_rate * jnp.sign(g), gradient), memory
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return engram.study("tails", tiny=True, out=tmp_path_factory.mktemp("tails"))


@pytest.fixture
def restored():
    """Names that a test registers go with it."""
    known = {kind: dict(entries(kind)) for kind in KINDS}
    yield
    for kind, before in known.items():
        entries(kind).clear()
        entries(kind).update(before)


@pytest.fixture
def plugin(tmp_path, restored):
    """A file with an optimizer."""
    path = tmp_path / "my_optimizer.py"
    path.write_text(OWN)
    yield path
    sys.modules.pop("my_optimizer", None)


def test_what_theory_says_in_the_canonical_basis_is_met(result):
    known = [row for row in result.rows if row.reference is not None]
    assert len(known) == 8
    assert result.is_met
    assert max(row.error for row in known) < 1e-4


def test_all_learn_the_head_alike_and_sign_descent_the_tail_sooner(result):
    steps = learning_steps(result.data["race"]).mean("seed")
    head_steps = result.study.head_steps
    # The rate is right for the mean of the seeds, at a whole step; records are a step apart there.
    assert (abs(steps.isel(group=0) - head_steps) < 1).all()
    rarest = steps.isel(group=-1)
    assert not rarest.sel(optimizer="plain") <= rarest.sel(optimizer="sign")
    plain = next(row for row in result.rows if row.quantity.startswith("plain"))
    assert np.isnan(plain.ours), "descent does not learn the rarest token in so few steps"
    assert "not within 60 steps" in result.findings[0]


def test_in_the_canonical_basis_sign_descent_learns_all_at_once():
    result = engram.study("tails", tiny=True, family="one_hot", optimizers=["sign"])
    steps = learning_steps(result.data["race"])
    np.testing.assert_allclose(steps, steps.values[0, 0, 0], rtol=1e-12)
    row = result.rows[-1]
    np.testing.assert_allclose([row.ours, *row.interval], 1.0, rtol=1e-12)


def test_the_head_is_learnt_within_the_run():
    with pytest.raises(InputError, match="`head_steps` must be at most `steps` = 5, got 6"):
        read_study("tails", head_steps=6, steps=5)


def test_tenths_hold_as_many_tokens_or_as_much_mass():
    probs = np.random.default_rng(0).permutation(1 / np.arange(1.0, 1001))
    probs /= probs.sum()
    assert (np.bincount(tenths(probs)) == 100).all()
    assert probs[tenths(probs) == 3].min() > probs[tenths(probs) == 4].max()
    mass = np.bincount(tenths(probs, "mass"), probs, 10)
    assert abs(mass - 0.1).max() <= probs.max()
    uniform = np.full(30, 1 / 30)
    np.testing.assert_array_equal(tenths(uniform), tenths(uniform, "mass"))


def test_a_tenth_is_learnt_where_its_loss_crosses_log_two():
    step = np.arange(0.0, 101)
    rates = np.geomspace(1, 1e-3, 20)
    losses = np.log(2) * 5 - step[:, None] * rates
    data = xr.Dataset(
        {"token_losses": (("step", "token"), losses), "probs": ("token", np.full(20, 0.05))}, {"step": step}
    )  # fmt: skip
    crossing = 4 * np.log(2) / rates.reshape(10, 2).mean(1)
    np.testing.assert_allclose(
        learning_steps(data), np.where(crossing <= 100, crossing, np.nan), rtol=1e-12
    )
    np.testing.assert_allclose(
        group_losses(data).isel(step=7), losses[7].reshape(10, 2).mean(1), rtol=1e-12
    )
    few = data.isel(token=slice(0, 3)).assign(probs=("token", [0.8, 0.15, 0.05]))
    by_mass = group_losses(few, "mass").isel(step=0)
    assert np.isfinite(by_mass).sum() == 3, "a tenth without tokens has no loss"


def test_effective_ranks_count_equal_singular_values():
    matrices = np.stack([np.diag([2.0, 2, 2, 0]), np.zeros((4, 4)), np.full((4, 4), np.inf)])
    ranks = effective_ranks(xr.DataArray(singular_values(matrices), dims=("step", "rank")))
    np.testing.assert_allclose(ranks, [3, np.nan, np.nan])


def test_a_copied_spec_with_one_changed_line_asks_about_ones_own(result, plugin, tmp_path):
    spec = tmp_path / "mine.toml"
    lines = spec_text(result.study).splitlines()
    lines = [
        'optimizers = ["my_sign"]' if line.startswith("optimizers") else line for line in lines
    ]
    spec.write_text("\n".join(lines))
    out = tmp_path / "out"
    ran = CliRunner().invoke(app, ["study", str(spec), "--plugin", str(plugin), "--out", str(out)])
    assert ran.exit_code == 0, ran.output
    assert "my_sign (learning rate" in ran.output
    mine = xr.load_dataset(out / "parts" / "run_0.nc")
    theirs = result.data["race"].sel(optimizer="sign")
    np.testing.assert_array_equal(mine["token_losses"], theirs["token_losses"])
    before = plugins_in('["my_sign"]')
    plugin.write_text(OWN.replace("jnp.sign(g)", "jnp.sign(g) / 2"))
    assert plugins_in('["my_sign"]') != before, "a part that another version computed is not kept"
    assert plugins_in('["sign"]') == []


def test_optimizers_are_named_by_what_is_given():
    tables = optimizer_tables(["adam", {"optimizer": "adam", "b2": 0.9}])
    assert list(tables) == ["adam", "adam (b2 = 0.9)"]
    with pytest.raises(InputError, match="got 'sign' twice"):
        optimizer_tables(["sign", "sign"])
    with pytest.raises(InputError, match="Did you mean 'adam'"):
        optimizer_tables(["adm"])
    with pytest.raises(InputError, match="b2"):
        optimizer_tables([{"optimizer": "adam", "b2": 2.0}])


def test_a_rate_that_does_not_exist_is_refused(monkeypatch):
    monkeypatch.setattr("engram.studies.tails._RATES", {"logspace": [-9, -8, 61]})
    with pytest.raises(InputError, match="no learning rate from 1e-09 to 1e-08 lets sign learn"):
        engram.study("tails", tiny=True, optimizers=["sign"])


def test_the_example_runs(capsys, restored):
    runpy.run_path(str(EXAMPLE))
    assert "signed_root: steps to learn the rarest tenth" in capsys.readouterr().out
