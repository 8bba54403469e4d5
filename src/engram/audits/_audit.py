"""audit: the verb. It runs claims and says what it found."""

import time
from collections.abc import Callable, Iterable

from engram._checks import InputError, check_count
from engram.audits._claim import Claim, Finding


def audit(
    claims: Iterable[Claim | str] | str | None = None,
    *,
    seed: int = 0,
    tell: Callable[[int, int, str], None] | None = None,
) -> list[Finding]:
    """Check claims by running them: the paper's, by number, or your own.

    Each check draws many random and extreme parameters, evaluates the statement as printed and the
    corrected one, and recomputes the counterexamples in ball arithmetic.

    Args:
        claims: Numbers such as "C15", or `Claim`s (see `bound`); by default all of the paper's.
        seed: Other draws for another seed.
        tell: Called with (done, total, id) before each claim.

    Returns:
        One `Finding` per claim; `finding.verdict`, `finding.changes` and `finding.as_dict()` say what
        was found.
    """
    check_count("seed", seed, least=0)
    chosen = select(claims)
    found = []
    for index, claim in enumerate(chosen):
        if tell is not None:
            tell(index, len(chosen), claim.id)
        found.append(_examine(claim, seed))
    return found


def select(claims: Iterable[Claim | str] | str | None = None) -> list[Claim]:
    """The claims that are meant: all of the paper's, or those named or given."""
    from engram.audits.claims import CLAIMS

    if claims is None:
        return list(CLAIMS.values())
    if isinstance(claims, str):
        claims = [claims]
    return [_find(claim, CLAIMS) for claim in claims]


def _find(claim: Claim | str, known: dict[str, Claim]) -> Claim:
    if isinstance(claim, Claim):
        return claim
    name = str(claim).upper()
    if name not in known:
        last = list(known)[-1]
        raise InputError(f"`claims` must be among C01 to {last}, got {claim!r}. Pick from those.")
    return known[name]


def _examine(claim: Claim, seed: int) -> Finding:
    began = time.perf_counter()
    printed = None if claim.printed is None else claim.printed(seed)
    corrected = None if claim.amendment is None else claim.amendment.check(seed)
    certificates = () if claim.certificates is None else tuple(claim.certificates())
    return Finding(claim, printed, corrected, certificates, time.perf_counter() - began)
