"""C16: the sum of the recursion for e^m."""

from collections.abc import Iterator

from flint import arb, fmpq

from engram.audits._balls import descent_margins
from engram.audits._certificate import Certificate
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_least, equal
from engram.audits.claims._checks import Checks
from engram.audits.claims.two_classes._runs import descents
from engram.audits.claims.two_classes.c15_descent_margin import margin_curves
from engram.theory import binary, printed


class C16(Checks):
    def printed(self, seed: int) -> Evidence:
        run = descents(seed).part(slice(None), first=1)
        bound = printed.descent_margin_bound(run.steps, run.x, 1.0, -1 / run.x)
        return at_least(run.margins, bound, **run.cases)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        run = descents(seed).part(slice(None), first=1)
        bound = binary.weak_log_bound(run.steps, run.x, 1.0)
        yield at_least(run.margins, bound, **run.cases)
        # The first of many small steps is as long as the bound says.
        calm = run.x[:, 0] <= 1e-3
        yield equal(run.margins[calm, 0] / bound[calm, 0], 1.0, tolerance=1e-3, x=run.x[calm, 0])

    def certificates(self) -> list[Certificate]:
        first = descent_margins(fmpq(1, 10), 1)[1]
        return [Certificate("m_1 ≥ log(1 + ηc) at ηc = 1/10", first, ">=", arb(fmpq(11, 10)).log())]

    def curves(self) -> Curves:
        return margin_curves(0.5)
