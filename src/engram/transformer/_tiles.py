"""Matrix products and transposes for numba: tiles that stay in the processor's registers.

Compiled loops alone reach a third of what a processor can do, and the BLAS that comes with NumPy half of it
on new ones; so the innermost tile is written as vector instructions. Importing this needs numba.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import extending, njit, types
from numba.core import cgutils

from engram.transformer._vectors import pointer_to, splatted, vector_bytes

intrinsic: Any = extending.intrinsic  # its first parameter is filled in by numba
_DEPTH = 128  # of a product at a time: the columns that a tile reads stay in the first-level cache


class Tiles(NamedTuple):
    """Compiled functions for one type of floats.

    Args:
        unit: Sizes of all arrays must be multiples of it.
        block: `block(A, m, n, i, j)`: m x n numbers of an array from row i and column j on, which are the
            first if left out; unlike a slice it compiles to little. It must not outlive the array.
        turned: The same, transposed.
        multiply: `multiply(C, A, B, fresh)`: C = A B, or C += A B, of blocks; rows of B and C are contiguous.
        transpose: `transpose(out, A)`, of blocks with contiguous rows.
    """

    unit: int
    block: Any
    turned: Any
    multiply: Any
    transpose: Any


def make_tiles(dtype: np.dtype) -> Tiles:
    """Compile for this processor."""
    size, has_many = vector_bytes()
    width, rows = size // dtype.itemsize, 8 if has_many else 4
    blocks = _block(is_turned=False), _block(is_turned=True)
    return Tiles(max(width, rows), *blocks, _multiply(rows, width), _transpose(width))


def _load(builder: Any, pointer: Any, offset: Any, vector: ir.VectorType, align: int) -> Any:
    place = builder.bitcast(builder.gep(pointer, [offset]), vector.as_pointer())
    return builder.load(place, align=align)


def _store(builder: Any, value: Any, pointer: Any, offset: Any, align: int) -> None:
    place = builder.bitcast(builder.gep(pointer, [offset]), value.type.as_pointer())
    builder.store(value, place, align=align)


def _shuffle(builder: Any, x: Any, y: Any, lanes: list[int]) -> Any:
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)
    return builder.shuffle_vector(x, y, mask)


@intrinsic
def _pointer(typing: Any, array: Any, offset: Any):
    """Where an element of an array is."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.gep(data, [args[1]])

    return types.CPointer(array.dtype)(array, types.intp), generate


def _block(*, is_turned: bool) -> Any:
    @intrinsic
    def block(typing: Any, A: Any, m: Any, n: Any, i: Any = 0, j: Any = 0):
        view = types.Array(A.dtype, 2, "A")

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array, m_, n_, i_, j_ = args
            out = context.make_array(view)(context, builder)
            whole = context.make_array(A)(context, builder, array)
            size = ir.Constant(ir.IntType(64), A.dtype.bitwidth // 8)
            row = cgutils.unpack_tuple(builder, whole.strides)[0]
            shape, strides = [m_, n_], [row, size]
            if is_turned:
                shape, strides = shape[::-1], strides[::-1]
            out.data = pointer_to(context, builder, A, array, i_, j_)
            out.shape = cgutils.pack_array(builder, shape)
            out.strides = cgutils.pack_array(builder, strides)
            out.nitems, out.itemsize = builder.mul(m_, n_), size
            out.meminfo = cgutils.get_null_value(out.meminfo.type)
            out.parent = cgutils.get_null_value(out.parent.type)
            return out._getvalue()

        return view(A, *[types.intp] * 4), generate

    return block


def _tile(rows: int, vectors: int, width: int) -> Any:
    """C += A B for a tile of C that is held in registers, over all k < depth."""

    @intrinsic
    def tile(
        typing: Any, C: Any, ldc: Any, A: Any, row: Any, column: Any, B: Any, ldb: Any, depth: Any, fresh: Any
    ):  # fmt: skip
        align = C.dtype.bitwidth // 8

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            C_, ldc_, A_, row_, column_, B_, ldb_, depth_, fresh_ = args
            vector = ir.VectorType(context.get_value_type(C.dtype), width)
            number = lambda k: ir.Constant(ir.IntType(64), k)
            zero = ir.Constant(vector, [0.0] * width)
            tiles = [(r, v) for r in range(rows) for v in range(vectors)]
            places = {
                (r, v): builder.add(builder.mul(ldc_, number(r)), number(v * width))
                for r, v in tiles
            }
            steps = [builder.mul(row_, number(r)) for r in range(rows)]
            with builder.if_else(builder.trunc(fresh_, ir.IntType(1))) as (then, otherwise):
                with then:
                    anew = builder.block
                with otherwise:
                    old = {at: _load(builder, C_, places[at], vector, align) for at in tiles}
                    again = builder.block
            begin = {}
            for at in tiles:
                begin[at] = builder.phi(vector)
                begin[at].add_incoming(zero, anew)
                begin[at].add_incoming(old[at], again)
            before = builder.block
            loop = builder.append_basic_block("depth")
            end = builder.append_basic_block("end")
            builder.branch(loop)
            builder.position_at_end(loop)
            k = builder.phi(ir.IntType(64))
            k.add_incoming(number(0), before)
            sums = {at: builder.phi(vector) for at in tiles}
            of_B, of_A = builder.mul(k, ldb_), builder.mul(k, column_)
            loads = [
                _load(builder, B_, builder.add(of_B, number(v * width)), vector, align)
                for v in range(vectors)
            ]
            added = {}
            for r in range(rows):
                factor = builder.load(builder.gep(A_, [builder.add(steps[r], of_A)]))
                factors = splatted(builder, factor, vector)
                for v in range(vectors):
                    part = builder.fmul(factors, loads[v], flags=("contract",))
                    added[r, v] = builder.fadd(part, sums[r, v], flags=("contract",))
            for at in tiles:
                sums[at].add_incoming(begin[at], before)
                sums[at].add_incoming(added[at], loop)
            following = builder.add(k, number(1))
            k.add_incoming(following, loop)
            builder.cbranch(builder.icmp_signed("<", following, depth_), loop, end)
            builder.position_at_end(end)
            for at in tiles:
                _store(builder, added[at], C_, places[at], align)
            return context.get_dummy_value()

        n = types.intp
        return types.void(C, n, A, n, n, B, n, n, types.boolean), generate

    return tile


def _multiply(rows: int, width: int) -> Any:
    wide, narrow = _tile(rows, 2, width), _tile(rows, 1, width)

    @njit(nogil=True, error_model="numpy")
    def multiply(C: Any, A: Any, B: Any, fresh: Any) -> None:
        size = C.itemsize
        ldc, ldb = C.strides[0] // size, B.strides[0] // size
        row, column = A.strides[0] // size, A.strides[1] // size
        m, n = C.shape
        for k in range(0, A.shape[1], _DEPTH):
            depth, is_fresh = min(_DEPTH, A.shape[1] - k), fresh and k == 0
            for j in range(0, n, 2 * width):
                b = _pointer(B, k * ldb + j)
                for i in range(0, m, rows):
                    c, a = _pointer(C, i * ldc + j), _pointer(A, i * row + k * column)
                    if j + 2 * width <= n:
                        wide(c, ldc, a, row, column, b, ldb, depth, is_fresh)
                    else:
                        narrow(c, ldc, a, row, column, b, ldb, depth, is_fresh)

    return multiply


def _transpose(width: int) -> Any:
    """Tiles in registers: at each stage blocks off the diagonal of twice the size change places."""

    @intrinsic
    def turn(typing: Any, out: Any, ldo: Any, A: Any, lda: Any):
        align = out.dtype.bitwidth // 8

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            out_, ldo_, A_, lda_ = args
            vector = ir.VectorType(context.get_value_type(out.dtype), width)
            number = lambda k: ir.Constant(ir.IntType(64), k)
            lines = [
                _load(builder, A_, builder.mul(lda_, number(k)), vector, align)
                for k in range(width)
            ]
            half = 1
            while half < width:
                upper = [j if not j & half else width + j - half for j in range(width)]
                lower = [j + half if not j & half else width + j for j in range(width)]
                for k in range(width):
                    if not k & half:
                        x, y = lines[k], lines[k + half]
                        lines[k] = _shuffle(builder, x, y, upper)
                        lines[k + half] = _shuffle(builder, x, y, lower)
                half *= 2
            for k, line in enumerate(lines):
                _store(builder, line, out_, builder.mul(ldo_, number(k)), align)
            return context.get_dummy_value()

        return types.void(out, types.intp, A, types.intp), generate

    @njit(nogil=True, error_model="numpy")
    def transpose(out: Any, A: Any) -> None:
        size = A.itemsize
        ldo, lda = out.strides[0] // size, A.strides[0] // size
        for i in range(0, A.shape[0], width):
            for j in range(0, A.shape[1], width):
                turn(_pointer(out, j * ldo + i), ldo, _pointer(A, i * lda + j), lda)

    return transpose
