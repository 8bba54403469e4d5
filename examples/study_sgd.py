"""One pass over heavy-tailed samples: the study `sgd` at a small size, with an Adam of one's own."""

import engram

result = engram.study(
    "sgd",
    dims=[10],
    samples=[1024],
    batch_sizes=[64],
    learning_rates=[1.0, 10.0],
    optimizers=["plain", {"optimizer": "adam", "b1": 0.0, "b2": 0.9}],
    layer_norm=[False],
    draws=10,
)
print(result)
for name, part in result.data.items():
    print(name, part.error.mean("draw").sel(batch=64, samples=1024).values.round(4))
