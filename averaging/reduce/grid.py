"""The fixed grid of chunks over the flat vector of a model; a part is a run of chunks."""

from dataclasses import dataclass

LARGEST_CHUNK = 2**17  # elements: 130 KB in 8 bits, 0.1 s of 10 Mbit/s; larger ones where there would be too many
SMALLEST_CHUNK = 2**12  # elements: a digest weighs nothing beside it
FEWEST_CHUNKS = 8  # where a chunk need not get too small for it, so that some peers can share the work
MOST_CHUNKS = 1024  # a header names each by digest, and a newcomer is given all headers of some fifty steps at once


@dataclass(frozen=True)
class Grid:
    """All peers have the same one: it follows from the number of elements alone."""

    elements: int  # of the vector

    @property
    def chunk_elements(self) -> int:
        """Elements of each chunk but the last, a power of two: whole blocks of any encoding."""
        at_most, at_least = max(1, self.elements // FEWEST_CHUNKS), -(-self.elements // MOST_CHUNKS)
        fitting = min(max(2 ** (at_most.bit_length() - 1), SMALLEST_CHUNK), LARGEST_CHUNK)
        return max(fitting, 2 ** (at_least - 1).bit_length())

    @property
    def count(self) -> int:
        """Chunks."""
        return -(-self.elements // self.chunk_elements)

    def slice(self, chunk: int) -> slice:
        """Where a chunk lies in the vector.

        Raises:
            ValueError: there is no such chunk.
        """
        if not 0 <= chunk < self.count:
            raise ValueError(f"chunk {chunk} is not on the grid of {self.count}")
        begin = chunk * self.chunk_elements
        return slice(begin, min(begin + self.chunk_elements, self.elements))

    def size(self, chunk: int) -> int:
        """Elements of a chunk.

        Raises:
            ValueError: there is no such chunk.
        """
        place = self.slice(chunk)
        return int(place.stop - place.start)
