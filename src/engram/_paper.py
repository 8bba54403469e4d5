"""Every label of the paper: its printed number, where it stands, and one line of meaning.

The paper is V. Cabannes, B. Simsek, A. Bietti, "Learning Associative Memories with Gradient
Descent", ICML 2024. Docstrings cite these labels; numbers are counted from its source.
"""

from typing import NamedTuple

FIGURES = ("fig1", "fig2", "fig3", "fig4", "fig5", "fig6", "fig7")
SCALES = ("tiny", "quick", "medium", "paper")  # at which they can be made again


class Entry(NamedTuple):
    number: str
    section: str
    meaning: str


LABELS: dict[str, Entry] = {
    "eq:model": Entry("(1)", "1", "the memory: argmax over y of <u_y, W e_x>"),
    "eq:obj": Entry("(2)", "1", "the objective: the expected cross-entropy"),
    "eq:loss": Entry("(3)", "1", "the cross-entropy of one association"),
    "pb": Entry("Problem 1", "1", "understand the training dynamics of the model"),
    "eq:GF": Entry("(4)", "2", "gradient flow"),
    "eq:GD": Entry("(5)", "2", "gradient descent"),
    "eq:SGF": Entry("(6)", "2", "stochastic gradient flow"),
    "eq:SGD": Entry("(7)", "2", "stochastic gradient descent"),
    "eq:model-prob": Entry("(8)", "3", "the model's recall probabilities"),
    "eq:grad": Entry("(9)", "3", "the gradient of one token's loss"),
    "thm:inter": Entry("Theorem 1", "3", "gradient dynamics are interacting particles"),
    "eq:particles": Entry("(10)", "3", "the particle: the score of a pair of tokens"),
    "eq:correlation": Entry("(11)", "3", "input correlations alpha and output gaps beta"),
    "eq:interaction": Entry("(12)", "3", "gradient descent in particle form"),
    "eq:margin": Entry("(13)", "3", "the margin of a token against each class"),
    "thm:ortho-bin": Entry("Theorem 2", "4.1", "two classes, orthogonal inputs"),
    "eq:dyn-bin": Entry("(15)", "4.1", "the exact margin under gradient flow"),
    "thm:multi": Entry("Theorem 3", "4.1", "many classes, orthonormal embeddings"),
    "eq:lim-bin": Entry("", "4.1", "the limit direction of the weights"),
    "fig:level": Entry("Figure 1", "4.2", "level lines of the loss for two tokens"),
    "eq:correlation-binary": Entry("(16)", "4.2", "two unit inputs with correlation alpha"),
    "eq:two-descent": Entry("(17)", "4.2", "the two margins under gradient descent"),
    "fig:translate": Entry("Figure 2", "4.2", "loss spikes at a large learning rate"),
    "eq:two-input": Entry("(19)", "4.2", "the flow of the half-gap and half-sum of margins"),
    "thm:two-flow": Entry("Theorem 4", "4.2", "two particles interacting"),
    "thm:spike": Entry("Proposition 1", "4.2", "loss spikes after one step"),
    "eq:spike": Entry("(20)", "4.2", "lower bound on the loss after one step"),
    "fig:bin-int": Entry("Figure 3", "4.2", "steps needed to reach perfect accuracy"),
    "eq:fig-cor": Entry("(21)", "4.3", "the coordinates of the plane for d = M = 2"),
    "fig:forgetting": Entry("Figure 4", "4.3", "forgetting with limited capacity"),
    "fig:sharpness": Entry("Figure 5", "4.3", "sharpness along descent"),
    "fig:margins_N5": Entry("Figure 6", "5.2", "margins of five tokens in three dimensions"),
    "sub:transformer": Entry("Section 5.3", "5.3", "the simplified transformer"),
    "fig:transformer": Entry("Figure 7", "5.3", "training selected transformer layers"),
    "app:derivative": Entry("Appendix A", "A", "gradient and Hessian derivations"),
    "eq:hess_der1": Entry("(24)", "A", "the Hessian through the gradient of probabilities"),
    "eq:hess_der2": Entry("(25)", "A", "the gradient of the recall probabilities"),
    "eq:hess": Entry("(26)", "A", "the Hessian of one token's loss"),
    "app:dyn-ortho": Entry("Appendix B", "B", "dynamics without interference"),
    "eq:ortho-dyn-tmp1": Entry("(27)", "B", "the decoupled gradient for orthogonal inputs"),
    "proof:bin-ortho": Entry("Appendix B.1", "B.1", "proof for two classes"),
    "eq:binary-update": Entry("(28)", "B.1", "one descent step of a margin"),
    "proof:ortho": Entry("Appendix B.2", "B.2", "proof for many classes"),
    "app:two-tokens-interference": Entry("Appendix C.1", "C.1", "proof for two particles"),
    "eq:gamma1-ode": Entry("(32)", "C.1", "flow of the half-gap of margins"),
    "eq:gamma2-ode": Entry("(33)", "C.1", "flow of the half-sum of margins"),
    "eq:cgamma": Entry("(34)", "C.1", "the threshold at which the half-gap turns"),
    "eq:gamma1-delta": Entry("(35)", "C.1", "descent increment of the half-gap"),
    "eq:gamma2-delta": Entry("(36)", "C.1", "descent increment of the half-sum"),
    "proof:spike": Entry("Appendix C.2", "C.2", "proof of the loss spike"),
    "sub:appx_transformer": Entry("Appendix D", "D", "the transformer experiments"),
}
