"""One call from a problem and a dynamics to a labelled dataset."""

from engram.simulation._compare import compare as compare
from engram.simulation._dataset import about_events_in as about_events_in
from engram.simulation._dataset import label_events as label_events
from engram.simulation._dataset import label_problem as label_problem
from engram.simulation._dataset import stored_problem as stored_problem
from engram.simulation._differences import common_part as common_part
from engram.simulation._differences import differences as differences
from engram.simulation._drive import drive as drive
from engram.simulation._events import events as events
from engram.simulation._expected import Expected as Expected
from engram.simulation._expected import expected as expected
from engram.simulation._segments import segment_size as segment_size
from engram.simulation._simulate import Interrupted as Interrupted
from engram.simulation._simulate import simulate as simulate
from engram.simulation._simulate import simulate_arrays as simulate_arrays
from engram.simulation._source import FORMAT as FORMAT
from engram.simulation._space import choose_space as choose_space
from engram.simulation._space import make_system as make_system
from engram.simulation._when import When as When
from engram.simulation._when import log_spaced as log_spaced
