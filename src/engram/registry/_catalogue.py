"""The built-ins, as literals: `engram --help` reads them without loading what they name.

A test compares every entry with the signature of its target.
"""

import dataclasses
from typing import Any, Literal

from engram.registry._entries import Entry
from engram.registry._fields import Field
from engram.registry._studies import STUDIES

_MOST = 2**31 - 1  # XLA counts in 32 bits
_RATES = float | list[float] | dict[str, Any]


def _share(help: str, default: float) -> Field:
    return Field(help, bounds=(0, None), below=1, type=float, default=default)


def _optional(help: str, type: Any, **more: Any) -> Field:
    return Field(help, type=type | None, default=None, **more)


# --- problems -------------------------------------------------------------------------------------------

_SEED = Field(
    "Seed of the draw.", bounds=(0, 2**63 - 1), type=int, default=0, static=False, argument="key"
)
_NO_SEED = Field(
    "Index of the repetition of the noise.", bounds=(0, 2**63 - 1), type=int, default=0,
    static=False, argument="",
)  # fmt: skip
_N = Field("Input tokens N.", bounds=(1, _MOST), type=int)
_M = Field("Output tokens (classes) M.", bounds=(2, _MOST), type=int)
_DIM = Field("Dimension d.", bounds=(1, _MOST), type=int)
_LAWS = {
    "probs": _optional(
        "Frequencies: uniform, zipf, or numbers.", Literal["uniform", "zipf"] | list[float]
    ),
    "exponent": _optional("Zipf exponent of the frequencies.", float),
    "targets": Field(
        "Class of each token: identity, mod, random, or numbers.",
        type=Literal["identity", "mod", "random"] | list[int],
        default="mod",
    ),
}
_DRAWN = {"num_tokens": _N, "num_classes": _M, "dim": _DIM, **_LAWS, "seed": _SEED}

_PROBLEMS = [
    Entry(
        "problem", "two", "engram.problem:two_tokens",
        {
            "correlation": Field("Correlation of the embeddings of two tokens.", bounds=(-1, 1), type=float),
            "p1": Field("Frequency of the first of two tokens.", bounds=(0, 1), type=float),
            "dim": Field("Dimension d.", bounds=(1, _MOST), type=int, default=2),
            "seed": _NO_SEED,
        },
        "Two tokens with a given correlation, each with its own class.",
    ),
    Entry(
        "problem", "orthonormal", "engram.problem:orthonormal",
        {"num_tokens": _N, "num_classes": _M, "dim": _optional("Dimension d.", int, bounds=(1, _MOST)), **_LAWS, "seed": _SEED},
        "Orthonormal inputs and outputs.",
    ),
    Entry(
        "problem", "one_hot", "engram.problem:one_hot",
        {"num_tokens": _N, "num_classes": _M, **_LAWS, "seed": _SEED},
        "The canonical basis for inputs and outputs.",
    ),
    Entry("problem", "sphere", "engram.problem:on_sphere", _DRAWN, "Embeddings drawn on the unit sphere."),
    Entry("problem", "gaussian", "engram.problem:gaussian", _DRAWN, "Embeddings with normal entries."),
    Entry(
        "problem", "file", "engram.problem:from_file",
        {"path": Field("A problem saved as .npz or .nc.", type=str), "seed": _NO_SEED},
        "A problem from a file.",
    ),
    Entry(
        "problem", "text", "engram.problem:from_text_file",
        {
            "path": Field("A text file; default ten plays of Shakespeare.", type=str | None, default=None),
            "dim": Field("Dimension d.", bounds=(1, _MOST), type=int, default=64),
            "unit": Field("Tokens of a text: characters, words or bytes.", type=Literal["characters", "words", "bytes"], default="characters"),
            "top": _optional("Number of tokens of a text to keep, the most frequent ones.", int, bounds=(2, _MOST)),
            "follow": Field("Target of a token of a text: the next one, or conditional, p(y|x).", type=Literal["next", "conditional"], default="next"),
            "seed": _SEED,
        },
        "The tokens of a text, each asking for the one that follows.",
    ),
    Entry(
        "problem", "facts", "engram.problem:facts",
        {
            "subjects": Field("Subjects S of facts.", bounds=(1, _MOST), type=int),
            "relations": Field("Relations R of facts; the tokens are S R pairs.", bounds=(1, _MOST), type=int),
            "answers": Field("Answers of each relation.", bounds=(1, _MOST), type=int),
            "dim": _DIM,
            "exponent": _optional("Zipf exponent of the frequencies.", float),
            "assign": Field("Answers of facts: balanced, each as often, or random.", type=Literal["balanced", "random"], default="balanced"),
            "embeddings": Field("Vectors of subjects, relations and answers: sphere or orthonormal.", type=Literal["sphere", "orthonormal"], default="sphere"),
            "seed": _SEED,
        },
        "Facts: a subject and a relation ask for an answer of that relation.",
    ),
]  # fmt: skip

# --- systems --------------------------------------------------------------------------------------------

_START_SEED = Field("Seed of what starts at random.", bounds=(0, 2**63 - 1), type=int, default=0)
_SYSTEMS = [
    Entry(
        "system", "memory", "engram.memory:MemorySystem",
        {"layer_norm": Field("Score W e_x / |W e_x| instead of W e_x.", type=bool, default=False)},
        "The matrix W.",
    ),
    Entry(
        "system", "factored", "engram.systems:FactoredSystem",
        {
            "rank": Field("Rank of W = A B^T.", bounds=(1, _MOST), type=int),
            "start_size": Field("Size of what starts at random.", above=0, type=float, default=0.1),
            "imbalance": Field("By how much A starts larger and B smaller.", above=0, type=float, default=1.0),
            "start_seed": _START_SEED,
        },
        "A product of two thin matrices.",
    ),
    Entry(
        "system", "embedded", "engram.systems:EmbeddedSystem",
        {"learn": Field("Embeddings that move besides W.", type=Literal["inputs", "outputs", "both"], default="both")},
        "W and embeddings that are learnt along.",
    ),
    Entry(
        "system", "biased", "engram.systems:BiasedSystem",
        {"temperature": Field("By what scores are divided.", above=0, type=float, default=1.0)},
        "W and a bias for each class.",
    ),
    Entry(
        "system", "network", "engram.systems:NetworkSystem",
        {
            "width": Field("Number of hidden units.", bounds=(1, _MOST), type=int),
            "activation": Field("What hidden units do.", type=Literal["relu", "gelu", "tanh", "linear"], default="relu"),
            "start_size": Field("Size of what starts at random.", above=0, type=float, default=1.0),
            "start_seed": _START_SEED,
        },
        "A hidden layer between inputs and outputs.",
    ),
    Entry(
        "system", "attention", "engram.systems:AttentionSystem",
        {
            "num_relations": Field("Relations R of the facts.", bounds=(1, _MOST), type=int),
            "attention": Field("How attention counts tokens: softmax or linear.", type=Literal["softmax", "linear"], default="softmax"),
            "num_noise": Field("Noise tokens in a prompt.", bounds=(0, 2**16), type=int, default=0),
            "noise_tokens": Field("Number of different noise tokens.", bounds=(1, 2**16), type=int, default=16),
            "prompts": Field("Prompts that are drawn for each fact.", bounds=(1, 2**16), type=int, default=1),
            "token_dim": _optional("Dimension of the tokens of prompts; default orthonormal.", int, bounds=(1, _MOST)),
            "start_size": Field("Size of what starts at random.", above=0, type=float, default=0.01),
            "start_seed": _START_SEED,
        },
        "Attention that reads a subject and a relation from a prompt.",
    ),
]  # fmt: skip

# --- dynamics -------------------------------------------------------------------------------------------

_RATE = Field(
    "Learning rate eta: a number, one per step, or a schedule.", bounds=(0, None), type=_RATES
)
_STEPS = Field(
    "Number of updates.", bounds=(0, 2**53), type=int
)  # beyond they would not be exact as floats
_BATCH = Field("Size of the random batches.", bounds=(1, 2**24), type=int)
_BATCH_OR_ALL = Field(
    "Size of the random batches; default all data.", bounds=(1, 2**24), type=int | None, default=None
)  # fmt: skip
_COUPLED = Field(
    "lambda of a term lambda W in the gradient; of adamw, its own decoupled decay.",
    bounds=(0, None), type=float, default=0.0,
)  # fmt: skip
_REPLAYED = "Batches to replay, one list of samples per step."
_TIMES = {
    "end": _optional("End time of a flow.", float, above=0),
    "num_times": Field("Number of recorded times of a flow.", bounds=(2, 1_000_000), type=int, default=200),
    "spacing": Field("A flow's recorded times: linear or log.", type=Literal["linear", "log"], default="linear"),
    "times": _optional("List of the recorded times of a flow.", list[float]),
}  # fmt: skip

_DYNAMICS = [
    Entry(
        "dynamics", "gd", "engram.dynamics:GradientDescent",
        {"learning_rate": _RATE, "steps": _STEPS},
        "Full-batch gradient descent.",
    ),
    Entry(
        "dynamics", "flow", "engram.dynamics:GradientFlow",
        {
            **_TIMES,
            "rtol": Field("Relative tolerance of the solver.", above=0, type=float, default=1e-11),
            "atol": Field("Absolute tolerance of the solver.", above=0, type=float, default=1e-13),
            "solver": Field("auto, explicit or implicit.", type=Literal["auto", "explicit", "implicit"], default="auto"),
            "max_steps": Field("Maximum number of steps of the solver.", bounds=(1, _MOST), type=int, default=16384),
        },
        "Gradient flow.",
        needs=(("end", "times"),),
    ),
    Entry(
        "dynamics", "sgd", "engram.dynamics:StochasticGradientDescent",
        {"learning_rate": _RATE, "steps": _STEPS, "batch_size": _BATCH, "batches": _optional(_REPLAYED, list[list[int]])},
        "Descent on random batches.",
    ),
    Entry(
        "dynamics", "sgf", "engram.dynamics:StochasticGradientFlow",
        {
            **_TIMES,
            "learning_rate": _optional("Learning rate of the descent that the flow approximates.", float, bounds=(0, None)),
            "batch_size": _optional("Batch size of that descent.", int, bounds=(1, 2**24)),
            "noise_scale": _optional("Isotropic noise on W (sgf).", float, bounds=(0, None)),
            "time_step": _optional("Largest time step of the scheme.", float, above=0, static=True),
            "brownian": _optional("Increments of the Brownian motions, one row per step.", list[Any]),
        },
        "Stochastic gradient flow.",
        needs=(("end", "times"), ("learning_rate", "noise_scale"), ("batch_size", "noise_scale")),
    ),
    Entry(
        "dynamics", "central", "engram.dynamics:CentralFlow",
        {
            "learning_rate": Field("Learning rate of the descent whose average it is.", above=0, type=float),
            "steps": _STEPS,
            "substeps": Field("Steps of the scheme for each step of the descent.", bounds=(1, 10_000), type=int, default=16),
            "amplitude": Field("small, or finite: of the oscillation.", type=Literal["small", "finite"], default="small"),
        },
        "The average of descent at the edge of stability.",
    ),
    Entry(
        "dynamics", "descent", "engram.dynamics:Descent",
        {"steps": _STEPS, "weight_decay": dataclasses.replace(_COUPLED, type=float | None, default=None)},
        "Any optimizer with any sampling.",
        parts={"optimizer": None, "sampling": None},
    ),
    # What the name of an optimizer stands for as a kind of dynamics.
    Entry(
        "practical", "descent", "engram.dynamics:PracticalDescent",
        {
            "steps": _STEPS,
            "batch_size": _BATCH_OR_ALL,
            "weight_decay": _COUPLED,
        },
    ),
]  # fmt: skip

_MOMENTUM = {
    "learning_rate": _RATE,
    "momentum": _share("beta of momentum, nesterov and muon.", 0.9),
}
_EPS = Field(
    "Added to the square root of the second moment.", bounds=(0, None), type=float, default=1e-8
)
_ADAM = {
    "learning_rate": _RATE,
    "b1": _share("Weight of the past in the average of gradients.", 0.9),
    "b2": _share("Weight of the past in the average of squared gradients.", 0.999),
    "eps": _EPS,
}
_DECAY = Field("Decoupled weight decay.", bounds=(0, None), type=float, default=1e-4)


def _optimizer(name: str, fields: dict[str, Field], help: str, target: str | None = None) -> Entry:
    return Entry("optimizer", name, f"engram.dynamics:{target or name}", fields, help)


_OPTIMIZERS = [
    _optimizer("plain", {"learning_rate": _RATE}, "Plain descent.", "Plain"),
    _optimizer("momentum", _MOMENTUM, "Heavy ball."),
    _optimizer("nesterov", _MOMENTUM, "Nesterov's momentum."),
    _optimizer("normalised", {"learning_rate": _RATE}, "Steps of fixed length along the gradient."),
    _optimizer("adam", _ADAM, "Adam."),
    _optimizer("adamw", {**_ADAM, "weight_decay": _DECAY}, "Adam with decoupled weight decay."),
    _optimizer(
        "rmsprop",
        {
            "learning_rate": _RATE,
            "decay": _share(
                "Weight of the past in the average of squared gradients (rmsprop).", 0.9
            ),
            "eps": _EPS,
        },
        "RMSprop.",
    ),
    _optimizer("sign", {"learning_rate": _RATE}, "Steps along the sign of the gradient."),
    _optimizer(
        "muon",
        {"learning_rate": _RATE, "momentum": _share("beta of momentum, nesterov and muon.", 0.95)},
        "Steps along the nearly orthogonal factor of the averaged gradient, as optax has it.",
    ),
    _optimizer(
        "exact_muon",
        {
            "learning_rate": _RATE,
            "cutoff": Field(
                "Singular values up to this share of the largest are left out (exact_muon).",
                bounds=(0, 1),
                type=float,
                default=1e-10,
            ),
        },
        "Steps along the orthogonal factor of the gradient, from its singular vectors.",
    ),
]

_SAMPLINGS = [
    Entry("sampling", "everything", "engram.dynamics:Everything", {}, "All the data in every step."),
    Entry("sampling", "batches", "engram.dynamics:Batches", {"batch_size": _BATCH}, "Independent draws."),
    Entry(
        "sampling", "replayed", "engram.dynamics:Replayed",
        {"batches": Field(_REPLAYED, type=list[list[int]])},
        "Batches from a list.",
    ),
    Entry(
        "sampling", "epochs", "engram.dynamics:Epochs",
        {"counts": Field("Number of times that each sample is in the data.", type=list[int] | list[list[int]]), "batch_size": _BATCH},
        "Each sample once per epoch.",
    ),
    Entry(
        "sampling", "curriculum", "engram.dynamics:Curriculum",
        {
            "laws": Field("Frequencies of the samples in each stage.", type=list[list[float]] | list[list[list[float]]]),
            "lengths": Field("Number of steps of each stage.", type=list[int]),
        },
        "Frequencies that change by stages: a curriculum, or tasks one after another.",
    ),
]  # fmt: skip

_SCHEDULES = [
    Entry(
        "schedule", "warmup", "engram.dynamics:warmup",
        {"peak": Field("Learning rate at the end of the rise.", bounds=(0, None), type=float), "steps": Field("Number of steps of the rise.", bounds=(1, _MOST), type=int)},
        "Linear rise, then constant.",
    ),
    Entry(
        "schedule", "cosine", "engram.dynamics:cosine",
        {
            "peak": Field("Initial learning rate.", bounds=(0, None), type=float),
            "steps": Field("Number of steps of the decay.", bounds=(1, _MOST), type=int),
            "end": Field("Final learning rate.", bounds=(0, None), type=float, default=0.0),
        },
        "Decay along half a cosine, then constant.",
    ),
    Entry(
        "schedule", "piecewise", "engram.dynamics:piecewise",
        {"rates": Field("Learning rates.", bounds=(0, None), type=list[float]), "changes": Field("First step of each rate after the first one.", bounds=(0, _MOST), type=list[int])},
        "Constant learning rates that change at given steps.",
    ),
]  # fmt: skip

# --- what is recorded and found -------------------------------------------------------------------------


def _observable(
    name: str, axes: tuple[str, ...], symbol: str, help: str, target: str | None = None
) -> Entry:
    about, home = {"axes": axes, "symbol": symbol}, "engram.observables._names"
    return Entry("observable", name, f"{home}:{target or name}", help=help, about=about)


_OBSERVABLES = [
    _observable("loss", (), "L", "cross-entropy (eq:obj)"),
    _observable("batch_loss", (), "L_B", "loss on what the next step sees; NaN after the last"),
    _observable("error", (), "L_01", "0-1 error (Section 1)"),
    _observable("token_losses", ("token",), "l(x)", "loss of each token (eq:loss)"),
    _observable("margins", ("token",), "m(x)", "margin of each token (Section 5.2)"),
    _observable("class_margins", ("token", "class"), "m_i(x)", "margin against each class (eq:margin)"),
    _observable("scores", ("token", "class"), "w_xy", "scores (eq:particles)"),
    _observable("probabilities", ("token", "class"), "p_W(y|x)", "recall probabilities (eq:model-prob)"),
    _observable("grad_norm", (), "|grad L|", "norm of the gradient in W (eq:grad)"),
    _observable("sharpness", (), "|H|", "largest eigenvalue of the Hessian (eq:hess)"),
    _observable("stability_gap", (), "threshold - |H|", "distance to the method's stability threshold; below 0 is unstable"),
    _observable("weight_norm", (), "|W|", "Frobenius norm of W"),
    _observable("alignment", (), "cos(W, W_mm)", "cosine with the max-margin direction", "Alignment"),
    _observable("singular_values", ("rank",), "s_k", "singular values of W"),
    _observable("effective_rank", (), "exp H(s)", "exponential of the entropy of normalised singular values"),
    _observable(
        "invariants", ("token", "class"), "sum w_i/|u_i|^2, e^-w_i/|u_i|^2 - e^-w_j/|u_j|^2",
        "constants of the flow for orthogonal embeddings (Section 4.1, with norms)", "Invariants",
    ),
    _observable("weights", ("row", "col"), "W", "the weights (eq:model)"),
]  # fmt: skip


def _outcome(
    name: str, help: str, symbol: str = "", part: str = "", axes: tuple[str, ...] = (), **about: str
) -> Entry:
    """What a sweep measures of a run; `part` of `Events` finds it, under the name `variable`, if that differs."""
    return Entry(
        "outcome",
        name,
        "",
        help=help,
        about={"axes": axes, "symbol": symbol, "part": part, **about},
    )


_OUTCOMES = [
    _outcome("first_perfect", "first step without error; NaN if not reached", "t", "accuracy"),
    _outcome("perfect_from", "step from which there is no error; NaN if none", "t", "accuracy"),
    _outcome("final_loss", "loss after the last step", "L(W_T)"),
    _outcome("final_error", "0-1 loss after the last step", "L_01(W_T)"),
    _outcome("final_margins", "margins after the last step", "m_T(x)", axes=("token",)),
    _outcome("likeliest_margin", "margin of the most frequent token after the last step", "m_T"),
    _outcome("likeliest_forgotten", "1 if the most frequent token is not recalled after the last step, else 0"),
    _outcome("max_loss", "largest loss of the run", "max L", "losses"),
    _outcome("spike_height", "largest loss over the running minimum before it; 1 if it never rose", part="losses", variable="highest_rise"),
    _outcome("num_spikes", "excursions of the loss above the spike factor times its running minimum", part="losses"),
    _outcome("num_peaks", "maxima of the loss between a rise and a fall by the spike factor", part="peaks"),
    _outcome("last_rise", "last step at which the loss rose; NaN if it never did", "t", "losses"),
    _outcome("first_learnt", "first step at which each token's margin was above zero; NaN if never", "t", "tokens", ("token",)),
    _outcome("num_forgotten", "how often each token was forgotten", "", "tokens", ("token",)),
    _outcome("convergence", "how the run ends, by its last steps"),
    _outcome("period", "period of the cycle it ends in, 1 at a fixed point; NaN if none", "k"),
    _outcome("tail_loss", "the loss at the last steps", "L(W_t)", axes=("tail",)),
]  # fmt: skip

_EVENTS = [
    Entry(
        "event", "events", "engram.observables:Events",
        {
            "spike_factor": Field("A loss this many times above its running minimum is a spike.", bounds=(1, None), type=float, default=1.1),
            "parts": Field("Events to detect.", type=list[Literal["accuracy", "losses", "peaks", "tokens"]], default=["accuracy", "losses", "peaks", "tokens"]),
            "capacity": _optional("Number of entries that the ledger holds at a time.", int, bounds=(0, _MOST)),
        },
        "Perfect accuracy, spikes and peaks, tokens learnt, forgotten and re-learnt.",
    ),
]  # fmt: skip

# --- tables of the specs that choose nothing ------------------------------------------------------------

_RECORDS = 10_000_000
_TABLES = [
    Entry(
        "run", "run", "",
        {
            "record": Field("Observable to record; repeat for more.", type=list[str | dict[str, Any]], default=["loss", "error", "margins"]),
            "space": Field("What moves: weights, particles, margins, or auto, the cheapest.", type=Literal["auto", "weights", "particles", "margins"], default="auto"),
            "seed": Field("Seed of the problem, the start and the noise.", bounds=(0, 2**63 - 1), type=int, default=0),
            "start_scale": Field("Scale of the random start; 0 is W = 0.", bounds=(0, None), type=float, default=0.0),
            "every": _optional("Record every n-th step.", int, bounds=(1, _MOST)),
            "points": _optional("Number of recorded steps, spaced logarithmically.", int, bounds=(2, _RECORDS)),
            "stop": _optional(
                "'perfect' ends at the first step without error; loss=0.01, error=0.1 or grad_norm=1e-3 at that bound.",
                Literal["perfect"] | dict[Literal["loss", "error", "grad_norm"], float],
                bounds=(None, float("inf")),
            ),
            "events": Field("Events to detect at every step; repeat for more.", type=list[str | dict[str, Any]], default=["events"]),
            "spike_factor": Field("A loss this many times above its running minimum is a spike.", bounds=(1, None), type=float, default=1.1),
            "devices": Field("Number of JAX devices that share the tokens.", bounds=(1, 256), type=int, default=1),
        },
    ),
    Entry(
        "sweep", "sweep", "",
        {
            "observables": Field("What to measure in each run.", type=list[str | dict[str, Any]], default=["first_perfect"]),
            "chunk": _optional("Cells per unit of work.", int, bounds=(1, 2**24)),
            "seed": Field("Seed of the random numbers of all cells.", bounds=(0, 2**63 - 1), type=int, default=0),
        },
    ),
    Entry(
        "transformer", "transformer", "engram.transformer:Config",
        {
            "dim": Field("Width d.", type=int, default=64),
            "matrices": Field("Matrices to train: wo2, wk2, wk1.", type=list[Literal["wo2", "wk2", "wk1"]], default=["wo2", "wk2", "wk1"]),
            "sequences": Field("Number of sequences; the paper has 16384.", type=int, default=1024),
            "length": Field("Number of positions in a sequence.", type=int, default=256),
            "num_triggers": Field("Number of trigger tokens.", type=int, default=5),
            "triggers": Field("frequent, or random: drawn for each sequence.", type=Literal["frequent", "random"], default="frequent"),
            "outputs": Field("Distribution of the outputs: uniform or bigram.", type=Literal["uniform", "bigram"], default="uniform"),
            "vocabulary": _optional("Keep only the most frequent characters.", int),
            "corpus": _optional("Count bigrams in this text file, with at most 256 different characters.", str),
            "zero_start": Field("Start the trained matrices at zero.", type=bool, default=False),
            "embedding_scale": Field("Scale of the embeddings; 1 is N(0,1).", type=float, default=1.0),
            "scale_scores": Field("Divide attention scores by sqrt d.", type=bool, default=True),
            "dtype": Field("float32 or float64.", type=Literal["float32", "float64"], default="float32"),
            "seed": Field("Seed of sequences, weights and batches.", type=int, default=0),
        },
    ),
]  # fmt: skip

CATALOGUE = (
    *_PROBLEMS,
    *_SYSTEMS,
    *_DYNAMICS,
    *_OPTIMIZERS,
    *_SAMPLINGS,
    *_SCHEDULES,
    *_OBSERVABLES,
    *_EVENTS,
    *_OUTCOMES,
    *_TABLES,
    *STUDIES,
)
