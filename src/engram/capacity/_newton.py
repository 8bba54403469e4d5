r"""Separability by Newton's method: the loss falls for ever if all can be stored; else it has a minimiser.

The Hessian of d x d unknowns is put together from the tokens' own, $e_x e_x^\top \otimes U^\top C_x U$, so a
step costs some $d^6/3$ operations whatever N and M are: at the edge of what a memory holds that is hundreds
of times less than a linear program.
"""

import numpy as np

_MOST_STEPS = 100
_CLOSE = 1e-2  # Newton decrement below which a certificate is worth the factorisation


def decide(inputs: np.ndarray, outputs: np.ndarray, targets: np.ndarray) -> bool | None:
    r"""Whether some W gives every token a positive margin; None if rounding or the steps do not allow to say.

    Yes, where all margins of an iterate are positive. No, where a minimiser of the cross-entropy is proved
    beside an iterate: at one, probabilities are Gordan's multipliers. It is, where Newton's decrement
    $\nu$ and the least eigenvalue of the Hessian have $\nu < \sqrt\lambda / L$, $L$ bounding the gaps
    between scores per unit of W (Bach 2010, Proposition 2).
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    E, U = _in_its_span(inputs), _in_its_span(outputs - outputs.mean(0))
    (N, d), k = E.shape, U.shape[1]
    steepest = 2 * np.linalg.norm(E, axis=1).max() * np.linalg.norm(U, axis=1).max()
    tokens, eye = np.arange(N), np.eye(k * d)
    squares = lambda rows: (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
    input_squares, output_squares = squares(E), squares(U)

    def look(V: np.ndarray) -> tuple[float, bool, np.ndarray]:
        """The loss, whether all tokens are recalled, and the probabilities of the wrong classes."""
        gaps = E @ V.T @ U.T
        gaps -= gaps[tokens, targets][:, None]
        size = np.abs(gaps).max()
        gaps[tokens, targets] = -np.inf
        top = gaps.max(1)
        shift = np.maximum(top, 0.0)
        wrong = np.exp(gaps - shift[:, None])
        total = np.exp(-shift) + wrong.sum(1)
        loss = (shift + np.log(total)).mean()
        return loss, bool(top.max() < -1e-9 * size), wrong / total[:, None]

    V = np.zeros((k, d))
    loss, recalls_all, wrong = look(V)
    for _ in range(_MOST_STEPS):
        if recalls_all:
            return True
        push = wrong.copy()
        push[tokens, targets] = -wrong.sum(1)
        grad = (U.T @ push.T @ E / N).ravel()
        q = wrong.copy()
        q[tokens, targets] = 1 - wrong.sum(1)
        curvature = q @ output_squares - squares(q @ U)  # U^T C_x U of each token
        H = (curvature.T @ input_squares / N).reshape(k, k, d, d).transpose(0, 2, 1, 3)
        H = H.reshape(k * d, k * d)
        rounding = 1e-13 * np.trace(H) / len(H)
        try:
            move = -cho_solve(cho_factor(H + rounding * eye), grad)
            decrement = np.sqrt(max(-grad @ move, 0.0))
            # A Cholesky factor of what is left shows that the least eigenvalue is larger.
            least = (2 * steepest * decrement) ** 2 + 10 * len(H) * rounding
            if decrement < _CLOSE:
                try:
                    cho_factor(H - least * eye)
                    return False
                except LinAlgError:
                    pass
        except LinAlgError:
            return None
        size, move = 1.0, move.reshape(k, d)
        while (ahead := look(V + size * move))[0] > loss - 1e-4 * size * decrement**2:
            size /= 2
            if size < 1e-10:
                return None
        V, (loss, recalls_all, wrong) = V + size * move, ahead
    return None


def _in_its_span(rows: np.ndarray) -> np.ndarray:
    """The same rows in coordinates of their span."""
    _, sizes, axes = np.linalg.svd(rows, full_matrices=False)
    return rows @ axes[sizes > 1e-12 * sizes.max(initial=0.0)].T
