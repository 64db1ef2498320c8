"""Messages with every field filled in, made from the type hints of their classes."""

import hashlib
import random
import types
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from averaging.log.packing import Packed
from averaging.protocol.messages import Message
from averaging.transport.wire_format import DIGESTS, SESSIONS

KINDS = Message.__subclasses__()
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def session_of(source: random.Random) -> str:
    return "Qm" + "".join(source.choices(BASE58, k=44)) + f".{source.getrandbits(32):08x}"


def generated(hint: Any, source: random.Random, name: str = "") -> Any:
    """Some value of a type."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (one for one in get_args(hint) if one is not types.NoneType)
        return generated(inner, source, name) if source.random() < 0.7 else None
    if origin is tuple:
        hints = get_args(hint)
        if hints[-1] is Ellipsis:
            hints = (hints[0],) * source.randrange(4)
        items = tuple(generated(one, source, name) for one in hints)
        return tuple(sorted(items, key=lambda reset: reset.step)) if name == "resets" else items
    if isinstance(hint, type) and issubclass(hint, Packed):
        types_of = get_type_hints(hint)
        return hint(*[generated(types_of[name], source, name) for name in hint.__struct_fields__])
    if hint is str:
        return _text(source, name)
    if issubclass(hint, Enum):
        return source.choice(list(hint))
    if hint is bytes:
        return source.randbytes(source.randrange(100))
    return {bool: source.random() < 0.5, int: source.getrandbits(40), float: source.random() * 10}[hint]


def _text(source: random.Random, name: str) -> str:
    if name in DIGESTS:
        return hashlib.sha256(source.randbytes(8)).hexdigest()
    if name in SESSIONS:
        return session_of(source)
    return source.choice(["amina", "~अमीना", "0123abcd", ""])
