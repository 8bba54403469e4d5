"""C50: observations on one trained transformer."""

from engram.audits.claims._checks import Checks


class C50(Checks):
    pass
