"""
A statement, its counterexample, its correction
===============================================

Every claim of the paper is code. Margins do grow like a logarithm, as the paper says. For this bound on them the audit shows where the constant fails,
proves it in ball arithmetic, and checks what is true instead.
"""

import matplotlib.pyplot as plt

from engram import audits

(finding,) = audits.audit(["C15"])
print(finding.claim.id, finding.verdict, "proved" if finding.is_certified else "not proved")
print("printed:  ", finding.claim.statement)
print("corrected:", finding.claim.amendment.statement)

figure, axes = plt.subplots(figsize=(6, 3.8), layout="constrained")
audits.draw(axes, audits.curves_of(finding))
plt.show()
