"""Inputs that are nearly right: bytes and JSON data, changed in the ways that readers get wrong."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

NUMBERS = (0, 1, 2, 7, 127, 255, 2**15, 2**16 - 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**63,
           2**64 - 1)
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 4, 16, 2**31, 2**32, 2**62, 2**63, -(2**63), 2**64, 10**30, 0.0, 0.5, 1.5, -0.0,
    1e-320, 1e308, float("nan"), float("inf"), float("-inf"), "", "x", "0", "1", "a" * 300, "é\u0000", "\ud800",
    "../../etc/passwd", "__class__", [], {}, [[]], [0], [-1], [1] * 100, {"": 0}, {"__reduce__": []},
)
BOMBS = (b"[" * 5000, b'{"a":' * 5000, b"9" * 6000, b"[" + b"2147483647," * 2000 + b"1]",
         b'"' + b"\\ud800" * 500 + b'"')


class Mutator:
    """A source of changed inputs, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def maybe(self, chance: float) -> bool:
        """True that often."""
        return self.random.random() < chance

    def bytes(self, data: bytes, others: Sequence[bytes] = ()) -> bytes:
        """`data` after one to four changes; with `others`, sometimes the half of one of them."""
        changed = bytearray(data)
        for _ in range(self.random.choice((1, 1, 1, 2, 4))):
            changed = self._changed(changed, others)
        return bytes(changed)

    def _changed(self, data: bytearray, others: Sequence[bytes]) -> bytearray:
        random, size = self.random, len(data)
        at = random.randrange(size + 1)
        match random.randrange(9):
            case 0 if size:
                data[at % size] ^= 1 << random.randrange(8)
            case 1 if size:
                data[at % size] = random.randrange(256)
            case 2:
                data[at:at] = random.randbytes(random.choice((1, 2, 4, 8, 64)))
            case 3:
                del data[at : at + random.choice((1, 2, 4, 8, 64))]
            case 4:
                return data[:at]
            case 5:
                width = random.choice((1, 2, 4, 8))
                data[at : at + width] = (random.choice(NUMBERS) % 256**width).to_bytes(width, "little")
            case 6:
                data += data[at:] or b"\0"
            case 7 if others:
                other = random.choice(others)
                return data[:at] + other[random.randrange(len(other) + 1):]
            case _:
                data += random.randbytes(random.randrange(1, 9))
        return data

    def json(self, value: Any) -> Any:
        """`value` with one to three of its parts replaced, removed, repeated or added."""
        holder = [deepcopy(value)]
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            self._change_part(holder)
        return holder[0]

    def _change_part(self, holder: Any) -> None:
        random = self.random
        while True:  # down to some part
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            if not keys:
                return
            key = random.choice(keys)
            if not (isinstance(holder[key], dict | list) and holder[key]) or self.maybe(0.15):
                break
            holder = holder[key]
        match random.randrange(10):
            case 0 if isinstance(holder, dict):
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[random.choice(("extra", "", "protocol", "__class__", "self"))] = self.value()
            case 2 if isinstance(holder, list):
                holder.append(deepcopy(holder[key]))
            case 3:
                holder[key] = [holder[key]]
            case 4 if type(holder[key]) in (int, float):
                one = holder[key]
                holder[key] = random.choice((one + 1, one - 1, -one, one + 0.5, str(one)))
            case _:
                holder[key] = self.value()

    def value(self) -> Any:
        """Anything that JSON can hold."""
        return deepcopy(self.random.choice(VALUES))

    def json_bytes(self, value: Any) -> bytes:
        """`value` as JSON; mostly changed as data, sometimes as bytes, now and then another thing altogether."""
        chance = self.random.random()
        if chance < 0.01:
            return self.random.choice(BOMBS)
        if chance < 0.02:
            return json.dumps(self.value()).encode()
        text = json.dumps(self.json(value) if chance < 0.8 else value).encode()
        return self.bytes(text) if chance > 0.7 else text
