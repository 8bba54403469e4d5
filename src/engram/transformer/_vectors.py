"""Vectors of a processor as a type of numba: loads, stores, arithmetic and exponentials, all lanes at once.

Loops over numbers are turned into such operations by the compiler only if it can show that arrays do not
overlap, which it cannot with many of them; so the kernel says what it means. Importing this needs numba.
"""

import operator
import platform
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import extending, from_dtype, types
from numba.core import cgutils
from numba.extending import models, overload, register_model

intrinsic: Any = extending.intrinsic  # its first parameter is filled in by numba
_CONTRACT = ("contract",)  # a product and a sum may be one instruction


class _Vector(types.Type):
    """So many floats of one type."""

    def __init__(self, dtype: Any, width: int):
        self.dtype, self.width = dtype, width
        super().__init__(f"Vector({dtype}, {width})")


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Any):
        number = manager.lookup(vector.dtype).get_value_type()
        super().__init__(manager, vector, ir.VectorType(number, vector.width))


def vector_bytes() -> tuple[int, bool]:
    """How long this processor's vectors are, and whether it has 32 of them, not 16."""
    features = llvm.get_host_cpu_features()
    is_arm = platform.machine() in ("aarch64", "arm64")
    size = 64 if features.get("avx512f") else 32 if features.get("avx2") else 16
    return size, is_arm or size == 64


def _define(symbol: Any, name: str) -> None:
    """What an operator of Python does with two vectors."""

    @intrinsic
    def compute(typing: Any, x: Any, y: Any):
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, name)(*args, flags=_CONTRACT)

        return x(x, y), generate

    @overload(symbol)
    def of_vectors(x, y):
        if isinstance(x, _Vector) and x == y:
            return lambda x, y: compute(x, y)
        return None


for _symbol, _name in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _define(_symbol, _name)


def _where(comparison: str) -> Any:
    """`where(x, y, a, b)`: a where the comparison of x and y holds, b elsewhere and at NaN."""

    @intrinsic
    def where(typing: Any, x: Any, y: Any, a: Any, b: Any):
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            x, y, a, b = args
            return builder.select(builder.fcmp_ordered(comparison, x, y), a, b)

        return a(x, y, a, b), generate

    return where


where_equal, where_less, where_most = (_where(comparison) for comparison in ("==", "<", "<="))


def pointer_to(context: Any, builder: Any, kind: Any, array: Any, row: Any, column: Any) -> Any:
    """Where an element is, of an array whose rows are contiguous."""
    made = context.make_array(kind)(context, builder, array)
    stride = cgutils.unpack_tuple(builder, made.strides)[0]
    size = ir.Constant(stride.type, kind.dtype.bitwidth // 8)
    lead = builder.sdiv(stride, size)
    return builder.gep(made.data, [builder.add(builder.mul(row, lead), column)])


class Vectors(NamedTuple):
    """Operations for one type of floats."""

    width: int
    load: Any
    store: Any
    splat: Any
    exp: Any


def make_vectors(dtype: np.dtype) -> Vectors:
    """Operations on this processor's vectors."""
    width, number = vector_bytes()[0] // dtype.itemsize, from_dtype(dtype)
    kind = _Vector(number, width)
    n = types.intp

    @intrinsic
    def load(typing: Any, array: Any, row: Any, column: Any):
        """A vector from a row of a contiguous array."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            place = pointer_to(context, builder, signature.args[0], *args)
            vector = context.get_value_type(kind)
            return builder.load(builder.bitcast(place, vector.as_pointer()), align=dtype.itemsize)

        return kind(array, n, n), generate

    @intrinsic
    def store(typing: Any, array: Any, row: Any, column: Any, value: Any):
        """A vector to a row of a contiguous array."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            place = pointer_to(context, builder, signature.args[0], *args[:3])
            place = builder.bitcast(place, args[3].type.as_pointer())
            builder.store(args[3], place, align=dtype.itemsize)
            return context.get_dummy_value()

        return types.void(array, n, n, value), generate

    @intrinsic
    def splat(typing: Any, value: Any):
        """The same number in all lanes."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector = context.get_value_type(kind)
            return splatted(builder, args[0], vector)

        return kind(number), generate

    return Vectors(width, load, store, splat, _exp(dtype, kind))


def splatted(builder: Any, value: Any, vector: Any) -> Any:
    """A vector of one number."""
    blank, zero = ir.Constant(vector, ir.Undefined), ir.Constant(ir.IntType(32), 0)
    first = builder.insert_element(blank, value, zero)
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, blank, lanes)


def _exp(dtype: np.dtype, kind: Any) -> Any:
    """exp(x) = 2**n exp(f) for finite x <= 0 and normal results: n goes into the exponent's bits."""
    is_single = dtype == np.float32
    info, degree = np.finfo(dtype), 7 if is_single else 13
    # ln 2 in two parts; the first has so few digits that n times it is exact.
    high = 0.693359375 if is_single else float(np.float32(np.log(2)))
    low = float(np.log(2)) - high if is_single else -1.904654299957767879e-09

    @intrinsic
    def exp(typing: Any, x: Any):
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            (x,), vector = args, context.get_value_type(kind)
            whole = ir.VectorType(ir.IntType(dtype.itemsize * 8), vector.count)
            real = lambda value: ir.Constant(vector, [float(dtype.type(value))] * vector.count)
            bits = lambda value: ir.Constant(whole, [int(value)] * vector.count)
            add = lambda a, b: builder.fadd(a, b, flags=_CONTRACT)
            times = lambda a, b: builder.fmul(a, b, flags=_CONTRACT)
            n = builder.fptosi(add(times(x, real(1 / np.log(2))), real(-0.5)), whole)
            m = builder.sitofp(n, vector)
            f = add(add(x, times(m, real(-high))), times(m, real(-low)))
            factorials = np.cumprod([1.0, *range(1, degree + 1)])
            value = real(1 / factorials[-1])
            for factorial in factorials[-2::-1]:
                value = add(times(value, f), real(1 / factorial))
            power = builder.shl(builder.add(n, bits(info.maxexp - 1)), bits(info.nmant))
            return builder.fmul(value, builder.bitcast(power, vector))

        return kind(kind), generate

    return exp
