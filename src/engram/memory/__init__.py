"""The memory itself: a matrix `W` that recalls token y for token x by the score <u_y, W e_x>.

Every function takes a `Problem` and `W` and follows the dtype of its inputs (float64 by default, as
`Problem` holds it). `layer_norm=True` scores W e_x / ||W e_x|| instead of W e_x, as the authors' model
can; it has no gradient where W e_x = 0, and gives NaN there. Sums over tokens stream over blocks, so
that no N x M array is formed when that would be large.
"""

from engram.memory._curvature import Eigenpairs as Eigenpairs
from engram.memory._curvature import hessian as hessian
from engram.memory._curvature import hvp as hvp
from engram.memory._curvature import sharpness as sharpness
from engram.memory._curvature import spectrum as spectrum
from engram.memory._curvature import top_eigenpairs as top_eigenpairs
from engram.memory._loss import error_rate as error_rate
from engram.memory._loss import grad as grad
from engram.memory._loss import loss as loss
from engram.memory._loss import loss_and_grad as loss_and_grad
from engram.memory._loss import token_losses as token_losses
from engram.memory._scores import class_margins as class_margins
from engram.memory._scores import margins as margins
from engram.memory._scores import predict as predict
from engram.memory._scores import recall_probs as recall_probs
from engram.memory._scores import scores as scores
from engram.memory._span import project_on_updates as project_on_updates
from engram.memory._span import update_bases as update_bases
from engram.memory._system import MemorySystem as MemorySystem
