"""The end of a trainer's experts while the DHT does not answer."""

import threading
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from swarm.run_file import ExpertsSection, RunFile
from trainer import experts
from trainer.experts import open_experts


def test_the_connection_to_libp2p_is_closed_although_a_look_into_the_dht_does_not_end(
    run: RunFile, monkeypatch: pytest.MonkeyPatch
):
    looks, answered, closed = threading.Event(), threading.Event(), threading.Event()

    async def shutdown() -> None:
        closed.set()

    async def joined(_dht: object) -> SimpleNamespace:
        return SimpleNamespace(shutdown=shutdown)

    def read() -> list[object]:
        looks.set()
        answered.wait(60.0)
        return []

    monkeypatch.setattr(experts, "join_daemon", joined)
    monkeypatch.setattr(experts, "CLOSING", 2.0)
    monkeypatch.setattr(experts, "Directory", Mock(return_value=Mock(read=read)))
    reached = open_experts(run.model_copy(update={"experts": ExpertsSection()}), "0123abcd", Mock(), Mock())
    assert reached is not None
    try:
        assert looks.wait(60.0)
        reached.close()
        assert closed.is_set()
    finally:
        answered.set()
