"""What tests of the disk begin with."""

from pathlib import Path

import pytest

from tests.averaging.log.course import Course


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """Eight steps."""
    made = Course(tmp_path / "peer")
    for _ in range(8):
        made.add()
    return made
