"""The paper's claims, by number, in the order of its sections, and theorems that it does not have.

Each section is a folder, and each claim there a pair of files: `c15_descent_margin.py` has what computes, `class
C15(Checks)`, and `c15_descent_margin.toml` its words, under `[C15]`. Files whose name begins with an underscore
hold what several checks share. A pair of files that is put into a folder is found there; no list names it.
"""

from engram.audits._claim import Claim
from engram.audits.claims._checks import claims_in

SECTIONS = (
    "setting", "particles", "two_classes", "many_classes", "interference", "plane", "short_memory", "dimension",
    "transformers", "beyond",
)  # fmt: skip
CLAIMS: dict[str, Claim] = {claim.id: claim for section in SECTIONS for claim in claims_in(section)}
