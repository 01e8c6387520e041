"""Random damage to files, for studies and tests of readers."""

from __future__ import annotations

from random import Random


def mutated(random: Random, content: bytes) -> bytes:
    """Return a file with a few random changes: bits, bytes, numbers, and bytes left out or repeated."""
    data = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        at = random.randrange(len(data) + 1)
        size = random.randrange(1, 32)
        match random.randrange(5):
            case 0:
                data[at : at + 1] = bytes(byte ^ 1 << random.randrange(8) for byte in data[at : at + 1])
            case 1:
                data[at : at + 1] = random.choice((b"\0", b"\1", b"\x7f", b"\x80", b"\xff", b"\r", b'"', b"["))
            case 2:
                number = (1 << random.randrange(63)).to_bytes(8, "little")
                data[at : at + 8] = random.choice((bytes(8), b"\xff" * 8, number, random.randbytes(8)))
            case 3:
                del data[at : at + size]
            case _:
                data[at:at] = data[at : at + size]
    return bytes(data)
