"""MCP servers to be tested against, run as programs: `python mcp_servers.py KIND [ARGUMENT...]`.

`sdk-stdio` and `sdk-http` are the SDK's own server. All others are a few lines of JSON-RPC and nothing else,
so that they start at once and can misbehave; `raw` makes the settings for one of them.
"""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

OBJECT = {"type": "object", "properties": {}}
PYTHON = [sys.executable, "-I", "-S"]
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
"""A picture of one dot."""


def raw(kind: str, *arguments: str, **settings: Any) -> dict[str, Any]:
    """How settings.json names such a server."""
    command, *options = PYTHON
    return {"command": command, "args": [*options, __file__, kind, *arguments], **settings}


class Server:
    """One tool a method: what it returns is the text of the result. Requests are answered one by one."""

    def __init__(self, *arguments: str) -> None:
        self.arguments = arguments
        self.waiting: list[Any] = []
        self.cancelled: list[Any] = []

    def run(self) -> None:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "id" not in message:
                if message["method"] == "notifications/cancelled":
                    self.cancelled.append(message["params"]["requestId"])
                continue
            self.answer(message)

    def answer(self, message: dict[str, Any]) -> None:
        method, parameters = message["method"], message.get("params", {})
        match method:
            case "initialize":
                info = {"name": "raw", "version": "1"}
                version = parameters["protocolVersion"]
                result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
                self.send(message["id"], result)
            case "tools/list":
                self.send(message["id"], self.listed(parameters.get("cursor")))
            case "tools/call":
                self.call(message["id"], parameters)
            case _:
                error = {"code": -32601, "message": "Method not found"}
                self.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}))

    def listed(self, cursor: str | None) -> dict[str, Any]:
        names = [name.removeprefix("tool_") for name in dir(self) if name.startswith("tool_")]
        return {"tools": [{"name": name, "inputSchema": OBJECT} for name in names]}

    def call(self, id: Any, parameters: dict[str, Any]) -> None:
        if parameters["name"] == "wait":
            self.waiting.append(id)
        text = getattr(self, f"tool_{parameters['name']}")(**parameters.get("arguments", {}))
        if text is not None:
            self.send(id, {"content": [{"type": "text", "text": text}]})

    def send(self, id: Any, result: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}))

    def write(self, text: str) -> None:
        sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass") + b"\n")
        sys.stdout.buffer.flush()

    def tool_echo(self, **arguments: Any) -> str | None:
        return json.dumps(arguments)

    def tool_environment(self) -> str | None:
        pipes = [os.fstat(number).st_ino for number in range(3)]
        return json.dumps({"env": {**os.environ}, "argv": sys.argv[2:], "cwd": os.getcwd(), "pipes": pipes})

    def tool_wait(self) -> str | None:
        """Never answered."""
        return None

    def tool_sleep(self) -> str | None:
        """Reads nothing meanwhile."""
        time.sleep(60)
        return None

    def tool_waits(self) -> str | None:
        """How many calls of `wait` have begun, and how many of them were ended."""
        ended = [id for id in self.waiting if id in self.cancelled]
        return json.dumps({"begun": len(self.waiting), "ended": len(ended)})

    def tool_die(self) -> str | None:
        print("\x1b[31mboom\x07\x1b[0m", file=sys.stderr, flush=True)
        os._exit(7)


class Tools(Server):
    """Its tools are those of its argument, as JSON; a call is answered with what it was called with."""

    def listed(self, cursor: str | None) -> dict[str, Any]:
        return {"tools": json.loads(self.arguments[0])}

    def call(self, id: Any, parameters: dict[str, Any]) -> None:
        self.send(id, {"content": [{"type": "text", "text": json.dumps(parameters)}]})


class Answers(Server):
    """Answers a call with what it is told to: lines, in which $ID is the id of the call."""

    def call(self, id: Any, parameters: dict[str, Any]) -> None:
        if "lines" not in parameters["arguments"]:
            return super().call(id, parameters)
        for line in parameters["arguments"]["lines"]:
            self.write(line.replace("$ID", str(id)).replace("$LONG", "x" * 17 * 2**20))
        return None

    def tool_get(self) -> str | None:
        return None


class Pages(Server):
    """A list of tools without end, a page of so many at a time."""

    def listed(self, cursor: str | None) -> dict[str, Any]:
        start = int(cursor or 0)
        end = start + int(self.arguments[0])
        tools = [{"name": f"t{number}", "inputSchema": OBJECT} for number in range(start, end)]
        return {"tools": tools, "nextCursor": str(end)}


class Exits(Server):
    def run(self) -> None:
        sys.stderr.write(self.arguments[1])
        sys.exit(int(self.arguments[0]))


class Silent(Server):
    def answer(self, message: dict[str, Any]) -> None:
        print("thinking about it", file=sys.stderr, flush=True)


class Deaf(Server):
    """Says nothing, and does not end when it is asked to."""

    def run(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("deaf", file=sys.stderr, flush=True)
        time.sleep(60)


class OldVersion(Server):
    def send(self, id: Any, result: Any) -> None:
        super().send(id, {**result, "protocolVersion": "1999-01-01"})


class ClosesOutput(Server):
    def run(self) -> None:
        os.close(1)
        time.sleep(60)


class Junk(Server):
    """Prints what is no message, around each one."""

    def write(self, text: str) -> None:
        out = sys.stdout.buffer
        out.write(b'Listening!\n\n{}\n[1]\nnull\n{"id": 3}\n\xff\xfe\x00\n' + b"{" * 5000 + b"\n")
        for id in (10**9, '"1"', "null", "-1", "1.5"):
            out.write(b'{"jsonrpc": "2.0", "id": %s, "result": {}}\n' % str(id).encode())
        super().write(text)


class Noisy(Server):
    """Complains without end, on stderr."""

    def run(self) -> None:
        line = "import os\nwhile True: os.write(2, b'complaint ' * 1000)"
        child = subprocess.Popen([*PYTHON, "-c", line, *self.arguments])
        try:
            super().run()
        finally:
            child.kill()


class Stubborn(Server):
    """Neither it nor its child ends when it is asked to."""

    def run(self) -> None:
        line = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
        subprocess.Popen([*PYTHON, "-c", line, *self.arguments])
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        super().run()
        time.sleep(60)


class Leaving(Server):
    """Ends in time, and leaves a child that holds its pipes."""

    def run(self) -> None:
        subprocess.Popen([*PYTHON, "-c", "import time; time.sleep(60)", *self.arguments])
        super().run()


KINDS = {
    kind.__name__.lower(): kind
    for kind in [
        *(
            Server,
            Tools,
            Answers,
            Pages,
            Exits,
            Silent,
            Deaf,
            OldVersion,
            ClosesOutput,
            Junk,
            Noisy,
            Stubborn,
        ),
        Leaving,
    ]
}


def sdk() -> Any:
    import asyncio

    from mcp.server.mcpserver import Context, Image, MCPServer

    server = MCPServer("sdk", version="2")

    @server.tool()
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def fail() -> str:
        raise ValueError("as it should")

    @server.tool()
    def dot() -> Image:
        import base64

        return Image(data=base64.b64decode(DOT), format="png")

    @server.tool()
    def header(name: str, ctx: Context) -> str:
        request = ctx.request_context.request
        return request.headers.get(name, "") if request is not None else ""

    @server.tool()
    async def steps(ctx: Context) -> str:
        for step in range(1, 4):
            await ctx.report_progress(step, 3, f"step {step}")
            await asyncio.sleep(0.02)
        return "done"

    seen = {"begun": 0, "ended": 0}

    @server.tool()
    async def wait() -> str:
        seen["begun"] += 1
        try:
            await asyncio.sleep(60)
        finally:
            seen["ended"] += 1
        return "waited"

    @server.tool()
    def waits() -> dict[str, int]:
        return seen

    return server


def serve_http() -> None:
    """At a port of its own, which it prints."""
    import socket

    import uvicorn

    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        app = sdk().streamable_http_app()
        uvicorn.Server(uvicorn.Config(app, log_config=None)).run(sockets=[listening])


if __name__ == "__main__":
    kind, *arguments = sys.argv[1:]
    if kind == "sdk-stdio":
        sdk().run()
    elif kind == "sdk-http":
        serve_http()
    else:
        KINDS[kind](*arguments).run()
