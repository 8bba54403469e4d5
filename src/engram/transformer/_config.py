"""Config: every size and switch of the transformer and of its task."""

import dataclasses
from typing import Any, ClassVar, Literal

from engram._checks import InputError, check_choice, check_count, check_scalar
from engram._memory_limits import check_fits

MATRICES = ("wo2", "wk2", "wk1")
MAX_TOKENS = 256  # tokens are stored as bytes
MAX_LENGTH = 65_534  # occurrences are counted in two bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """A two-layer attention-only transformer, frozen at random but for some matrices, and its data.

    The defaults are the paper's but for the number of sequences, 16,384 there.

    Args:
        dim: Width d.
        matrices: What is trained, of W_O^2, W_K^2 and W_K^1; everything else stays as drawn.
        sequences: How many sequences.
        length: Positions T that are read; a sequence has one token more, the last to be predicted.
        num_triggers: How many tokens are triggers, each followed by an output of its own.
        triggers: "frequent": the most frequent tokens, in all sequences; "random": drawn again for
            each sequence from the unigram law.
        outputs: The law of the output of a trigger, drawn again for each sequence: "uniform" over all
            tokens, or "bigram", the law of what follows the trigger in the corpus.
        vocabulary: Keep only this many most frequent tokens of the corpus; by default all.
        corpus: A text file to count bigrams from; by default the table of Shakespeare's that ships
            with the package (64 characters).
        zero_start: Start the trained matrices at zero instead of at random.
        embedding_scale: Factor of the token and position embeddings, N(0, 1) otherwise.
        scale_scores: Divide attention scores by sqrt d.
        dtype: "float32", or "float64" for twice the time.
        seed: Of the sequences and the weights.

    Paper: sub:transformer, sub:appx_transformer.
    """

    dim: int = 64
    matrices: tuple[Literal["wo2", "wk2", "wk1"], ...] = MATRICES
    sequences: int = 1024
    length: int = 256
    num_triggers: int = 5
    triggers: Literal["frequent", "random"] = "frequent"
    outputs: Literal["uniform", "bigram"] = "uniform"
    vocabulary: int | None = None
    corpus: str | None = None
    zero_start: bool = False
    embedding_scale: float = 1.0
    scale_scores: bool = True
    dtype: Literal["float32", "float64"] = "float32"
    seed: int = 0

    # Read by pydantic when a config comes from TOML: a misspelt field is a fault.
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    def __post_init__(self) -> None:
        names = tuple(self.matrices)
        unknown = [name for name in names if name not in MATRICES]
        if not names or unknown or len(set(names)) < len(names):
            raise InputError(
                f"`matrices` must name some of {', '.join(MATRICES)}, each once, got "
                f"{', '.join(map(str, names)) or 'none'}. For example matrices=('wo2',)."
            )
        # One order, so that one choice of matrices has one name.
        object.__setattr__(self, "matrices", tuple(name for name in MATRICES if name in names))
        for name in ("dim", "sequences", "num_triggers"):
            check_count(name, getattr(self, name))
        if check_count("length", self.length, least=2) > MAX_LENGTH:
            raise InputError(f"`length` must be at most {MAX_LENGTH}, got {self.length}. Use 256.")
        # Weights and gradients of six matrices; tokens and how often each has come.
        check_fits(2 * 6 * 4 * self.dim**2, dim=self.dim)
        check_fits(3 * self.sequences * (self.length + 1), sequences=self.sequences)
        if check_count("seed", self.seed, least=0) >= 2**63:
            raise InputError(f"`seed` must be below 2**63, got {self.seed}. Choose a smaller one.")
        if self.vocabulary is not None:
            check_count("vocabulary", self.vocabulary, least=2)
        check_choice("triggers", self.triggers, ("frequent", "random"))
        check_choice("outputs", self.outputs, ("uniform", "bigram"))
        check_choice("dtype", self.dtype, ("float32", "float64"))
        if not 0 < check_scalar("embedding_scale", self.embedding_scale) < float("inf"):
            raise InputError(
                f"`embedding_scale` must be positive, got {self.embedding_scale}. The paper has 1."
            )
