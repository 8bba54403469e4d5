"""The paper's claims, by number: one module of checks and one file of words per part of the paper."""

import importlib

from engram.audits._claim import Claim
from engram.audits.claims._checks import claims_of

_NAMES = (
    "model", "binary_flow", "binary_descent", "multiclass", "pair_steps", "pair_flow", "pair_descent",
    "spikes", "geometry", "transformer", "further", "second_reading",
)  # fmt: skip
_PARTS = [importlib.import_module(f"engram.audits.claims.{name}") for name in _NAMES]
CLAIMS: dict[str, Claim] = {claim.id: claim for part in _PARTS for claim in claims_of(part)}
