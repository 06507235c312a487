"""The proxy of ``tests.fakes.faults`` passes everything on until it is told to fail, and then fails as told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.fakes.faults import FaultProxy


class Echo:
    """A server that sends back what it gets and notes it."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.heard = b""
        self.ended = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            with connection:
                while data := connection.recv(1000):
                    self.heard += data
                    connection.sendall(data)
        except OSError:
            pass
        finally:
            self.ended.release()


@pytest.fixture
def echo() -> Iterator[Echo]:
    echo = Echo()
    yield echo
    echo.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[FaultProxy]:
    with FaultProxy(echo.port) as proxy:
        yield proxy


def connected(proxy: FaultProxy) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", proxy.port), timeout=5)
    client.settimeout(5)
    return client


def asked(client: socket.socket, question: bytes) -> bytes:
    client.sendall(question)
    return client.recv(1000)


def asked_once(proxy: FaultProxy, question: bytes) -> bytes:
    with connected(proxy) as client:
        if not (answer := asked(client, question)):
            raise ConnectionError
        return answer


class TestFaultProxy:
    def test_bytes_pass_both_ways(self, proxy: FaultProxy):
        with connected(proxy) as client:
            assert asked(client, b"hello") == b"hello"
            assert asked(client, b"again") == b"again"
        assert proxy.accepted == 1

    def test_a_cut_breaks_what_is_open_and_lets_new_ones_in(self, proxy: FaultProxy):
        with connected(proxy) as client, connected(proxy) as other:
            asked(client, b"1")
            proxy.cut()
            with pytest.raises(ConnectionError):
                asked(client, b"2")
            with pytest.raises(ConnectionError):
                asked(other, b"2")
        with connected(proxy) as client:
            assert asked(client, b"3") == b"3"

    @pytest.mark.parametrize("delivered", [True, False])
    def test_a_cut_at_a_word_happens_once_and_delivers_it_or_not(self, proxy: FaultProxy, echo: Echo, delivered: bool):
        done = proxy.cut_at(b"COMMIT", delivered=delivered)

        with connected(proxy) as client:
            assert asked(client, b"BEGIN") == b"BEGIN"
            with pytest.raises(ConnectionError):
                asked(client, b"x COMMIT y")
        echo.ended.acquire(timeout=5)

        assert done.is_set()
        assert (b"COMMIT" in echo.heard) is delivered
        with connected(proxy) as client:
            assert asked(client, b"COMMIT") == b"COMMIT"

    def test_a_word_is_found_across_two_writes(self, proxy: FaultProxy, echo: Echo):
        proxy.cut_at(b"COMMIT", delivered=False)

        with connected(proxy) as client:
            assert asked(client, b"COM") == b"COM"
            with pytest.raises(ConnectionError):
                asked(client, b"MIT")

    def test_a_cut_can_let_some_through(self, proxy: FaultProxy):
        done = proxy.cut_at(b"X", delivered=False, skip=2)

        with connected(proxy) as client:
            assert asked(client, b"X1") == b"X1"
            assert asked(client, b"X2") == b"X2"
            assert not done.is_set()
            with pytest.raises(ConnectionError):
                asked(client, b"X3")

    def test_a_stall_holds_everything_up_and_loses_nothing(self, proxy: FaultProxy):
        with connected(proxy) as client:
            asked(client, b"1")
            proxy.stall()
            client.settimeout(0.05)
            with pytest.raises(TimeoutError):
                asked(client, b"2")
            proxy.flow()
            client.settimeout(5)
            assert client.recv(1000) == b"2"

    def test_it_refuses_until_accept_is_called(self, proxy: FaultProxy):
        proxy.refuse()
        with pytest.raises(ConnectionError):
            asked_once(proxy, b"1")
        proxy.accept()
        assert asked_once(proxy, b"2") == b"2"

    def test_a_server_that_is_down_breaks_the_connection(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with FaultProxy(port) as proxy, pytest.raises(ConnectionError):
            asked_once(proxy, b"1")

    def test_a_url_is_led_through_it(self, proxy: FaultProxy):
        url = proxy.url_of("postgresql://ana:p%25w@127.0.0.1:5432/db?sslmode=disable")

        assert url == f"postgresql://ana:p%25w@127.0.0.1:{proxy.port}/db?sslmode=disable"
        assert proxy.url_of("redis://127.0.0.1:1/0") == f"redis://127.0.0.1:{proxy.port}/0"
