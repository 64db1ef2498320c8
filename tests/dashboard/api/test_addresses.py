from dashboard.api.addresses import is_private


def test_the_key_travels_where_nobody_listens() -> None:
    for private in ("https://run.example.org", "http://127.0.0.1:8080", "http://localhost:80", "http://[::1]:8080"):
        assert is_private(private)
    for open_to_all in ("http://run.example.org", "http://192.168.1.2:8080", "http://localhost.evil.org", ""):
        assert not is_private(open_to_all)
