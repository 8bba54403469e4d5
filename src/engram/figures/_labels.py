"""Names, symbols and units of what figures write, and the attributes that let them be made again."""

import dataclasses
import json
import re
from typing import Any

import xarray as xr

import engram

_DIMS = ("case", "component", "sector", "second", "first", "class")
# name: (meaning, symbol, unit)
_ABOUT = {
    "correlation": ("correlation of the two input embeddings", "alpha", "1"),
    "half_width": ("half the width of the plane shown", "", "1"),
    "learning_rate": ("learning rate", "eta", "1"),
    "step": ("updates made", "t", "updates"),
    "log_odds": ("class imbalance", "log(p_1/p_2)", "nat"),
    "p1": ("frequency of the first token", "p_1", "1"),
    "fine_correlation": ("correlation, fine grid", "alpha", "1"),
    "fine_log_odds": ("class imbalance, fine grid", "log(p_1/p_2)", "nat"),
    "fine_learning_rate": ("learning rate, fine grid", "eta", "1"),
    "token": ("input token, from zero", "x", "1"),
    "seed": ("seed of the authors' draw of the embeddings", "", "1"),
    "draw": ("seed of our draw of the embeddings", "", "1"),
    "num_tokens": ("number of tokens", "N", "1"),
    "num_classes": ("number of classes", "M", "1"),
    "dim": ("dimension of the embeddings", "d", "1"),
    "gamma_1": ("first coordinate of the plane", "(u_1 - u_2)^T W f_1, f_1 = (1, 0)", "1"),
    "gamma_2": ("second coordinate of the plane", "(u_1 - u_2)^T W f_2, f_2 = (0, 1)", "1"),
    "loss": ("cross-entropy", "L(W)", "nat"),
    "error": ("0-1 loss", "L_01(W)", "1"),
    "sharpness": ("largest eigenvalue of the Hessian", "lambda_max", "1"),
    "margins": ("margin of each token", "m_t(x)", "1"),
    "gamma": ("trajectory in the plane", "gamma_i = (u_1 - u_2)^T W_t f_i", "1"),
    "weights": ("memory", "W_t", "1"),
    "sector_begin": ("where a sector begins: angle from the first axis, counter-clockwise", "", "rad"),
    "sector_end": ("angle where it ends, which may exceed 2 pi", "", "rad"),
    "sector_error": ("0-1 loss in the sector", "L_01", "1"),
    "first_perfect": ("first step without error; NaN if not reached", "t", "updates"),
    "perfect_from": ("step from which there is no error any more; NaN if none", "t", "updates"),
    "excess_risk": ("0-1 loss at the loss's minimiser less the least", "E", "1"),
    "error_at_minimiser": ("0-1 loss where the loss is least", "", "1"),
    "least_error": ("least 0-1 loss of any memory", "", "1"),
    "is_separable": ("whether some memory makes no error", "", "1"),
    "minimiser": ("where the loss is least; NaN if at infinity", "gamma*", "1"),
    "least_loss": ("infimum of the loss", "L*", "nat"),
    "direction": ("max-margin direction, where the loss is least at infinity; else NaN", "", "1"),
    "best_direction": ("direction of least 0-1 loss", "", "1"),
    "forgotten": ("whether the minimiser forgets the token", "", "1"),
    "inputs": ("input embeddings, NaN beyond the last token", "e_x", "1"),
    "outputs": ("output embeddings", "u_y", "1"),
    "probs": ("token frequencies", "p(x)", "1"),
    "targets": ("class to recall", "f*(x)", "1"),
    "exponent": ("exponent of Zipf's law", "p(x) ~ x^-a", "1"),
    "setting": ("which random problems", "", "1"),
    "forgetting_rate": ("share of draws that forget the likeliest token", "", "1"),
    "num_unsolved": ("draws whose minimiser was not certified, left out of the share", "", "1"),
    "forgetting_low": ("lower end of its 95 % interval", "", "1"),
    "forgetting_high": ("upper end of its 95 % interval", "", "1"),
    "final_loss": ("loss after the last step", "L(W_T)", "nat"),
    "final_error": ("0-1 loss after the last step", "L_01(W_T)", "1"),
    "sharpness_at_zero": ("sharpness at W = 0", "", "1"),
    "accuracy": ("share of the predictions after a trigger's second coming that are right", "", "1"),
    "margins_wo2": ("margins of W_O^2: from what is read to the token's output", "m_t(i)", "1"),
    "margins_wk2": ("margins of W_K^2: from a trigger to its own key, among the triggers' keys", "", "1"),
    "margins_wk2_all": ("margins of W_K^2 among the keys of all tokens", "", "1"),
    "margins_wk1": ("margins of W_K^1: from a position to the one before, among all", "", "1"),
    "margins_wk1_causal": ("margins of W_K^1 among the positions that attention sees", "", "1"),
    "trigger": ("trigger token", "q", "1"),
    "position": ("position in the sequence, from zero", "t", "1"),
    "query": ("position that looks", "t", "1"),
    "key": ("position that is looked at", "s", "1"),
    "output_share": ("how often a token is what is asked for", "", "1"),
    "plain_final_loss": ("loss after the last step, by the readable model, in float64", "", "nat"),
    "sequence": ("tokens of the sequence shown", "z_t", "1"),
    "is_in_loss": ("whether the loss looks at the position", "", "1"),
    "first": ("attention of the first layer", "a_ts", "1"),
    "second": ("attention of the second layer", "a_ts", "1"),
    "attention_previous": ("attention of the first layer to the position before", "", "1"),
    "attention_induction": ("attention of the second layer to what followed the same token", "", "1"),
    "held_out_loss": ("loss on sequences never trained on", "", "nat"),
    "held_out_accuracy": ("accuracy on sequences never trained on", "", "1"),
    "sharpness_at_minimiser": ("sharpness where the loss is least; NaN if at infinity", "H*", "1"),
}  # fmt: skip


def labelled(data: Any, figure: str, title: str, label: str, settings: Any) -> xr.Dataset:
    """Say what each variable is; what is not in the table above is an error, not an unnamed number."""
    data = data.copy()
    for name in (*data.data_vars, *data.coords):
        stem = re.sub("^((drawn|sgd|plane|alone|same|imbalanced|adam)_)+|_over_.*", "", str(name))
        if stem in _DIMS:
            continue
        stem, _, when = re.fullmatch("(.*?)(_(before|after))?", stem).groups()  # pyright: ignore
        meaning, symbol, unit = _ABOUT[stem]
        meaning += f", {when} training" if when else ""
        data[name].attrs = {"long_name": meaning, "units": unit}
        if symbol:
            data[name].attrs["symbol"] = symbol
    data.attrs = {
        "figure": figure,
        "title": title,
        "label": label,
        "paper": "Cabannes, Simsek, Bietti: Learning Associative Memories with Gradient Descent, ICML 2024",
        "tokens": "counted from zero here, from one in the report",
        "settings": json.dumps(dataclasses.asdict(settings)),
        "engram": engram.__version__,
    }
    return data


def settings_from(text: str, kind: Any) -> Any:
    """The settings that `labelled` wrote."""
    given = json.loads(text)
    if not isinstance(given, dict):
        raise TypeError("they are not named")
    settings = kind(**{name: _as_tuple(value) for name, value in given.items()})
    for field in dataclasses.fields(kind):
        value, like = getattr(settings, field.name), field.default
        if not _fits(value, like):
            raise TypeError(f"{field.name} = {value!r}")
    return settings


def _fits(value: Any, like: Any) -> bool:
    """Whether a value is of the kind of a default; a whole number will do for a float."""
    if isinstance(like, tuple):
        return isinstance(value, tuple) and all(_fits(each, like[0]) for each in value)
    kinds = (int, float) if isinstance(like, float) else (type(like),)
    return isinstance(value, kinds) and not isinstance(value, bool)


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value
