"""Attention to a subject and a relation: prompts, what flow conserves, and how fast tokens are learnt."""

import json

import jax
import numpy as np
import pytest

import engram
from engram._checks import InputError
from engram.explorer import payloads
from engram.explorer._requests import read_request
from engram.problem import facts
from engram.systems import AttentionSystem

S, R, D = 6, 3, 2
FACTS = facts(0, S, R, D, 9, embeddings="orthonormal")


@pytest.fixture(autouse=True)
def double(x64):
    """All of it in double precision."""


def test_a_prompt_has_its_subject_its_relation_and_noise():
    system = AttentionSystem(FACTS, R, num_noise=4, noise_tokens=5, prompts=2)
    tokens = np.asarray(system.asked.tokens).reshape(S, R, 2, 6)
    assert (tokens[..., 0] == np.arange(S)[:, None, None]).all()
    assert (tokens[..., 1] == S + np.arange(R)[None, :, None]).all()
    assert set(tokens[..., 2:].ravel()) == set(range(S + R, S + R + 5))
    np.testing.assert_array_equal(np.repeat(FACTS.targets, 2), system.asked.problem.targets)


def test_a_fact_is_what_its_prompts_are():
    system = AttentionSystem(FACTS, R, num_noise=2, prompts=3, token_dim=7)
    rng = np.random.default_rng(0)
    state = jax.tree.map(lambda x: x + rng.standard_normal(x.shape), system.start())
    w, look = np.asarray(system.prompt_scores(state)).reshape(S * R, 3, R * D), system.look(state)
    right = np.take_along_axis(w, np.asarray(FACTS.targets)[:, None, None], axis=2)[:, :, 0]
    each = np.logaddexp.reduce(w, axis=2) - right
    np.testing.assert_allclose(look.token_losses, each.mean(1), rtol=1e-12)
    assert float(look.loss) == pytest.approx(FACTS.probs @ each.mean(1), rel=1e-12)
    others = np.where(np.arange(R * D) == np.asarray(FACTS.targets)[:, None, None], -np.inf, w)
    np.testing.assert_allclose(look.margins, (right - others.max(2)).min(1), atol=1e-13)
    slope = jax.grad(system.loss)(state)
    for mine, other in zip(*map(jax.tree.leaves, (system.grad(state), slope)), strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-13)
    np.testing.assert_allclose(np.asarray(system.attended(state)).sum(1), 1, rtol=1e-14)


def test_a_sweep_counts_facts_whatever_their_prompts_are():
    facts = {"family": "facts", "subjects": 3, "relations": 2, "answers": 2, "dim": 4}
    system = {"kind": "attention", "num_relations": 2, "num_noise": 2, "prompts": 2}
    dynamics = {"kind": "gd", "learning_rate": 1.0, "steps": 8}
    spec = {"problem": facts, "system": system, "dynamics": dynamics}
    swept = engram.sweep(spec | {"sweep": {"observables": ["final_margins"]}}, {"seed": [0, 1]})
    assert swept.final_margins.sizes == {"seed": 2, "token": 6}


def test_without_noise_linear_attention_is_a_product_of_each_tokens_attention_and_value():
    system = AttentionSystem(FACTS, R, attention="linear")
    rng = np.random.default_rng(1)
    q, V = (jax.numpy.asarray(rng.standard_normal(shape)) for shape in ((S + R,), (9, S + R)))
    scores = np.asarray(system.scores({"query": q, "values": V})).reshape(S, R, R * D)
    said = np.asarray((FACTS.outputs @ V) * q[None, :]).T
    np.testing.assert_allclose(scores, said[:S, None] + said[None, S:], rtol=0, atol=1e-13)


def test_small_tokens_grow_at_their_rates():
    alpha, rate, steps = 1e-6, 0.5, 40
    system = AttentionSystem(FACTS, R, attention="linear", start_size=alpha)
    descent = engram.dynamics.GradientDescent(rate, steps)
    final = engram.simulate(system, descent, record="loss", events=False, at=[steps])
    # q grows as the mean of (1 + eta lambda)^t and (1 - eta lambda)^t, up to alpha^2 e^(2 lambda t).
    lam = system.growth_rates()
    expected = alpha * ((1 + rate * lam) ** steps + (1 - rate * lam) ** steps) / 2
    np.testing.assert_allclose(final.final_query.values, expected, rtol=1e-9)


def test_the_rates_of_balanced_facts_are_those_of_the_formula():
    rates = AttentionSystem(FACTS, R, attention="linear").growth_rates()
    np.testing.assert_allclose(rates[:S], np.sqrt(1 / R - 1 / (R * D)) / S, rtol=1e-13)
    np.testing.assert_allclose(rates[S:], np.sqrt(1 / D - 1 / (R * D)) / R, rtol=1e-13)


def test_wrong_arguments_are_refused_in_words():
    with pytest.raises(InputError, match="divide the number of facts, 18, got 4"):
        AttentionSystem(FACTS, 4)
    with pytest.raises(InputError, match="linear attention"):
        AttentionSystem(FACTS, R).growth_rates()


def test_the_page_draws_facts_that_attention_reads_and_bounds_the_prompts(x64):
    def answer(**system):
        facts = {"kind": "facts", "subjects": 3, "relations": 2, "answers": 2, "dim": 4, "seed": 0}
        state = {"problem": facts, "runs": [{"kind": "gd", "learning_rate": 1.0}], "steps": 8}
        state["system"] = {"kind": "attention", "num_relations": 2, "num_noise": 2} | system
        body = {"client": "test", "parts": ["runs"], "state": state}
        return payloads.compute(read_request(json.dumps(body).encode()), {})

    assert b'"ended_at": 8.0' in answer(prompts=2)
    with pytest.raises(InputError, match="system.prompts: must be at most 8 here"):
        answer(prompts=9)
