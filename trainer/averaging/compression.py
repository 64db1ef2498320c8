"""How tensors travel: 8-bit for large ones, float16 for the rest (DeDLOC, section 4.3)."""

from hivemind.compression import (
    CompressionBase,
    Float16Compression,
    NoCompression,
    SizeAdaptiveCompression,
    Uniform8BitQuantization,
)

from trainer.averaging.wire import LARGE_TENSOR, Compression


def gradient_compression(kind: Compression) -> CompressionBase:
    """The compression of gradients on the wire."""
    if kind == "8bit":
        return SizeAdaptiveCompression(
            threshold=LARGE_TENSOR, less=Float16Compression(), greater_equal=Uniform8BitQuantization()
        )
    return state_compression(kind)


def state_compression(kind: Compression) -> CompressionBase:
    """The compression of parameters on the wire: never 8-bit.

    A round gives each peer the mean plus its own rounding error. For gradients that is noise of one
    step; for weights it stays, and 8-bit would move each weight by about 2 % of the layer's spread.
    """
    return NoCompression() if kind == "none" else Float16Compression()
