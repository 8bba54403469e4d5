"""What a memory can hold, whatever the dynamics: separability and the largest margin."""

from engram.capacity._max_margin import max_margin as max_margin
