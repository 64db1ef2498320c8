from dashboard.api.answers import Leader
from dashboard.views.machines import flag
from dashboard.views.overview import notebook_links
from dashboard.views.people import SEEN, last_here


def test_when_somebody_was_here_last_is_one_of_four() -> None:
    def leader(last_seen: float, here: int = 0) -> Leader:
        return Leader(user="asha", samples=1, last_seen=last_seen, sessions_present=here)

    now = 30 * 86_400.0
    assert last_here(leader(now, here=1), now) == SEEN[0]
    assert last_here(leader(now - 3600), now) == SEEN[1]
    assert last_here(leader(now - 3 * 86_400), now) == SEEN[2]
    assert last_here(leader(0), now) == SEEN[3]


def test_flags_are_of_two_letters() -> None:
    assert flag("bd") == "🇧🇩"
    assert flag("<b>") == flag("") == flag("B1") == flag("éé") == ""


def test_a_notebook_opens_in_colab_and_kaggle_where_they_can_reach_it() -> None:
    colab, kaggle = "https://colab.research.google.com", "https://www.kaggle.com"
    github = "https://github.com/org/repo/blob/main/notebooks/join.ipynb"
    assert notebook_links(github) == (
        f"{colab}/github/org/repo/blob/main/notebooks/join.ipynb",
        f"{kaggle}/kernels/welcome?src={github}",
    )
    assert notebook_links("https://huggingface.co/org/model/blob/main/join.ipynb") == (
        f"{colab}/#fileId=https%3A//huggingface.co/org/model/blob/main/join.ipynb",
        f"{kaggle}/kernels/welcome?src=https://huggingface.co/org/model/resolve/main/join.ipynb",
    )
    nowhere = (f"{colab}/#create=true", f"{kaggle}/code/new")
    served = "https://run.example.org/join.ipynb"
    assert notebook_links(served) == (nowhere[0], f"{kaggle}/kernels/welcome?src={served}")
    for other in ("", "javascript:alert(1).ipynb", "https://evil.example/org", "http://127.0.0.1:8080/join.ipynb"):
        assert notebook_links(other) == nowhere
