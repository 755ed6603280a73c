"""What publisher and agent send each other; firmware/transport.c has the same layout."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

MAGIC = 0x524C
PING, PONG, DATA, END, BYE = 1, 2, 3, 4, 5
NOTHING = -(2**63)
"""In place of a time: there is none."""


@dataclass(frozen=True)
class Frame:
    """A frame without its payload; times in ns of the sender's clock.

    Attributes
    ----------
    stamp
        PING: when it was sent; PONG: when the ping arrived.
    previous
        PING, BYE: when the answer to the ping before arrived; PONG: when it was sent.
    round_trip_ns, round_trip_uncertainty_ns
        PING, BYE: of the exchange before, on a stopwatch apart from the clock.
    sequence
        Of a ping; END: how many messages were sent.
    length
        Bytes of payload; END: of the messages that have ended.
    """

    kind: int
    sequence: int
    stamp: int = 0
    previous: int = NOTHING
    round_trip_ns: int = 0
    round_trip_uncertainty_ns: int = 0
    length: int = 0

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<HBBIqqIIH")

    def pack(self) -> bytes:
        """As bytes."""
        return self.LAYOUT.pack(
            MAGIC,
            self.kind,
            0,
            self.sequence,
            self.stamp,
            self.previous,
            min(self.round_trip_ns, 2**32 - 1),
            min(self.round_trip_uncertainty_ns, 2**32 - 1),
            self.length,
        )

    @classmethod
    def unpack(cls, data: bytes) -> Frame:
        """From the first bytes of a message.

        Raises
        ------
        ValueError
            They are no frame.
        """
        if len(data) < cls.LAYOUT.size:
            raise ValueError(f"{len(data)} bytes are no frame")
        magic, kind, _, *rest = cls.LAYOUT.unpack_from(data)
        if magic != MAGIC:
            raise ValueError(f"a frame begins with {MAGIC:#x}, not {magic:#x}")
        return cls(kind, *rest)

    @property
    def payload_bytes(self) -> int:
        """Bytes that follow on a stream."""
        return 0 if self.kind in (END, BYE, PONG) else self.length
