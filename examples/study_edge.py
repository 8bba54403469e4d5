"""Is descent chaotic? Lyapunov exponents over the learning rate, of six tokens in two dimensions."""

import jax
import numpy as np

import engram
from engram import memory
from engram.capacity import loss_minimiser
from engram.dynamics import lyapunov_exponent
from engram.memory import MemorySystem

problem = engram.on_sphere(0, num_tokens=6, num_classes=2, dim=2)
best = loss_minimiser(problem)
edge = 2 / memory.sharpness(problem, best.weights)
print(f"the minimiser has a loss of {best.loss:.4f}, and is stable up to a rate of {edge:.4f}")

shares = np.array([0.5, 0.99, 1.01, 2.0, 3.3, 3.6])
with jax.enable_x64(True):
    system, start = MemorySystem(problem), problem.zero_weights
    one = lambda rate: lyapunov_exponent(system, start, rate, skip=2000, steps=8192)[:2]
    exponents, errors = jax.jit(jax.vmap(one))(shares * edge)
for share, exponent, error in zip(shares, np.asarray(exponents), np.asarray(errors), strict=True):
    word = "chaotic" if exponent > 2 * error else "settles or cycles"
    print(f"{share:.2f} of the edge: exponent {exponent:+.4f} ± {error:.4f} per step, {word}")
