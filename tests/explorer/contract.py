"""What the page does with a payload."""

import json
import math

import numpy as np


def unpack(payload):
    """The header and the arrays of a payload: the inverse of `payloads.pack`."""
    size = int.from_bytes(payload[:4], "little")
    header = json.loads(payload[4 : 4 + size])
    arrays = {}
    for name, (shape, place) in header.pop("arrays").items():
        flat = np.frombuffer(payload, "<f8", math.prod(shape), 4 + size + place)
        arrays[name] = flat.reshape(shape)
    return header, arrays
