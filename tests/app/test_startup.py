"""How commands start."""

import gc

import pytest

from app.startup import loading_libraries


def test_what_is_loaded_is_not_searched_for_garbage_and_all_that_follows_is() -> None:
    gc.unfreeze()
    try:
        with pytest.raises(ImportError), loading_libraries():
            assert not gc.isenabled()
            raise ImportError
        assert gc.isenabled() and gc.get_freeze_count()
    finally:
        gc.unfreeze()
