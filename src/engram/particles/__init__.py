"""The same memory as interacting particles: one score w[x, y] per pair of tokens, `W` never formed.

Only inner products of embeddings enter. Every function takes a `Problem` and the N x M scores; nothing
here is shared with `memory`, so that their agreement is evidence.
"""

from engram.particles._curvature import hvp as hvp
from engram.particles._curvature import sharpness as sharpness
from engram.particles._curvature import spectrum as spectrum
from engram.particles._curvature import top_eigenvalues as top_eigenvalues
from engram.particles._force import force as force
from engram.particles._force import grad as grad
from engram.particles._force import pull as pull
from engram.particles._force import score_grad as score_grad
from engram.particles._gram import input_gram as input_gram
from engram.particles._gram import output_gaps as output_gaps
from engram.particles._gram import output_gram as output_gram
from engram.particles._maps import coefficients_to_weights as coefficients_to_weights
from engram.particles._maps import scores_to_weights as scores_to_weights
from engram.particles._maps import unseen_part as unseen_part
from engram.particles._maps import weights_to_scores as weights_to_scores
from engram.particles._margins import BareMarginSystem as BareMarginSystem
from engram.particles._margins import MarginState as MarginState
from engram.particles._margins import MarginSystem as MarginSystem
from engram.particles._noise import gradient_noise as gradient_noise
from engram.particles._noise import isotropic_noise as isotropic_noise
from engram.particles._readout import AbstractReadout as AbstractReadout
from engram.particles._recall import class_margins as class_margins
from engram.particles._recall import error_rate as error_rate
from engram.particles._recall import loss as loss
from engram.particles._recall import margins as margins
from engram.particles._recall import predict as predict
from engram.particles._recall import recall_probs as recall_probs
from engram.particles._recall import token_losses as token_losses
from engram.particles._system import ParticleState as ParticleState
from engram.particles._system import ParticleSystem as ParticleSystem
