"""The paper's claims, one file per part of the paper, by number."""

from engram.audits._claim import Claim
from engram.audits.claims import (
    binary,
    further,
    geometry,
    interference,
    model,
    multiclass,
    transformer,
)

_PARTS = (model, binary, multiclass, interference, geometry, transformer, further)
CLAIMS: dict[str, Claim] = {
    claim.id: claim
    for claim in sorted((c for part in _PARTS for c in part.CLAIMS), key=lambda c: c.id)
}
