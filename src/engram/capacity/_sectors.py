"""Where tokens of the plane change sides: each is right in an open half-plane through the origin."""

import numpy as np

# Angles closer than this are taken as equal: tokens that are opposite up to rounding.
SAME_ANGLE = 1e-12


def turning_angles(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The angles of vectors z, shape (N, 2), and the 2 N directions at which z · g changes its sign.

    The first N turn it positive, the last N negative, counter-clockwise, in [0, 2 pi).
    """
    angle = np.arctan2(z[:, 1], z[:, 0])
    return angle, np.concatenate([angle - np.pi / 2, angle + np.pi / 2]) % (2 * np.pi)
