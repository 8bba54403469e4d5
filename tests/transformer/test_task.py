"""The law of the bigram task, by statistics whose error bars are known."""

import numpy as np
import pytest
from scipy import stats

from engram import transformer as tf
from engram._checks import InputError

CONFIG = tf.Config(sequences=3000, seed=11)
RARE = 1e-6  # how unlikely a chance deviation must be to fail


@pytest.fixture(scope="module")
def drawn():
    return tf.bigram_task(CONFIG)


def fits(counts, probs):
    """Whether counts are a likely sample of a law; rare cells are pooled."""
    expected = probs * counts.sum()
    large = expected >= 5
    seen = np.append(counts[large], counts[~large].sum())
    hoped = np.append(expected[large], expected[~large].sum())
    assert counts[probs == 0].sum() == 0
    keep = hoped > 0
    chi2 = ((seen - hoped)[keep] ** 2 / hoped[keep]).sum()
    return stats.chi2.sf(chi2, max(keep.sum() - 1, 1)) > RARE


def test_shakespeares_table():
    law = tf.shakespeare()
    assert len(law.tokens) == 64 == len(set(law.tokens))
    assert law.counts.sum() == 1_299_697
    assert [law.tokens[k] for k in law.most_frequent(5)] == [" ", "e", "t", "o", "a"]
    np.testing.assert_allclose(law.transitions.sum(axis=1), 1)


def test_other_tokens_follow_the_bigram_law(drawn):
    law, triggers = tf.shakespeare(), drawn.triggers[0]
    before, after = drawn.tokens[:, :-1].ravel(), drawn.tokens[:, 1:].ravel()
    for token in range(64):
        follow = np.bincount(after[before == token], minlength=64)
        if token not in triggers and follow.sum() > 50:
            assert fits(follow, law.transitions[token]), law.tokens[token]


def test_first_token_follows_the_unigram_law(drawn):
    assert fits(np.bincount(drawn.tokens[:, 0], minlength=64), tf.shakespeare().unigram)


def test_each_trigger_has_one_output_per_sequence_drawn_uniformly(drawn):
    outputs = []
    for tokens, triggers in zip(drawn.tokens, drawn.triggers, strict=True):
        for trigger in triggers:
            after = tokens[1:][tokens[:-1] == trigger]
            assert len(set(after)) <= 1
            outputs += after[:1].tolist()
    # Those that come are drawn independently of what they are, but for an output that is itself
    # a trigger or leads to one; first outputs are not affected by themselves.
    assert fits(np.bincount(outputs, minlength=64), np.full(64, 1 / 64))


def test_outputs_may_follow_the_bigram_law():
    drawn = tf.bigram_task(tf.Config(sequences=3000, outputs="bigram", num_triggers=1))
    trigger = drawn.triggers[0, 0]
    first = [t[1:][t[:-1] == trigger][:1] for t in drawn.tokens]
    assert fits(
        np.bincount(np.concatenate(first), minlength=64), tf.shakespeare().transitions[trigger]
    )


def test_triggers_drawn_for_each_sequence():
    drawn = tf.bigram_task(tf.Config(sequences=3000, triggers="random", length=20))
    assert all(len(set(row)) == 5 for row in drawn.triggers)
    assert fits(np.bincount(drawn.triggers[:, 0], minlength=64), tf.shakespeare().unigram)


def test_the_loss_looks_where_a_trigger_comes_again(drawn):
    for tokens, triggers, counted, in_loss in zip(
        drawn.tokens[:50], drawn.triggers, drawn.occurrences, drawn.in_loss, strict=False
    ):
        seen = dict.fromkeys(triggers.tolist(), 0)
        for t, token in enumerate(tokens.tolist()):
            if token in seen:
                seen[token] += 1
            assert counted[t] == seen.get(token, 0)
            if t < len(in_loss):
                assert in_loss[t] == (seen.get(token, 0) >= 2)
    mean = drawn.in_loss.sum(axis=1).mean()
    assert 70 < mean < 83  # REFERENCE: about 76


def test_seeds(drawn):
    again = tf.bigram_task(CONFIG)
    np.testing.assert_array_equal(again.tokens, drawn.tokens)
    assert (tf.bigram_task(CONFIG, seed=12).tokens != drawn.tokens).any()


def test_a_user_supplied_corpus(tmp_path):
    text = "abracadabra, añ\nabba" * 7
    path = tmp_path / "corpus.txt"
    path.write_text(text, encoding="utf-8", newline="")
    law = tf.count_bigrams(path)
    assert law.tokens == tuple(sorted(set(text)))
    for a, b in zip(text[:-1], text[1:], strict=True):
        law.counts[law.tokens.index(a), law.tokens.index(b)] -= 1
    assert (law.counts == 0).all()
    config = tf.Config(corpus=str(path), sequences=20, num_triggers=2, vocabulary=3)
    drawn = tf.bigram_task(config)
    assert drawn.num_tokens == 3
    assert drawn.tokens.max() == 2


def test_bad_input_is_named(tmp_path):
    many = tmp_path / "many.txt"
    many.write_text("".join(map(chr, range(32, 400))), encoding="utf-8")
    with pytest.raises(InputError, match="at most 256 different characters, got 368"):
        tf.bigram_task(tf.Config(corpus=str(many)))
    with pytest.raises(InputError, match="`corpus` cannot be read"):
        tf.bigram_task(tf.Config(corpus=str(tmp_path / "none.txt")))
    with pytest.raises(InputError, match="`corpus` cannot be read"):
        tf.bigram_task(tf.Config(corpus="a\0b"))
    with pytest.raises(InputError, match="`corpus` cannot be read: '/dev/zero' .not a file."):
        tf.bigram_task(tf.Config(corpus="/dev/zero"))
    with pytest.raises(InputError, match="`vocabulary` must be at most 64"):
        tf.bigram_task(tf.Config(vocabulary=65))
    with pytest.raises(InputError, match="`num_triggers` must be at most 64"):
        tf.bigram_task(tf.Config(num_triggers=65))
    with pytest.raises(InputError, match="`matrices` must name some of wo2, wk2, wk1, each once"):
        tf.Config(matrices=("wo2", "wo2"))
