"""Two-dimensional slices of the weights: the loss, its gradient and its curvature over them."""

from engram.memory.dense import sharpness_along as sharpness_along
from engram.memory.dense import span_size as span_size
from engram.memory.dense import wrong_margins as wrong_margins
from engram.planes._landscape import QUANTITIES as QUANTITIES
from engram.planes._landscape import landscape as landscape
from engram.planes._plane import Plane as Plane
from engram.planes._plane import curvature_plane as curvature_plane
from engram.planes._plane import max_margin_plane as max_margin_plane
from engram.planes._plane import memory_plane as memory_plane
from engram.planes._plane import plane_through as plane_through
from engram.planes._plane import principal_plane as principal_plane
from engram.planes._regions import error_regions as error_regions
