"""The built-in studies, as literals: what each asks, and its settings."""

from typing import Any, Literal

from engram.registry._entries import Entry
from engram.registry._fields import Field


def _setting(help: str, type: Any, default: Any, **limits: Any) -> Field:
    """A setting of a study, which stays a plain number."""
    return Field(help, type=type, default=default, static=True, **limits)


_MANY = 10_000_000
_OPTIMIZERS = list[str | dict[str, Any]]

_AMONG_NOISE = {"kind": "attention", "num_noise": 6, "prompts": 4}
_LEARNERS = [
    {"label": "linear attention", "system": {"kind": "attention", "attention": "linear", "start_size": 1e-5},
     "dynamics": {"kind": "gd", "learning_rate": 0.25, "steps": 4000}},
    {"label": "softmax attention, noise", "system": _AMONG_NOISE, "dynamics": {"kind": "gd", "learning_rate": 2.0, "steps": 4000}},
    {"label": "the same, Adam", "system": _AMONG_NOISE, "dynamics": {"kind": "adam", "learning_rate": 0.01, "steps": 600}},
    {"label": "W", "system": {"kind": "memory"}, "dynamics": {"kind": "gd", "learning_rate": 2.0, "steps": 600}},
    {"label": "network", "system": {"kind": "network", "width": 64}, "dynamics": {"kind": "gd", "learning_rate": 2.0, "steps": 600}},
]  # fmt: skip

_ADAM = {"kind": "descent", "optimizer": "adam"}
_SYSTEMS = [
    {"label": "W"},
    {"label": "rank 2, balanced", "system": {"kind": "factored", "rank": 2, "start_size": 0.5}},
    {"label": "rank 2, unbalanced", "system": {"kind": "factored", "rank": 2, "start_size": 0.5, "imbalance": 3.0}},
    {"label": "rank 1", "system": {"kind": "factored", "rank": 1, "start_size": 0.5}},
    {"label": "layer norm", "system": {"kind": "memory", "layer_norm": True}, "start_scale": 1.0},
    {"label": "noisy labels, 10 %", "label_noise": 0.1},
    {"label": "learnt inputs", "system": {"kind": "embedded", "learn": "inputs"}},
    {"label": "learnt outputs", "system": {"kind": "embedded", "learn": "outputs"}},
    {"label": "both learnt", "system": {"kind": "embedded", "learn": "both"}},
    {"label": "biases", "system": {"kind": "biased"}},
    {"label": "temperature 1/2", "system": {"kind": "biased", "temperature": 0.5}},
    {"label": "hidden layer of 32", "system": {"kind": "network", "width": 32}},
    {"label": "weight decay 0.001", "dynamics": {"kind": "descent", "optimizer": "plain", "weight_decay": 0.001}},
    {"label": "Adam, rate / 10", "dynamics": _ADAM, "rate_factor": 0.1},
    {"label": "Adam, coupled decay", "dynamics": {**_ADAM, "weight_decay": 0.001}, "rate_factor": 0.1},
    {"label": "AdamW, decoupled", "dynamics": {"kind": "descent", "optimizer": "adamw", "weight_decay": 0.001}, "rate_factor": 0.1},
]  # fmt: skip

STUDIES: list[Entry] = [
    Entry(
        "study", "muon", "engram.studies.muon:Muon",
        {
            "exponents": _setting("Exponents a of the frequencies, above 1/2.", list[float], [0.75, 1.0, 1.5, 2.0], above=0.5),
            "optimizers": _setting("Optimizers: names, or tables with `optimizer`.", _OPTIMIZERS, ["exact_muon", "muon", "plain", "sign"]),
            "dims": _setting("Dimensions d; there are d^2 tokens.", list[int], [24, 32, 48, 64, 96, 128, 192], bounds=(4, 1024)),
            "seeds": _setting("Number of draws of the embeddings at the largest d; at smaller ones as many more.", int, 6, bounds=(1, 1000)),
        },
        "How many Gaussian associations one step of Muon recalls, against d.",
    ),
    Entry(
        "study", "tails", "engram.studies.tails:Tails",
        {
            "exponent": _setting("Exponent a of the frequencies.", float, 1.0, bounds=(0, 20)),
            "optimizers": _setting("Optimizers: names, or tables with `optimizer`; yours, too.", _OPTIMIZERS, ["plain", "momentum", "adam", "sign", "muon", "exact_muon"]),
            "family": _setting("Embeddings.", Literal["gaussian", "sphere", "orthonormal", "one_hot"], "gaussian"),
            "num_tokens": _setting("Number of tokens, and of classes.", int, 100, bounds=(10, 2000)),
            "dim": _setting("Dimension d of gaussian and sphere.", int, 64, bounds=(1, 2000)),
            "head_steps": _setting("Step at which the most frequent tenth is learnt.", int, 10, bounds=(2, 100_000)),
            "steps": _setting("Steps of each run.", int, 1000, bounds=(2, 10_000_000)),
            "seeds": _setting("Number of draws of the embeddings.", int, 8, bounds=(1, 1000)),
        },
        "Which optimizer learns rare tokens, and when.",
    ),
    Entry(
        "study", "central", "engram.studies.central:Central",
        {
            "figures": _setting("Figures of the paper, with the seed of Figure 5.", list[Literal["fig2", "fig5 9", "fig5 39"]], ["fig2", "fig5 9", "fig5 39"]),
            "rates": _setting("Learning rates over Figures 2 and 5.", list[float], [10.0, 1.0], above=0),
            "points": _setting("Points of each path there: the start and the steps.", int, 35, bounds=(4, 100_000)),
            "systems": _setting("Systems whose sharpness is followed.", list[Literal["memory", "factored", "embedded", "network"]], ["memory", "factored", "embedded", "network"]),
            "num_tokens": _setting("Input tokens N of these systems' problem.", int, 12, bounds=(2, 10_000)),
            "num_classes": _setting("Its output tokens M.", int, 3, bounds=(2, 10_000)),
            "dim": _setting("Its dimension d.", int, 3, bounds=(2, 1000)),
            "seed": _setting("Seed of its draw.", int, 1, bounds=(0, 2**63 - 1)),
            "share": _setting("2/rate, over the largest sharpness along gradient flow.", float, 0.7, above=0),
            "horizon": _setting("Flow time over which that is looked for.", float, 400.0, above=0),
            "steps": _setting("Steps of descent on each of these systems.", int, 300, bounds=(4, 100_000)),
            "transformer_rate": _setting("Learning rate of a small transformer.", float, 2.0, above=0),
            "transformer_steps": _setting("Its steps; 0 leaves it out.", int, 120, bounds=(0, 100_000)),
        },
        "The averaged path at the edge of stability, and sharpness along paths.",
    ),
    Entry(
        "study", "horizon", "engram.studies.horizon:Horizon",
        {
            "num_tokens": _setting("Input tokens N.", int, 12, bounds=(1, 10_000)),
            "num_classes": _setting("Output tokens M.", int, 2, bounds=(2, 10_000)),
            "dim": _setting("Dimension d.", int, 8, bounds=(1, 1000)),
            "seed": _setting("Seed of the first draw.", int, 0, bounds=(0, 2**31)),
            "draws": _setting("Number of draws of which every token can be recalled.", int, 16, bounds=(2, 1000)),
            "per_step": _setting("Learning rate over the number of steps T, where it is in proportion.", float, 1e-3, above=0),
            "lowest": _setting("Smallest learning rate of the grid.", float, 0.1, above=0),
            "highest": _setting("Largest one.", float, 1e6, above=0, bounds=(None, 1e12)),
            "rates": _setting("Number of learning rates on the grid.", int, 85, bounds=(2, 100_000)),
            "longest": _setting("Largest number of steps T.", int, 16384, bounds=(64, _MANY)),
            "horizons": _setting("How many values T has, evenly spaced in its logarithm.", int, 12, bounds=(4, 1000)),
        },
        "The best learning rate for a budget of steps.",
    ),
    Entry(
        "study", "edge", "engram.studies.edge:Edge",
        {
            "num_tokens": _setting("Input tokens N, more than can be recalled.", int, 6, bounds=(2, 10_000)),
            "num_classes": _setting("Output tokens M.", int, 2, bounds=(2, 10_000)),
            "dim": _setting("Dimension d.", int, 2, bounds=(1, 1000)),
            "seed": _setting("Seed of the draw.", int, 0, bounds=(0, 2**63 - 1)),
            "lowest": _setting("Smallest learning rate, over the edge 2/H.", float, 0.6, above=0),
            "highest": _setting("Largest learning rate, over the edge.", float, 6.0, above=0, bounds=(None, 1000)),
            "rates": _setting("Number of learning rates.", int, 400, bounds=(2, 100_000)),
            "skip": _setting("Steps before anything is looked at.", int, 4000, bounds=(2, _MANY)),
            "steps": _setting("Steps over which the Lyapunov exponent is an average.", int, 16384, bounds=(16, _MANY)),
        },
        "Where descent settles, cycles or wanders, and its Lyapunov exponents.",
    ),
    Entry(
        "study",
        "facts",
        "engram.studies.facts:Facts",
        {
            "subjects": _setting("Subjects S.", int, 16, bounds=(1, 1000)),
            "relations": _setting("Relations R.", int, 4, bounds=(2, 100)),
            "answers": _setting("Answers D of each relation.", int, 8, bounds=(2, 100)),
            "seeds": _setting("Draws of facts for each model.", int, 4, bounds=(1, 100)),
            "models": _setting(
                "What learns them: tables with label, system and dynamics.", list[Any], _LEARNERS
            ),
            "start_sizes": _setting(
                "Sizes of the start of linear attention, falling.",
                list[float],
                [1e-2, 1e-3, 1e-4, 1e-5],
                above=0,
            ),
            "dims": _setting(
                "Dimensions of W for the number of facts held.",
                list[int],
                [8, 11, 16, 22],
                bounds=(2, 40),
            ),
            "widths": _setting(
                "Hidden units for the number of facts held.",
                list[int],
                [8, 16, 32, 64],
                bounds=(1, 512),
            ),
            "width_dim": _setting("Dimension of that network.", int, 16, bounds=(2, 64)),
            "draws": _setting("Draws for the number of facts held.", int, 6, bounds=(1, 100)),
        },
        "Factual recall: relation before fact, plateau, facts per parameter.",
    ),
    Entry(
        "study", "tasks", "engram.studies.tasks:Tasks",
        {
            "durations": _setting("Flow times of each of two tasks of a token.", list[float], [20.0, 100.0, 500.0], bounds=(1, 10_000)),
            "tokens": _setting("Tokens of each of two tasks.", int, 16, bounds=(1, 200)),
            "classes": _setting("Classes.", int, 4, bounds=(2, 100)),
            "dims": _setting("Dimensions.", list[int], [8, 16, 32, 64, 128, 256], bounds=(1, 2048)),
            "shares": _setting("Shares of the first task that are replayed in the second.", list[float], [0.0, 0.01, 0.03, 0.1, 0.3, 0.5], bounds=(0, 1)),
            "replay_dim": _setting("Dimension in which the first task is replayed.", int, 32, bounds=(1, 2048)),
            "learning_rate": _setting("Learning rate of the tasks.", float, 2.0, above=0),
            "stage_steps": _setting("Steps of each task.", int, 500, bounds=(1, 100_000)),
            "seeds": _setting("Draws.", int, 6, bounds=(1, 1000)),
            "ledgers": _setting("Draws in which it is looked up who pushed out what is forgotten.", int, 4, bounds=(0, 100)),
            "imbalances": _setting("Starts of factors, A larger and B smaller by so much.", list[float], [1.0, 2.0], above=0),
            "problem": _setting("What the systems are to remember.", dict[str, Any], {"family": "two", "correlation": 0.95, "p1": 0.75}),
            "rates": _setting("Learning rates of the systems.", list[float], [1.0, 10.0], above=0),
            "steps": _setting("Steps of the systems.", int, 1000, bounds=(1, 1_000_000)),
            "systems": _setting("Lines of the table: tables with label, system, dynamics, rate_factor, start_scale, label_noise.", list[Any], _SYSTEMS),
        },
        "Tasks in turn, replay, and what other systems change.",
    ),
    Entry(
        "study", "sgd", "engram.studies.sgd:OnePass",
        {
            "dims": _setting("Dimensions d.", list[int], [10, 100], bounds=(1, 2000)),
            "samples": _setting("Numbers T of samples, multiples of the batch sizes.", list[int], [1024, 10240], bounds=(1, 10**7)),
            "batch_sizes": _setting("Samples per step.", list[int], [64, 256, 1024], bounds=(1, 10**6)),
            "learning_rates": _setting("Learning rates; divided by d where steps do not shrink with the gradient.", list[float], [0.1, 1.0, 10.0, 100.0], above=0),
            "optimizers": _setting("Optimizers, by name or as tables.", _OPTIMIZERS, ["plain", "sign"]),
            "layer_norm": _setting("Without or with layer norm.", list[bool], [False, True]),
            "num_tokens": _setting("N.", int, 100, bounds=(2, 10**5)),
            "num_classes": _setting("M; the target of token x is x mod M.", int, 5, bounds=(2, 10**5)),
            "exponent": _setting("a of p(x) ~ x^-a.", float, 2.0, bounds=(0, None)),
            "draws": _setting("Draws of embeddings, start and samples.", int, 50, bounds=(2, 10**5)),
            "seed": _setting("From which all draws derive.", int, 0, bounds=(0, 2**31)),
        },
        help="One pass of stochastic descent over heavy tails, against the authors' stored grid.",
    ),
    Entry(
        "study", "storage", "engram.studies.storage:Storage",
        {
            "dims": _setting("Dimensions d of the schemes with known frequencies.", list[int], [32, 64, 128, 256, 512], bounds=(1, 10**5)),
            "samples": _setting("Numbers T of samples that fill the schemes.", list[int], [16, 64, 256, 1024, 4096], bounds=(1, 10**8)),
            "sample_dims": _setting("Dimensions d of the schemes that samples fill.", list[int], [32, 256], bounds=(1, 10**5)),
            "optimizers": _setting("Optimizers that learn W from full batches, by name or as tables.", _OPTIMIZERS, [{"optimizer": "plain", "learning_rate": 10.0}, {"optimizer": "adam", "learning_rate": 0.01}]),
            "steps": _setting("Steps of learning.", int, 500, bounds=(1, 10**6)),
            "learned_dims": _setting("Dimensions d of learnt weights.", list[int], [8, 16, 32, 64, 128], bounds=(1, 4000)),
            "num_tokens": _setting("N.", int, 1000, bounds=(2, 10**6)),
            "num_classes": _setting("M; the target of token x is x mod M.", int, 5, bounds=(2, 10**4)),
            "exponent": _setting("a of p(x) ~ x^-a.", float, 2.0, above=0),
            "draws": _setting("Draws of embeddings and samples.", int, 200, bounds=(2, 10**6)),
            "learned_draws": _setting("Draws of embeddings for learning.", int, 10, bounds=(2, 10**4)),
            "seed": _setting("From which all draws derive.", int, 0, bounds=(0, 2**31)),
        },
        help="Storage schemes: error against dimension and samples, with exponents, and what is learnt.",
    ),
    Entry(
        "study", "capacity", "engram.studies.capacity:Capacity",
        {
            "best_dims": _setting("Dimensions d of the best W.", list[int], [6, 8, 11, 16], bounds=(2, 60)),
            "dims": _setting("Dimensions d of learnt W.", list[int], [8, 16, 32, 64], bounds=(2, 512)),
            "list_dims": _setting("Dimensions d of W that is learnt for lists.", list[int], [8, 16, 32], bounds=(2, 512)),
            "networks": _setting("Dimension d and width m of each learnt network.", list[list[int]], [[8, 8], [8, 16], [16, 16], [16, 32]]),
            "shares": _setting("Lists hold this share of all classes.", list[float], [0.1], above=0, below=1),
            "accuracy": _setting("Share of tokens that what is learnt must recall; on lists all.", float, 0.99, above=0, bounds=(None, 1)),
            "activation": _setting("Of networks.", Literal["relu", "gelu", "tanh", "linear"], "relu"),
            "optimizer": _setting("What learns, with full batches: a name, or a table.", str | dict[str, Any], "adam"),
            "learning_rate": _setting("For W; it falls to zero along half a cosine.", float, 0.3, above=0),
            "network_rate": _setting("The same for networks.", float, 0.1, above=0),
            "steps": _setting("Steps of each training.", int, 400, bounds=(1, 10**6)),
            "best_draws": _setting("Draws of embeddings for the best W.", int, 40, bounds=(2, 10**5)),
            "draws": _setting("Draws of embeddings for what is learnt.", int, 6, bounds=(2, 10**4)),
            "embeddings": _setting("sphere: unit vectors; gaussian: normal ones.", Literal["sphere", "gaussian"], "sphere"),
            "seed": _setting("From which all draws derive.", int, 0, bounds=(0, 2**31)),
        },
        help="Capacity: parameters against N log N, for linear memories, networks and lists.",
    ),
]  # fmt: skip
