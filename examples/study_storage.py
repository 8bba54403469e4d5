"""Storage schemes for a fatter tail than the usual: the study `storage` at a small size, with a = 1.5."""

import engram

result = engram.study(
    "storage",
    exponent=1.5,
    num_tokens=300,
    dims=[16, 32, 64, 128],
    samples=[16, 64, 256],
    sample_dims=[32],
    learned_dims=[16, 32],
    optimizers=[{"optimizer": "sign", "learning_rate": 0.01}],
    steps=100,
    draws=40,
    learned_draws=3,
)
for row in result.rows[:3]:
    print(f"{row.quantity}: {row.ours:.3f}, in the limit {row.reference:.3f}")
print(result.findings[-1])
