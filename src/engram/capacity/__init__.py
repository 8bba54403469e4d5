"""What a memory can hold: separability, the fewest errors, the loss's minimiser, the max-margin direction."""

from engram.capacity._calibration import Calibration as Calibration
from engram.capacity._calibration import calibration as calibration
from engram.capacity._calibration import storage_probability as storage_probability
from engram.capacity._curve import capacity_curve as capacity_curve
from engram.capacity._curve import num_stored as num_stored
from engram.capacity._forgetting import forgetting_rate as forgetting_rate
from engram.capacity._heavy_tails import SCHEMES as SCHEMES
from engram.capacity._heavy_tails import learned_errors as learned_errors
from engram.capacity._heavy_tails import one_pass_errors as one_pass_errors
from engram.capacity._heavy_tails import sampled_scheme_errors as sampled_scheme_errors
from engram.capacity._heavy_tails import scheme_errors as scheme_errors
from engram.capacity._least_error import SAME_ANGLE as SAME_ANGLE
from engram.capacity._least_error import LeastError as LeastError
from engram.capacity._least_error import min_error as min_error
from engram.capacity._least_error import turning_angles as turning_angles
from engram.capacity._max_margin import max_margin as max_margin
from engram.capacity._max_margin import max_margin_multipliers as max_margin_multipliers
from engram.capacity._minimiser import LossMinimiser as LossMinimiser
from engram.capacity._minimiser import loss_minimiser as loss_minimiser
from engram.capacity._schemes import Scheme as Scheme
from engram.capacity._schemes import outer_product_errors as outer_product_errors
from engram.capacity._schemes import storage_error as storage_error
from engram.capacity._separability import Separation as Separation
from engram.capacity._separability import is_separable as is_separable
from engram.capacity._separability import separate as separate
from engram.capacity._trained import trained_capacity as trained_capacity
