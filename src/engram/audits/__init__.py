"""Every claim of the paper, checked by running it: `audit`, `Claim`, `Finding`, and `bound` for your own."""

from engram.audits._audit import audit as audit
from engram.audits._audit import select as select
from engram.audits._certificate import Certificate as Certificate
from engram.audits._claim import Amendment as Amendment
from engram.audits._claim import Claim as Claim
from engram.audits._claim import Curves as Curves
from engram.audits._claim import Finding as Finding
from engram.audits._evidence import Evidence as Evidence
