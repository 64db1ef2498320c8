"""What could not be written down is kept until it can be."""

from collections.abc import Callable

from coordinator.accounts import with_unwritten
from coordinator.audit import key_of
from coordinator.ledger import SessionReport

Report = Callable[..., SessionReport]


def test_contributions_are_kept_after_their_records_have_gone(report: Report):
    old = [report("a", steps={1: (10, 5.0), 2: (20, 5.0)}), report("b", user="bela", steps={1: (7, 5.0)})]
    unwritten = {key_of(one): one for one in old}
    new = [report("a", steps={2: (20, 5.0), 3: (30, 5.0)}, last_seen=2000.0)]
    found = {one.user: one for one in with_unwritten(new, unwritten)}
    assert [one.step for one in found["asha"].contributions] == [1, 2, 3]
    assert found["asha"].last_seen == 2000.0
    assert found["bela"] == old[1]


def test_where_all_is_written_reports_stay_as_they_are(report: Report):
    one = report("a", steps={1: (10, 5.0)})
    assert list(with_unwritten([one], {})) == [one]


def test_who_claims_the_session_of_another_takes_nothing_from_it(report: Report):
    true, false = report("a", steps={1: (10, 5.0)}), report("a", user="mallory", peer_id="peer-m")
    for reports in ([true, false], [false, true]):
        assert list(with_unwritten(reports, {})) == reports
        assert list(with_unwritten(reports, {key_of(true): true})) == reports
