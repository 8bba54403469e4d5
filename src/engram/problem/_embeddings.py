"""Families of embeddings: rows that are canonical, orthonormal, random, or of a given Gram matrix."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from engram._checks import InputError, check_count, check_floats, is_traced, read_array
from engram._precision import GENERATOR, check_backend, in_double, make_key
from engram._types import Array, ArrayLike
from engram.special import normals


def as_key(key: PRNGKeyArray | int) -> PRNGKeyArray:
    """A JAX random key, or a seed turned into one."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool) and abs(int(key)) < 2**63:
        # In float32 JAX drops the upper half of a seed, and its sign.
        check_backend()
        with jax.ensure_compile_time_eval(), jax.enable_x64(True):
            return make_key(int(key))
    if isinstance(key, jax.Array):
        is_raw = key.dtype == np.uint32 and key.shape == (2,)  # as `jax.random.PRNGKey` makes them
        return jax.random.wrap_key_data(key, impl=GENERATOR) if is_raw else key
    raise InputError(f"`key` must be a JAX key or a seed, got {key!r}. Use for example key=0.")


def canonical_rows(num: int, dim: int) -> Float[Array, "N d"]:
    """The first `num` vectors of the canonical basis."""
    _check_fits(num, dim)
    return np.eye(num, dim)


@in_double
def orthonormal_rows(key: PRNGKeyArray | int, num: int, dim: int) -> Float[Array, "N d"]:
    """Orthonormal vectors, drawn uniformly (Haar)."""
    _check_fits(num, dim)
    columns, upper = jnp.linalg.qr(gaussian_rows(key, dim, num))
    # QR alone is not uniform: fix the signs of the triangular factor.
    return (columns * jnp.sign(jnp.diagonal(upper))[None, :]).T


@in_double
def sphere_rows(key: PRNGKeyArray | int, num: int, dim: int) -> Float[Array, "N d"]:
    """Vectors drawn uniformly on the unit sphere."""
    rows = gaussian_rows(key, num, dim)
    return rows / jnp.linalg.norm(rows, axis=1, keepdims=True)


@in_double
def gaussian_rows(key: PRNGKeyArray | int, num: int, dim: int) -> Float[Array, "N d"]:
    r"""Vectors with independent entries of law $\mathcal N(0, 1/d)$, so norms are close to 1."""
    check_count("num", num)
    check_count("dim", dim)
    return normals(as_key(key), (num, dim)) * (1 / np.sqrt(float(dim)))


def rows_with_gram(
    gram: ArrayLike, dim: int | None = None, *, name: str = "gram"
) -> Float[Array, "N d"]:
    r"""Vectors $e_x$ with $\langle e_i, e_j \rangle$ = `gram[i, j]`, in `dim` dimensions.

    Args:
        gram: A symmetric positive semi-definite matrix.
        dim: The dimension, at least the rank of `gram`; by default the number of rows.
        name: What to call it in an error.

    Paper: eq:correlation.
    """
    given = read_array(name, gram)
    G = check_floats(name, given, ndim=2, axes="(N, N)")
    N = len(G)
    if G.shape != (N, N):
        raise InputError(f"`{name}` must be square, got shape {G.shape}. Give one row per token.")
    dim = N if dim is None else check_count("dim", dim)
    if is_traced(G):
        values, vectors = jnp.linalg.eigh(G)
        return _rows(jnp.sqrt(jnp.maximum(values, 0.0)), vectors, dim, jnp)

    # Rounding in a Gram matrix is of the order of N eps times its size; what is beyond is wrong.
    eps = np.finfo(given.dtype if given.dtype.kind == "f" else float).eps
    rounding = 8 * N * float(eps) * max(np.abs(G).max(), np.finfo(float).tiny)
    if (gap := np.abs(G - G.T).max()) > rounding:
        raise InputError(
            f"`{name}` must be symmetric, got entries that differ by {gap:.3g} across the diagonal. "
            f"Symmetrise with `({name} + {name}.T) / 2`."
        )
    values, vectors = np.linalg.eigh((G + G.T) / 2)
    if values[0] < -rounding:
        raise InputError(
            f"`{name}` must be positive semi-definite, got the eigenvalue {values[0]:.6g}. "
            "No real vectors have these inner products; lower the correlations."
        )
    rank = int((values > rounding).sum())
    if rank > dim:
        raise InputError(
            f"`dim` must be at least the rank of `{name}`, which is {rank}, got {dim}. Raise `dim`."
        )
    return _rows(np.sqrt(np.where(values > rounding, values, 0.0)), vectors, dim, np)


def _rows(scales, vectors, dim: int, xp):
    """The largest `dim` columns of `vectors * scales`, padded with zeros to `dim`."""
    rows = (vectors * scales[None, :])[:, ::-1][:, :dim]
    return xp.pad(rows, ((0, 0), (0, dim - rows.shape[1])))


def _check_fits(num: int, dim: int) -> None:
    check_count("num", num)
    check_count("dim", dim)
    if num > dim:
        raise InputError(
            f"`dim` must be at least the number of orthonormal vectors, {num}, got {dim}. "
            "Raise `dim`, or use `on_sphere` for vectors that may overlap."
        )
