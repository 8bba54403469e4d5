"""The paper's results as functions: closed forms, bounds, thresholds, invariants, limits.

Nothing here calls `memory`, `particles` or `dynamics`, so that agreement with them is evidence. `binary`,
`multiclass`, `interference`, `spike`, `separable`, `muon`, `recovery`, `scaling`, `large_steps` and `cycles` hold what is true, and refuse to answer
outside their hypotheses; `printed` holds what the paper prints where that differs.
"""

from engram.theory import binary as binary
from engram.theory import cycles as cycles
from engram.theory import interference as interference
from engram.theory import large_steps as large_steps
from engram.theory import multiclass as multiclass
from engram.theory import muon as muon
from engram.theory import printed as printed
from engram.theory import recovery as recovery
from engram.theory import scaling as scaling
from engram.theory import separable as separable
from engram.theory import spike as spike
from engram.theory._hypotheses import HypothesisError as HypothesisError
