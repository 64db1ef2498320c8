"""Notices are published again and again, whatever becomes of the coordinator's disk."""

import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from coordinator.access import authority
from coordinator.access.authority import keep_publishing, open_access_control
from swarm.errors import StorageError
from swarm.identity import load_identity
from tests.support.waiting import PATIENCE


def test_a_full_disk_ends_no_publications(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    identity = load_identity(tmp_path / "identity.key")
    access = open_access_control("run", tmp_path, identity, 3600.0)
    monkeypatch.setattr(access.gate, "take_notice", Mock(side_effect=StorageError("the disk is full")))
    monkeypatch.setattr(authority, "POLL_EVERY", 0.01)
    monkeypatch.setattr(authority, "PUBLISH_EVERY", 0.0)
    stored, stop = threading.Semaphore(0), threading.Event()
    dht = Mock(store=lambda **what: stored.release())
    thread = threading.Thread(target=keep_publishing, args=(access, dht, identity, stop))
    thread.start()
    try:
        assert all(stored.acquire(timeout=PATIENCE) for _ in range(3))
    finally:
        stop.set()
        thread.join()
