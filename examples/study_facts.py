"""Does softmax attention learn the relation before the fact? The study `facts` at a small size."""

import engram

learner = {
    "label": "softmax attention",
    "system": {"kind": "attention", "num_noise": 4, "prompts": 2},
    "dynamics": {"kind": "gd", "learning_rate": 2.0, "steps": 800},
}
adam = {
    **learner,
    "label": "Adam",
    "dynamics": {"kind": "adam", "learning_rate": 0.01, "steps": 300},
}
sizes = {"subjects": 8, "relations": 2, "answers": 4, "seeds": 2}
result = engram.study("facts", models=[learner, adam], start_sizes=[], dims=[], widths=[], **sizes)
for finding in result.findings:
    print(finding)
