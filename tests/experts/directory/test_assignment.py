"""Who has which expert, by the same rules on every host; and that they agree after any course of events."""

import random

from experts.directory.assignment import Holdings, assign, at_least, not_taken_over, servers, successors
from experts.grid import Uid, all_uids

GRID = (2, 4)
ALL = frozenset(all_uids(GRID))
A, B = (0, 0), (0, 1)


def test_most_steps_serve_and_of_equals_always_the_same():
    hosts = [Holdings("x", {A: 5, B: 1}), Holdings("y", {A: 4, B: 1})]
    assert servers(hosts)[A] == "x"
    assert servers(hosts) == servers(hosts[::-1])


def test_the_newest_copy_succeeds_when_nobody_serves():
    hosts = [Holdings("x", copies={A: 5}), Holdings("y", copies={A: 7}), Holdings("z", serves={B: 3}, copies={})]
    assert successors(hosts) == {A: "y"}


def test_a_copy_with_more_steps_than_what_is_served_comes_back():
    """Its host was away, and another one has begun with the seed."""
    assert successors([Holdings("x", serves={A: 3}), Holdings("y", copies={A: 900})]) == {A: "y"}
    assert successors([Holdings("x", serves={A: 900}), Holdings("y", copies={A: 900})]) == {}


def test_a_copy_that_is_newer_than_its_hosts_record_is_no_reason_to_take_over():
    record = Holdings("x", serves={A: 100})
    copy = Holdings("y", copies={A: 150})
    assert assign(copy, [record], GRID, 1).serves == {A}
    assert A not in assign(copy, at_least([record], {("x", A): 150}), GRID, 1).serves


def test_the_first_host_serves_what_it_has_room_for():
    assert assign(Holdings("x"), [], GRID, 20).serves == ALL
    assert len(assign(Holdings("x"), [], GRID, 3).serves) == 3


def test_the_second_host_takes_what_nobody_has_then_copies():
    first = Holdings("x", serves=dict.fromkeys(ALL - {A, B}, 10))
    second = assign(Holdings("y"), [first], GRID, 5)
    assert second.serves == {A, B}
    assert len(second.copies) == 3
    assert second.copies <= first.serves.keys()


def test_a_third_host_copies_what_nobody_copies():
    first = Holdings("x", serves=dict.fromkeys(ALL, 10))
    second = Holdings("y", copies=dict.fromkeys(ALL - {A, B}, 10))
    assert assign(Holdings("z"), [first, second], GRID, 2).copies == {A, B}


def test_who_gives_way_becomes_the_standby():
    own = Holdings("y", serves={A: 3})
    assert assign(own, [Holdings("x", serves={A: 9})], (1, 1), 4).copies == {A}


def test_after_a_restart_of_everything_nothing_begins_anew():
    """Each host finds its files, whichever looks first."""
    x = Holdings("x", copies=dict.fromkeys(ALL, 50))
    y = Holdings("y", copies={A: 70})
    assert A not in assign(x, [y], GRID, 8).serves
    assert assign(y, [x], GRID, 8).serves == {A}
    alone = assign(x, [], GRID, 8)
    assert alone.serves == ALL
    early = Holdings("x", serves=dict.fromkeys(ALL, 50))
    assert A in assign(y, [early], GRID, 8).serves


def test_for_a_host_that_leaves_somebody_goes_on_with_its_last_state_and_not_before():
    leaving = Holdings("x", serves={A: 9, B: 9}, leaves=True)
    standby = Holdings("y", copies={A: 7, B: 9})
    assert successors([leaving, standby]) == {B: "y"}
    assert assign(standby, [leaving], (1, 2), 2).serves == {B}
    assert not_taken_over(leaving, [standby]) == {A, B}
    for version in (9, 12):
        taken = Holdings("y", serves={A: version, B: version})
        assert not_taken_over(leaving, [taken]) == set()
        assert assign(taken, [leaving], (1, 2), 2).serves == {A, B}, "one that leaves has no claim"


def test_a_host_with_room_begins_to_copy_what_a_host_that_leaves_has_and_takes_none_from_the_seed():
    leaving = Holdings("x", serves={A: 9, B: 0}, leaves=True)
    to_have = assign(Holdings("y"), [leaving], (1, 2), 2)
    assert (to_have.serves, to_have.copies) == (frozenset(), {A, B})
    assert not_taken_over(leaving, [Holdings("y")]) == set(), "nobody is waited for who has no copy"
    assert not_taken_over(leaving, [Holdings("y", copies={A: 9}, leaves=True)]) == set(), "nor one that leaves, too"


class Swarm:
    """Hosts that apply the rules one after the other, each with what it can read: all, but for those that are gone."""

    def __init__(self, seed: int):
        self.chance = random.Random(seed)
        self.hosts: dict[str, Holdings] = {}
        self.capacity: dict[str, int] = {}

    def join(self, name: str, capacity: int) -> None:
        self.hosts[name], self.capacity[name] = Holdings(name), capacity

    def look(self, name: str, others: list[Holdings] | None = None) -> None:
        own = self.hosts[name]
        others = [host for host in self.hosts.values() if host.peer != name] if others is None else others
        to_have = assign(own, others, GRID, self.capacity[name])
        newest: dict[Uid, int] = {}
        for host in (own, *others):
            for uid, version in (*host.serves.items(), *host.copies.items()):
                newest[uid] = max(newest.get(uid, 0), version)
        assert len(to_have.serves) + len(to_have.copies) <= self.capacity[name]
        self.hosts[name] = Holdings(
            name,
            {uid: own.serves.get(uid, own.copies.get(uid, 0)) for uid in to_have.serves},
            {uid: newest[uid] for uid in to_have.copies},
        )

    def settle(self) -> None:
        """Some rounds of looks in random order; then nothing changes any more."""
        for _ in range(6):
            for name in self.chance.sample(list(self.hosts), len(self.hosts)):
                self.look(name)
        before = dict(self.hosts)
        for name in self.hosts:
            self.look(name)
        assert self.hosts == before

    def served(self) -> list[Uid]:
        return sorted(uid for host in self.hosts.values() for uid in host.serves)

    def copied(self) -> set[Uid]:
        return {uid for host in self.hosts.values() for uid in host.copies}


def test_every_expert_has_one_that_serves_and_one_that_copies_after_any_course():
    for seed in range(60):
        swarm = Swarm(seed)
        for number in range(4):
            swarm.join(f"host{number}", 6)
        if seed % 2:  # all of them at once: none sees the others
            for name in list(swarm.hosts):
                swarm.look(name, [])
        swarm.settle()
        assert swarm.served() == sorted(ALL), f"seed {seed}"
        assert swarm.copied() == ALL, f"seed {seed}"
        trained = {
            name: Holdings(name, dict.fromkeys(host.serves, 40), dict.fromkeys(host.copies, 30))
            for name, host in swarm.hosts.items()
        }
        swarm.hosts = trained
        gone = swarm.chance.choice(list(swarm.hosts))
        del swarm.hosts[gone]
        swarm.settle()
        assert swarm.served() == sorted(ALL), f"seed {seed}"
        assert swarm.copied() == ALL, f"seed {seed}"
        assert all(version >= 30 for host in swarm.hosts.values() for version in host.serves.values()), f"seed {seed}"


def test_hosts_that_look_at_the_same_moment_agree_in_the_end():
    """The worst case: all read the records of the last look, and write theirs together."""
    for seed in range(30):
        swarm = Swarm(seed)
        for number in range(3):
            swarm.join(f"host{seed}-{number}", 8)
        for _ in range(12):
            before = dict(swarm.hosts)
            for name in before:
                swarm.look(name, [host for host in before.values() if host.peer != name])
        assert swarm.served() == sorted(ALL), f"seed {seed}"
        assert swarm.copied() == ALL, f"seed {seed}"
