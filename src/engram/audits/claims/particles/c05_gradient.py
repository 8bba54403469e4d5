"""C05: the gradient formula, against automatic differentiation."""

from collections.abc import Iterator

from engram import memory
from engram.audits._evidence import Evidence, all_of, equal
from engram.audits._independent import autograd, parts
from engram.audits.claims._checks import Checks
from engram.audits.claims._models import models


class C05(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        for index, (problem, W) in enumerate(models(seed, "C05")):
            gradient = memory.grad(problem, W)
            yield equal(gradient, autograd(W, *parts(problem)), tolerance=1e-13, model=index)
            inside = memory.project_on_updates(problem, gradient)
            yield equal(gradient, inside, tolerance=1e-13, model=index)
