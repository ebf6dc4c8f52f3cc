"""A server: waits for a while, then responds to every connection with its rank and process id."""

import os
import socketserver
import time
from pathlib import Path


class Answer(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        said = f"{os.environ['RESILE_ROLE']} {os.environ['RESILE_NODE_RANK']} {os.getpid()}\n"
        self.request.sendall(said.encode())


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True


gate = os.environ.get("GATE")
while gate and not Path(gate).exists():
    time.sleep(0.02)
with Server((os.environ["RESILE_HOST"], int(os.environ["RESILE_PORT_RPC"])), Answer) as server:
    print(f"serving as {os.environ['RESILE_NODE_ID']}", flush=True)
    server.serve_forever()
