"""Sweeps: something measured over a grid of axes, in compiled batches, kept as it goes."""

from engram._memory_limits import loaded as loaded
from engram.sweeps._cluster import local_client as local_client
from engram.sweeps._cluster import remote_client as remote_client
from engram.sweeps._fingerprint import Fingerprint as Fingerprint
from engram.sweeps._outcomes import CLASSES as CLASSES
from engram.sweeps._outcomes import OUTCOMES as OUTCOMES
from engram.sweeps._plan import Plan as Plan
from engram.sweeps._plan import SimulationPlan as SimulationPlan
from engram.sweeps._spec import read_sweep as read_sweep
from engram.sweeps._store import open_sweep as open_sweep
from engram.sweeps._sweep import make_plan as make_plan
from engram.sweeps._sweep import sweep as sweep
from engram.sweeps._theory import LINES as LINES
from engram.sweeps._theory import boundary as boundary
