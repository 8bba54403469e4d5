"""The page's engine draws what the library draws: threefry to the bit, normals to the last digits."""

import jax
import numpy as np
import pytest
from node_engine import NODE, Engine

from engram._precision import make_key

pytestmark = pytest.mark.skipif(NODE is None, reason="no node here: the engine's tests need one")
SEEDS = [0, 1, 977, 2**31 - 1]


@pytest.fixture(scope="module")
def engine():
    made = Engine()
    yield made
    made.close()


@pytest.fixture(scope="module", autouse=True)
def double():
    with jax.enable_x64(True), jax.threefry_partitionable(True):
        yield


def test_threefry_gives_the_published_vectors(engine):
    # Known answers of Random123, 20 rounds: two words of a counter under two words of a key.
    counters = [(0, 0), (0xFFFFFFFF, 0xFFFFFFFF), (0x243F6A88, 0x85A308D3)]
    keys = [(0, 0), (0xFFFFFFFF, 0xFFFFFFFF), (0x13198A2E, 0x03707344)]
    found = engine.values(
        "random", "threefry2x32", *([key, *x] for key, x in zip(keys, counters, strict=True))
    )
    assert found == [[0x6B200159, 0x99BA4EFE], [0x1CB996FC, 0xBB002BE7], [0xC4923A9C, 0x483DF7A0]]


def test_uniform_numbers_are_the_librarys_bit_by_bit(engine):
    keys = engine.values("random", "keyOf", *([seed] for seed in SEEDS))
    folded = engine.values("random", "foldIn", *([key, 371] for key in keys))
    parts = engine.values("random", "split", *([key, 3] for key in keys))
    for seed, key, other, three in zip(SEEDS, keys, folded, parts, strict=True):
        real = make_key(seed)
        assert jax.random.key_data(real).tolist() == key
        assert jax.random.key_data(jax.random.fold_in(real, 371)).tolist() == other
        assert jax.random.key_data(jax.random.split(real, 3)).tolist() == three
        found = engine.values("random", "uniform", *([other, k] for k in range(64)))
        wanted = jax.random.uniform(jax.random.fold_in(real, 371), (64,), float)
        assert np.array_equal(found, wanted)


def test_whole_numbers_and_orders_are_the_librarys(engine):
    keys = engine.values("random", "keyOf", *([seed] for seed in SEEDS))
    numbers = engine.values("random", "integers", *([key, 64, 7] for key in keys))
    orders = engine.values("random", "permutation", *([key, list(range(64))] for key in keys))
    for seed, found, order in zip(SEEDS, numbers, orders, strict=True):
        assert found == jax.random.randint(make_key(seed), (64,), 0, 7).tolist()
        assert order == jax.random.permutation(make_key(seed), np.arange(64)).tolist()


def test_normal_numbers_are_the_librarys_to_the_last_digits(engine):
    keys = engine.values("random", "keyOf", *([seed] for seed in SEEDS))
    found = engine.values("random", "normals", *([key, 2**12] for key in keys))
    wanted = [jax.random.normal(make_key(seed), (2**12,), float) for seed in SEEDS]
    # The inverse of the error function, by another method than XLA's polynomials.
    np.testing.assert_allclose(found, wanted, rtol=1e-14)
    assert np.abs(found).max() > 3.5  # into the tails


def test_numpys_normal_numbers_come_from_the_same_ziggurat(engine):
    found = engine.values("random", "numpyNormals", *([seed, 4000] for seed in SEEDS))
    wanted = [np.random.default_rng(seed).standard_normal(4000) for seed in SEEDS]
    # The edges of the strips follow from one another, so that rounding adds up a little.
    np.testing.assert_allclose(found, wanted, atol=1e-14, rtol=1e-14)
    assert np.abs(found).max() > 3.66  # beyond the last strip too
