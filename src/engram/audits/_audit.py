"""audit: the verb. It runs claims and says what it found."""

import importlib
import os
import runpy
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from engram._checks import InputError, check_count
from engram._progress import progress_bar
from engram.audits._claim import Claim, Finding
from engram.audits._search import LISTENER


def audit(
    claims: str | Claim | Iterable[str | Claim] | None = None, *, seed: int = 0
) -> list[Finding]:
    """Check claims by running them: the paper's, by number, or your own.

    Each check draws many random and extreme parameters, evaluates the statement as printed and the
    corrected one, and recomputes the counterexamples in ball arithmetic.

    Args:
        claims: Numbers such as "C15", claims of your own (see `bound`) or Python files that define some; by
            default all of the paper's.
        seed: Other draws for another seed.

    Returns:
        One `Finding` per claim; `finding.verdict`, `finding.changes` and `finding.as_dict()` say what
        was found.
    """
    return list(audit_each(select(claims), seed=seed))


def audit_each(claims: list[Claim], *, seed: int = 0) -> Iterator[Finding]:
    """The findings one by one, as they come, with a progress bar on a terminal."""
    check_count("seed", seed, least=0)
    alone = len(claims) == 1
    with progress_bar("audit", "trials" if alone else "claims") as report:
        for index, claim in enumerate(claims):
            if not alone:
                report(index, len(claims))
            token = LISTENER.set(report if alone else None)
            try:
                finding = _examine(claim, seed)
            finally:
                LISTENER.reset(token)
            yield finding


def select(claims: Any = None) -> list[Claim]:
    """The claims that are meant: all of the paper's, or those named or given."""
    from engram.audits.claims import CLAIMS

    if claims is None:
        return list(CLAIMS.values())
    if isinstance(claims, str | Claim):
        claims = [claims]
    if not isinstance(claims, Iterable):
        raise InputError(f"`claims` must be numbers such as 'C15' or `Claim`s, got {claims!r}.")
    claims = [
        part for claim in claims for part in (_claims_in(claim) if _is_file(claim) else [claim])
    ]
    by_name, selected = {name.upper(): claim for name, claim in CLAIMS.items()}, []
    for claim in claims:
        known = claim if isinstance(claim, Claim) else by_name.get(str(claim).upper())
        if known is None:
            raise InputError(
                f"CLAIM must be a number such as C15 or a Python file, got {claim}. `engram audit` lists all."
            )
        selected.append(known)
    return selected


def load_claim(place: str) -> Claim:
    """The claim that a module has under a name, such as "my_bounds:claim"; this folder is searched, too."""
    module, _, name = place.partition(":")
    if not module or not name.isidentifier():
        raise InputError(f"--claim must be MODULE:NAME, as in my_bounds:claim, got {place}.")
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        value = getattr(importlib.import_module(module), name)
    except InputError as error:
        raise InputError(f"--claim {place}: {error}") from error
    except (Exception, SystemExit) as error:  # whatever the user's code does
        message = " ".join(str(error).split())
        raise InputError(
            f"--claim {place} cannot be loaded ({type(error).__name__}: {message}). "
            f"Import {module} by itself to see where."
        ) from error
    finally:
        sys.path.remove(here)
    if not isinstance(value, Claim):
        raise InputError(
            f"--claim {place} must be a claim, as in `{name} = engram.audits.bound(...)`, "
            f"got a {type(value).__name__}."
        )
    return value


def _is_file(claim: Any) -> bool:
    return isinstance(claim, str | Path) and str(claim).endswith(".py")


def _claims_in(path: str | Path) -> list[Claim]:
    """The claims that a Python file defines, in its order."""
    if not Path(path).is_file():
        raise InputError(
            f"CLAIM must be a number such as C15 or a Python file, and {path} is not a file."
        )
    try:
        names = runpy.run_path(str(path))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (Exception, SystemExit) as error:  # whatever the user's code does
        message = " ".join(str(error).split())
        raise InputError(
            f"{path} cannot be run ({type(error).__name__}: {message}). Run it by itself to see where."
        ) from error
    claims = [value for value in names.values() if isinstance(value, Claim)]
    if not claims:
        raise InputError(
            f"{path} must define a claim, as in `claim = engram.audits.bound(...)`, got none."
        )
    return claims


def _examine(claim: Claim, seed: int) -> Finding:
    began = time.perf_counter()
    # Matrices are small here, and threads that wait for one another would take most of the time.
    with threadpool_limits(1, user_api="blas"):
        printed = None if claim.printed is None else claim.printed(seed)
        corrected = None if claim.amendment is None else claim.amendment.check(seed)
        certificates = () if claim.certificates is None else tuple(claim.certificates())
    return Finding(claim, printed, corrected, certificates, time.perf_counter() - began)
