"""Every claim of the paper, checked by running it: `audit`, `Claim`, `Finding`, and `bound` for your own."""

from engram.audits._audit import audit as audit
from engram.audits._audit import audit_each as audit_each
from engram.audits._audit import load_claim as load_claim
from engram.audits._audit import select as select
from engram.audits._certificate import Certificate as Certificate
from engram.audits._claim import Amendment as Amendment
from engram.audits._claim import Claim as Claim
from engram.audits._claim import Curves as Curves
from engram.audits._claim import Finding as Finding
from engram.audits._evidence import Evidence as Evidence
from engram.audits._picture import as_text as as_text
from engram.audits._picture import curves_of as curves_of
from engram.audits._picture import draw as draw
from engram.audits._search import bound as bound
from engram.audits._texts import errata as errata
from engram.audits._texts import in_words as in_words
from engram.audits._texts import root_causes as root_causes
from engram.audits._texts import where as where
