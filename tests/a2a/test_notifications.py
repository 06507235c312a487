"""Push notifications: off by default, and to public addresses only."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client.errors import A2AClientError
from a2a.types.a2a_pb2 import (
    ListTaskPushNotificationConfigsRequest,
    SendMessageRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
)
from a2a.utils.errors import A2AError

import threadkeep
from tests.a2a.conftest import connected, message, sent
from tests.a2a.test_store import context
from tests.gateway.conftest import Open
from tests.gateway.world import GatewayWorld, owner_of
from tests.storage.tls import certificate_in
from threadkeep.a2a import mount, tasks
from threadkeep.a2a.messages import CALL
from threadkeep.a2a.tasks import PushConfigs, PushNotifications
from threadkeep.gateway import public_http
from threadkeep.gateway.public_http import MAX_BYTES, PublicTransport, is_public, is_public_url

REFUSED = (A2AError, A2AClientError)


@contextmanager
def receiver(
    folder: Path, *, release: threading.Event | None = None
) -> Iterator[tuple[str, list[Any], PublicTransport]]:
    """Yield the address of an HTTPS server, what it receives, and a transport that may call it.

    It answers once *release* is set, if there is one.
    """
    received: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((dict(self.headers), json.loads(body)))
            if release is not None:
                release.wait(30)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
            del format, args

    made = certificate_in(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(made.path, made.key)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    trusted = ssl.create_default_context(cafile=str(made.path))
    transport = PublicTransport(httpx.AsyncHTTPTransport(verify=trusted), allowed=lambda _: True)
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}/hook?secret=s3cret", received, transport
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def with_address(url: str) -> SendMessageRequest:
    request = message("Hello.")
    request.configuration.task_push_notification_config.CopyFrom(TaskPushNotificationConfig(url=url))
    return request


def task(state: TaskState) -> Task:
    return Task(id="t", context_id="c", status=TaskStatus(state=state))


class TestAddresses:
    @pytest.mark.parametrize(
        ("address", "public"),
        [
            ("93.184.215.14", True),
            ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True),
            *((one, False) for one in ("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254")),
            *((one, False) for one in ("100.64.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "192.0.2.1")),
            *((one, False) for one in ("::1", "::", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:127.0.0.1")),
            *((one, False) for one in ("::ffff:169.254.169.254", "::ffff:10.0.0.1", "2001:db8::1")),
        ],
    )
    def test_public(self, address: str, public: bool):
        assert is_public(address) is public

    @pytest.mark.parametrize(
        "url",
        [
            "http://93.184.215.14/",
            "https://127.0.0.1/",
            "https://127.1/",
            "https://2130706433/",
            "https://0x7f000001/",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://localhost/",
            "https://user@93.184.215.14/",
            "https://169.254.169.254/latest/meta-data/",
            "file:///etc/passwd",
            "https://",
            "https:///hook",
            "",
            "not a url",
            "https://93.184.215.14:99999/",
            "https://a\x00b/",
            "https://" + "a" * 300 + ".example/",
        ],
    )
    async def test_refused(self, url: str):
        assert not await is_public_url(url)

    async def test_accepted(self):
        assert await is_public_url("https://93.184.215.14:8443/hook")


class TestTransport:
    async def test_the_checked_address_is_connected_to(self):
        """The request goes to the address, with the name for TLS and as Host; of the answer, the status counts."""
        seen: list[httpx.Request] = []

        def answer(request: httpx.Request) -> httpx.Response:
            seen.append(request)
            return httpx.Response(302, headers={"Location": "https://127.0.0.1/"}, content=b"x" * 10)

        transport = PublicTransport(httpx.MockTransport(answer), allowed=lambda _: True)
        async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
            response = await client.post("https://localhost:8443/hook", json={"a": 1})

        (request,) = seen
        assert request.url.host in ("127.0.0.1", "::1")
        assert (request.headers["host"], request.extensions["sni_hostname"]) == ("localhost:8443", "localhost")
        assert (response.status_code, response.content) == (302, b"")

    async def test_one_inner_address_of_several_is_enough(self):
        """A host with a public and an inner address is not called."""
        transport = PublicTransport(httpx.MockTransport(lambda _: httpx.Response(200)), allowed=lambda one: ":" in one)
        async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
            with pytest.raises(httpx.ConnectError, match="not public"):
                await client.post("https://localhost/hook")

    async def test_too_much(self):
        transport = PublicTransport(httpx.MockTransport(lambda _: httpx.Response(200)), allowed=lambda _: True)
        async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
            with pytest.raises(httpx.WriteError):
                await client.post("https://localhost/hook", content=b"x" * (MAX_BYTES + 1))

    async def test_a_silent_server(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """It is given up after the time."""
        monkeypatch.setattr(public_http, "SECONDS", 0.5)
        release = threading.Event()
        with receiver(tmp_path, release=release) as (url, _, transport):
            async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
                with pytest.raises(httpx.ConnectTimeout):
                    await client.post(url, json={})
            release.set()


class TestSender:
    async def test_sends_changes_of_state(self, tmp_path: Path, caplog: pytest.LogCaptureFixture):
        """Until the end of the task; then the address is forgotten. A failure is logged without the address."""
        async with threadkeep.open("memory://") as tk:
            with receiver(tmp_path) as (url, received, transport):
                configs = PushConfigs()
                http = httpx.AsyncClient(transport=transport, trust_env=False)
                sender = PushNotifications(http, configs)
                CALL.set(context("ana", tk))
                config = TaskPushNotificationConfig(url=url, token="of the client")
                await configs.set_info("t", config, context("ana", tk))
                assert await configs.get_info("t", context("bo", tk)) == []
                for state in ("WORKING", "INPUT_REQUIRED", "COMPLETED", "COMPLETED"):
                    await sender.send_notification("t", task(TaskState.Value(f"TASK_STATE_{state}")))
                left = await configs.get_info("t", context("ana", tk))
            await configs.set_info("u", config, context("ana", tk))
            await sender.send_notification("u", task(TaskState.TASK_STATE_WORKING))
            await http.aclose()

        states = [body["task"]["status"]["state"] for _, body in received]
        assert states == ["TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"]
        assert received[0][0]["X-A2A-Notification-Token"] == "of the client"
        assert left == []
        assert "not delivered" in caplog.text
        assert "s3cret" not in caplog.text

    async def test_addresses_are_few(self, monkeypatch: pytest.MonkeyPatch):
        """Of a task, and of all tasks of an owner; an address is changed all the same."""
        monkeypatch.setattr(tasks, "_OF_OWNER", 7)
        async with threadkeep.open("memory://") as tk:
            configs = PushConfigs()
            for task_id, count in (("t", 5), ("u", 2)):
                for number in range(count):
                    config = TaskPushNotificationConfig(id=str(number), url="https://93.184.215.14/")
                    await configs.set_info(task_id, config, context("ana", tk))
                with pytest.raises(A2AError):
                    await configs.set_info(task_id, TaskPushNotificationConfig(id="6"), context("ana", tk))
            await configs.delete_info("u", context("ana", tk))
            changed = TaskPushNotificationConfig(id="1", url="https://93.184.215.14/other")
            await configs.set_info("t", changed, context("ana", tk))
            urls = {one.id: one.url for one in await configs.get_info("t", context("ana", tk))}

        assert len(urls) == 5
        assert urls["1"] == "https://93.184.215.14/other"

    async def test_every_process_knows_them(self, tmp_path: Path):
        """They are the owner's, and are erased with the owner."""
        url = f"sqlite:///{tmp_path / 'memory.db'}"
        config = TaskPushNotificationConfig(url="https://93.184.215.14/", token="of the client")
        async with threadkeep.open(url) as one, threadkeep.open(url) as other:
            await PushConfigs().set_info("t", config, context("ana", one))
            elsewhere = PushConfigs()
            CALL.set(context("ana", other))
            found = await elsewhere.get_info_for_dispatch("t")
            await one.owners.erase(owner_of("ana"))
            erased = await elsewhere.get_info_for_dispatch("t")

        assert [(one.url, one.token, one.task_id) for one in found] == [(config.url, config.token, "t")]
        assert erased == []


class TestGateway:
    async def test_off_by_default(self, gateway: GatewayWorld):
        async with connected(gateway) as client:
            card = TaskPushNotificationConfig(task_id="t", url="https://93.184.215.14/")
            with pytest.raises(REFUSED):
                await client.create_task_push_notification_config(card)

    async def test_inner_addresses_are_refused(self, open_gateway: Open):
        """Before anything of the turn is done."""
        gateway = open_gateway(interfaces=("a2a",), push_notifications=True)
        async with connected(gateway) as client:
            for url in ("https://127.0.0.1/hook", "http://93.184.215.14/hook", "https://localhost/hook"):
                with pytest.raises(REFUSED):
                    await sent(client, with_address(url))
        assert gateway.model.prompts == []

    async def test_changes_of_state_reach_the_address(
        self, open_gateway: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """The turn of the user who has named it; then it is forgotten. Turns of other users are not told."""
        with receiver(tmp_path) as (url, received, transport):

            async def accepted(_: str) -> bool:
                return True

            monkeypatch.setattr(mount, "PublicTransport", lambda: transport)
            monkeypatch.setattr(mount, "is_public_url", accepted)
            gateway = open_gateway(interfaces=("a2a",), push_notifications=True)
            async with connected(gateway) as client, connected(gateway, "bo") as other:
                events = await sent(client, with_address(url))
                await sent(other, message("Hello."))
                task_id = events[0].task.id
                listed = ListTaskPushNotificationConfigsRequest(task_id=task_id)
                left = await client.list_task_push_notification_configs(listed)

        told = [body.get("task") or body["statusUpdate"] for _, body in received]
        states = ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
        assert [one["status"]["state"] for one in told] == states
        assert {one.get("id") or one["taskId"] for one in told} == {task_id}
        assert list(left.configs) == []
