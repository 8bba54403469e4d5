"""How many Gaussian associations one step recalls: the study `muon` at a small size, beside its theory."""

import engram
from engram.theory import recovery

result = engram.study("muon", tiny=True, optimizers=["exact_muon", "plain", "sign"], seeds=4)
counts = result.data["counts"].sel(exponent=1.0)
for d in counts["dim"].values:
    shown = ", ".join(
        f"{name} {counts['recalled'].sel(dim=d, optimizer=name).mean().item():.1f}"
        for name in counts["optimizer"].values
    )
    print(
        f"d = {d}, {d * d} tokens: {shown}; theory of exact Muon {recovery.muon_recall(1.0, d, d * d):.1f}"
    )
for d in (10**2, 10**4, 10**6):
    few, many = (recovery.muon_recall(1.0, k, k * k) for k in (d, 10 * d))
    print(f"theory: {few:.3g} tokens at d = {d:,}, {many / few:.1f} times as many at {10 * d:,}")
print(f"the law: {10 ** recovery.recall_exponent(1.0):.1f} times as many")
