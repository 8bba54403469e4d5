"""One task after another: when a second token erases a first one."""

import numpy as np

from engram._types import Numbers, Scalar
from engram.theory.binary import flow_margin

GOLDEN = (np.sqrt(5) - 1) / 2


def margins_after(
    correlation: Scalar, duration: Scalar, contrast: Scalar = 2.0
) -> tuple[Numbers, Numbers]:
    r"""Margins of two tokens of two classes, after flow on the first alone and then on the second alone.

    The first comes to $m(T)$ of one token. The second begins at $-\alpha\,m$, follows the same law to $m_2$, and
    takes $\alpha$ times its way from the first: $m_1 = m - \alpha\,(m_2 + \alpha\,m)$.

    Args:
        correlation: $\alpha$ of the two unit inputs.
        duration: T of each task.
        contrast: $c = \|u_1 - u_2\|^2$.

    Paper: ours, from thm:ortho-bin.
    """
    m = flow_margin(duration, contrast)
    m_2 = flow_margin(duration, contrast, -correlation * m)
    return m - correlation * (m_2 + correlation * m), m_2


def forgetting_correlation(duration: Scalar, contrast: Scalar = 2.0) -> float:
    r"""The correlation above which a second task makes the first be forgotten, in the flow of two tokens.

    It tends to the golden ratio 0.618 as T grows: both tasks then end at the same margin, but for $O(\log T / T)$,
    and the first token is lost where $1 - \alpha^2 < \alpha$.

    Args:
        duration: T of each task.
        contrast: $c = \|u_1 - u_2\|^2$.

    Paper: ours.
    """
    from scipy.optimize import brentq

    root: float = brentq(
        lambda a: float(margins_after(a, duration, contrast)[0]), 0.0, 1.0, xtol=1e-14
    )  # pyright: ignore
    return root
