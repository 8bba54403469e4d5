"""Where is descent on average, on a cycle beyond the edge? Two central flows against gradient flow."""

import numpy as np

import engram
from engram.dynamics import CentralFlow, GradientDescent
from engram.studies.central import averaged

rate, steps = 7.0, 60
problem = engram.on_sphere(0, num_tokens=6, num_classes=2, dim=2)
record = {"record": ["weights", "sharpness"], "space": "weights", "events": False, "every": 1}
descent = engram.simulate(problem, GradientDescent(rate, steps), **record)
mean = averaged(descent.weights.values)
print(f"2/η = {2 / rate:.3f}, sharpness of descent at last {float(descent.sharpness[-1]):.3f}")

for name, dynamics in {
    "gradient flow, by short steps": GradientDescent(rate / 16, 16 * steps),
    "central flow": CentralFlow(rate, steps),
    "with finite amplitude": CentralFlow(rate, steps, amplitude="finite"),
}.items():
    every = dynamics.num_steps // steps
    run = engram.simulate(problem, dynamics, **record | {"every": every})
    away = np.linalg.norm(run.weights.values[: len(mean)] - mean, axis=(1, 2))
    print(f"{name}: {away[1:].mean():.4f} from the average path, {away[-1]:.4f} at the end")
