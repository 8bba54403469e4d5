"""The paper's claims, one file per part of the paper, by number."""

from engram.audits._claim import Claim
from engram.audits.claims import (
    binary_descent,
    binary_flow,
    further,
    geometry,
    model,
    multiclass,
    pair_descent,
    pair_flow,
    pair_steps,
    spikes,
    transformer,
)

_PARTS = (
    model, binary_flow, binary_descent, multiclass, pair_steps, pair_flow, pair_descent, spikes, geometry,
    transformer, further,
)  # fmt: skip
CLAIMS: dict[str, Claim] = {
    claim.id: claim
    for claim in sorted((c for part in _PARTS for c in part.CLAIMS), key=lambda c: c.id)
}
