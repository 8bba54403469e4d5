"""Who pushed whom: the change of every margin divided among tokens, spikes explained, forgetting read off."""

from engram.diagnosis._explain import Explanation as Explanation
from engram.diagnosis._explain import explain as explain
from engram.diagnosis._forgetting import by_frequency as by_frequency
from engram.diagnosis._forgetting import forgetting as forgetting
from engram.diagnosis._interference import interference as interference
from engram.diagnosis._path_average import RecordFollower as RecordFollower
from engram.diagnosis._pictures import draw_forgetting as draw_forgetting
from engram.diagnosis._pictures import draw_graph as draw_graph
from engram.diagnosis._pictures import draw_interference as draw_interference
from engram.diagnosis._probe import probe as probe
from engram.diagnosis._probe import probe_problem as probe_problem
from engram.diagnosis._probe_page import confusion_rows as confusion_rows
from engram.diagnosis._probe_page import draw_probe as draw_probe
from engram.diagnosis._probe_page import each_matrix as each_matrix
from engram.diagnosis._probe_page import probe_page as probe_page
from engram.diagnosis._probe_page import summary_rows as summary_rows
from engram.diagnosis._probe_page import write_probe_page as write_probe_page
from engram.diagnosis._recorder import Recorder as Recorder
from engram.diagnosis._recorder import analyse as analyse
from engram.diagnosis._recorder import open_recording as open_recording
from engram.diagnosis._records import is_recording as is_recording
from engram.diagnosis._tensors import TensorFile as TensorFile
