"""How a system moves: the five gradient dynamics of Section 2, and the one verb that runs them."""

from engram.dynamics._base import AbstractDynamics as AbstractDynamics
from engram.dynamics._base import AbstractStepwise as AbstractStepwise
from engram.dynamics._descent import GradientDescent as GradientDescent
from engram.dynamics._descent import StochasticGradientDescent as StochasticGradientDescent
from engram.dynamics._flow import GradientFlow as GradientFlow
from engram.dynamics._optimizers import Optimizer as Optimizer
from engram.dynamics._optimizers import adam as adam
from engram.dynamics._optimizers import adamw as adamw
from engram.dynamics._optimizers import momentum as momentum
from engram.dynamics._optimizers import muon as muon
from engram.dynamics._optimizers import nesterov as nesterov
from engram.dynamics._optimizers import normalised as normalised
from engram.dynamics._optimizers import rmsprop as rmsprop
from engram.dynamics._optimizers import sgd as sgd
from engram.dynamics._optimizers import sign as sign
from engram.dynamics._practical import PracticalDescent as PracticalDescent
from engram.dynamics._run import AbstractFold as AbstractFold
from engram.dynamics._run import Carry as Carry
from engram.dynamics._run import advance as advance
from engram.dynamics._run import begin as begin
from engram.dynamics._run import finish as finish
from engram.dynamics._run import run as run
from engram.dynamics._run import segment as segment
from engram.dynamics._stochastic_flow import StochasticGradientFlow as StochasticGradientFlow
from engram.dynamics._trajectory import Status as Status
from engram.dynamics._trajectory import Trajectory as Trajectory
