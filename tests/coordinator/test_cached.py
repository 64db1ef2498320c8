"""Values that are found at most once in some seconds."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from coordinator.cached import Cached
from tests.support.waiting import PATIENCE


def test_while_one_thread_finds_an_answer_others_get_the_last_one() -> None:
    entered, go_on, found = threading.Event(), threading.Event(), [0]

    def find() -> int:
        found[0] += 1
        entered.set()
        go_on.wait(PATIENCE)
        return found[0]

    now = [0.0]
    answer = Cached(find, 5.0, clock=lambda: now[0])
    with ThreadPoolExecutor() as pool:
        first = [pool.submit(answer) for _ in range(3)]
        assert entered.wait(PATIENCE)
        time.sleep(0.05)
        go_on.set()
        assert [one.result() for one in first] == [1, 1, 1]
        now[0] = 5.0
        entered.clear()
        go_on.clear()
        second = pool.submit(answer)
        assert entered.wait(PATIENCE)
        assert answer() == 1
        go_on.set()
        assert second.result() == answer() == 2
