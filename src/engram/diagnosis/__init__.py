"""Who pushed whom: the change of every margin divided among tokens, spikes explained, forgetting read off."""

from engram.diagnosis._explain import Explanation as Explanation
from engram.diagnosis._explain import explain as explain
from engram.diagnosis._forgetting import by_frequency as by_frequency
from engram.diagnosis._forgetting import forgetting as forgetting
from engram.diagnosis._interference import interference as interference
from engram.diagnosis._pictures import draw_forgetting as draw_forgetting
from engram.diagnosis._pictures import draw_graph as draw_graph
from engram.diagnosis._pictures import draw_interference as draw_interference
