"""Is a learning rate in proportion to the budget worth it? The study `horizon`, with other tokens."""

import engram

result = engram.study("horizon", tiny=True, num_tokens=6, dim=6, draws=4, per_step=0.01)
print(result)
for row in result.rows:
    low, high = row.interval
    known = "" if row.reference is None else f", known: {row.reference:g}"
    print(f"{row.quantity}: {row.ours:.3f} ({low:.3f} to {high:.3f}){known}")
