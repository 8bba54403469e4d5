"""Specifications as data: from TOML or options to problems, dynamics and runs, all faults at once."""

from engram.specs._build import build_problem as build_problem
from engram.specs._build import build_system as build_system
from engram.specs._build import simulate_spec as simulate_spec
from engram.specs._faults import Faults as Faults
from engram.specs._faults import read_table as read_table
from engram.specs._read import OPTIONS as OPTIONS
from engram.specs._read import SimulationSpec as SimulationSpec
from engram.specs._read import read_spec as read_spec
from engram.specs._read import read_toml as read_toml
from engram.specs._read import with_read_out as with_read_out
from engram.specs._stored import given_of as given_of
from engram.specs._stored import problem_of as problem_of
from engram.specs._stored import read_netcdf as read_netcdf
from engram.specs._stored import spec_of as spec_of
from engram.specs._stored import write_spec as write_spec
from engram.specs._training import read_training as read_training
