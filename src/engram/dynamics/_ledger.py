"""Ledger: what may happen at any step, in a fixed buffer that the host empties as it fills."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int

from engram._types import Array, PyTree

# Rows of a page. XLA makes one function of a loop that touches little memory (1 KB), several times as fast as
# one that it runs piece by piece: so a few steps write to a page, which is then put into the book.
PAGE = 4
MOST_ENTRIES = 2**20  # kept of a ledger in a run; the rest is counted


class Ledger(eqx.Module):
    """Rows in the order in which they came; one at a step, at most.

    All that come are counted. Those beyond the capacity are not kept. Whoever takes steps puts the page into
    the book every so often (`filed`); `advance` does.

    Args:
        book: A pytree of arrays with one row each.
        count: How many rows were put into the book.
        page: The rows since.
        on_page: How many there are on it.
        read: From rows to what is kept of them, as a pytree of arrays with a leading axis; on the host.
    """

    book: PyTree
    count: Int[Array, "*lanes"]
    page: PyTree
    on_page: Int[Array, "*lanes"]
    read: Callable[[PyTree], PyTree] = eqx.field(static=True)

    @property
    def capacity(self) -> int:
        return len(jax.tree.leaves(self.book)[0]) - PAGE

    def put(self, comes: Bool[Array, ""], row: PyTree) -> "Ledger":
        """Add a row, if it comes."""
        # Written in any case, which is cheaper than to ask: the next one is written over it.
        write = lambda page, one: jax.lax.dynamic_update_index_in_dim(page, one, self.on_page, 0)
        page = jax.tree.map(write, self.page, row)
        return dataclasses.replace(self, page=page, on_page=self.on_page + comes)

    def filed(self) -> "Ledger":
        """With its page put into the book."""
        place = jnp.minimum(self.count, self.capacity)
        write = lambda book, page: jax.lax.dynamic_update_slice_in_dim(book, page, place, 0)
        book = jax.tree.map(write, self.book, self.page)
        count, none = self.count + self.on_page, jnp.zeros_like(self.on_page)
        return dataclasses.replace(self, book=book, count=count, on_page=none)

    def emptied(self) -> "Ledger":
        """Without its rows."""
        return dataclasses.replace(self, count=jnp.zeros_like(self.count))

    def entries(self) -> PyTree:
        """What is kept of the rows that came; on the host."""
        end = min(int(self.count), self.capacity)
        return self.read(jax.tree.map(lambda book: np.array(book[:end]), self.book))


class Entries(eqx.Module):
    """What was kept of a ledger that was emptied on the way."""

    values: Any

    def entries(self) -> PyTree:
        return self.values


def empty_ledger(
    capacity: int, row: PyTree, read: Callable[[PyTree], PyTree] = lambda rows: rows
) -> Ledger:
    """A ledger for so many rows like this one."""
    blank = lambda count: jax.tree.map(
        lambda one: jnp.zeros((count, *jnp.shape(one)), jnp.asarray(one).dtype), row
    )
    zero = jnp.zeros((), int)
    return Ledger(blank(capacity + PAGE), zero, blank(PAGE), zero, read)


def is_ledger(part: Any) -> bool:
    return isinstance(part, Ledger)


def ledgers_of(tree: PyTree) -> list[Ledger]:
    """All ledgers in a pytree."""
    return [part for part in jax.tree.leaves(tree, is_leaf=is_ledger) if is_ledger(part)]


def with_ledgers(tree: PyTree, change: Callable[[Ledger], Any]) -> Any:
    """A pytree with each of its ledgers changed."""
    return jax.tree.map(lambda x: change(x) if is_ledger(x) else x, tree, is_leaf=is_ledger)


def filed(tree: PyTree) -> PyTree:
    """A pytree with the pages of its ledgers put into their books."""
    return with_ledgers(tree, Ledger.filed)


def with_capacity(tree: PyTree, capacity: int) -> PyTree:
    """A pytree whose ledgers are empty and have another capacity."""
    row = lambda ledger: jax.tree.map(lambda page: page[0], ledger.page)
    return with_ledgers(tree, lambda ledger: empty_ledger(capacity, row(ledger), ledger.read))


def without_books(tree: PyTree) -> tuple[Any, Callable[[Any], Any]]:
    """A pytree whose ledgers have no books, for loops that write to pages alone; and what gives them back."""
    books = [ledger.book for ledger in ledgers_of(tree)]
    bare = with_ledgers(tree, lambda ledger: dataclasses.replace(ledger, book=None))

    def restored(tree: PyTree) -> PyTree:
        rest = iter(books)
        return with_ledgers(tree, lambda ledger: dataclasses.replace(ledger, book=next(rest)))

    return bare, restored


def has_room(tree: PyTree, steps: int) -> Any:
    """Whether all ledgers of a pytree have room for what may come in so many steps."""
    rooms = [ledger.count + steps <= ledger.capacity for ledger in ledgers_of(tree)]
    return functools.reduce(jnp.logical_and, rooms, jnp.ones((), bool))


def chosen(is_first: Array, first: Any, second: Any) -> Any:
    """The one pytree or the other; of ledgers the rows of the first, since none beyond the count matters."""

    def choose(a: Any, b: Any) -> Any:
        if is_ledger(a):
            count, on_page = choose(a.count, b.count), choose(a.on_page, b.on_page)
            return dataclasses.replace(a, count=count, on_page=on_page)
        return jnp.where(is_first, a, b)

    return jax.tree.map(choose, first, second, is_leaf=is_ledger)


class Drained:
    """What was taken out of the ledgers of a run, as far as there is room on the host."""

    def __init__(self) -> None:
        self._parts: list[list[Any]] = []
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether no more is kept; what comes is counted by the fold itself."""
        return self._count >= MOST_ENTRIES

    def take(self, tree: PyTree) -> PyTree:
        """Take out what the ledgers of a pytree hold, if one is half full; return it with empty ones."""
        ledgers = ledgers_of(tree)
        if not any(2 * int(ledger.count) > ledger.capacity for ledger in ledgers):
            return tree
        empty = with_ledgers(tree, Ledger.emptied)
        if not self.is_full:
            parts = [ledger.entries() for ledger in ledgers]
            self._count += max(map(len, jax.tree.leaves(parts)), default=0)
            self._parts.append(parts)
        return empty

    def restored(self, tree: PyTree) -> PyTree:
        """The pytree with all that was taken out in the place of its ledgers; on the host."""
        self._parts.append([ledger.entries() for ledger in ledgers_of(tree)])
        whole = zip(*self._parts, strict=True)
        joined = lambda *parts: np.concatenate(parts)[:MOST_ENTRIES]
        return with_ledgers(tree, lambda _: Entries(jax.tree.map(joined, *next(whole))))
