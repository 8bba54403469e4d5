"""The paper's claims, by number: one module of checks and one file of words per part of the paper."""

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
from engram.audits.claims._checks import claims_of

_PARTS = (
    model, binary_flow, binary_descent, multiclass, pair_steps, pair_flow, pair_descent, spikes, geometry,
    transformer, further,
)  # fmt: skip
CLAIMS: dict[str, Claim] = {claim.id: claim for part in _PARTS for claim in claims_of(part)}
