"""The paper's claims, one file per part of the paper, by number."""

from engram.audits._claim import Claim
from engram.audits.claims import binary, model, multiclass

CLAIMS: dict[str, Claim] = {
    claim.id: claim for part in (model, binary, multiclass) for claim in part.CLAIMS
}
