"""Routers between homes and the network of `hosts.py`: network namespaces that translate addresses with iptables.

Linux keeps a port where it can, so a plain `MASQUERADE` is a port-restricted NAT: it lets in what comes from an address
and port that something was sent to, and all that a port sends is seen at one port outside. The others are made of it:

- full cone: what comes to the router goes to the one host behind it, from any sender (`DNAT`);
- restricted: the same for hosts that something was sent to in the last two minutes, from any port (`recent`);
- symmetric: each connection is seen at another port outside (`--random-fully`).

The router itself answers nothing, as those that are sold do: an answer would close the hole that a call has made.
"""

from enum import Enum

HELD = 120  # seconds for which a restricted NAT lets in what comes from where something was sent to


class Nat(str, Enum):
    """What a router does with what comes from outside; names of RFC 3489."""

    FULL_CONE = "full cone"
    RESTRICTED = "restricted"
    PORT_RESTRICTED = "port-restricted"
    SYMMETRIC = "symmetric"


def rules(kind: Nat, host: str) -> list[str]:
    """Arguments of `iptables`. `host`: that behind the router; its devices are `eth0` outside and `home` inside."""
    masquerade = "-t nat -A POSTROUTING -o eth0 -j MASQUERADE"
    forward = f"-j DNAT --to-destination {host}"
    no_stranger = "-A FORWARD -i eth0 -m conntrack --ctstate NEW -j DROP"
    return [
        "-P INPUT DROP",
        *{
            Nat.FULL_CONE: [masquerade, f"-t nat -A PREROUTING -i eth0 {forward}"],
            Nat.RESTRICTED: [
                masquerade,
                "-A FORWARD -i home -m recent --name called --rdest --set -j ACCEPT",
                f"-t nat -A PREROUTING -i eth0 -m recent --name called --rsource --rcheck --seconds {HELD} {forward}",
            ],
            Nat.PORT_RESTRICTED: [masquerade, no_stranger],
            Nat.SYMMETRIC: [f"{masquerade} --random-fully", no_stranger],
        }[kind],
    ]
