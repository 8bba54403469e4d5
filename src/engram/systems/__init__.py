"""Memories that are more than one matrix: factors, learnt embeddings, biases, a hidden layer.

Each is a system: it runs under every dynamics of `engram.simulate`, by name (`system="factored"`) or as an
object, and is recorded, swept and explored as the matrix W is.
"""

from engram.particles import AbstractReadout as AbstractReadout
from engram.systems._attention import AttentionSystem as AttentionSystem
from engram.systems._biased import BiasedSystem as BiasedSystem
from engram.systems._embedded import EmbeddedSystem as EmbeddedSystem
from engram.systems._factored import FactoredSystem as FactoredSystem
from engram.systems._network import NetworkSystem as NetworkSystem
