"""A web server that fails in every way a download can meet."""

import dataclasses
import http.server
import threading

DATA = bytes(range(256)) * 400  # 102,400 bytes


@dataclasses.dataclass
class Page:
    """What the server has at an address, and what goes wrong with it.

    Each cut is the number of bytes after which one answer ends. `stall` holds back the second half
    of the file until it is set.
    """

    data: bytes = DATA
    status: list = dataclasses.field(default_factory=list)  # of the first answers
    cuts: list = dataclasses.field(default_factory=list)
    headers: dict = dataclasses.field(default_factory=lambda: {"ETag": '"1"'})
    ranges: bool = True
    shift: int = 0  # by how much a piece is beside the one that was asked for
    length: bool = True
    stall: threading.Event | None = None


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        page = self.server.pages.get(self.path)
        self.server.requests.append((self.path, self.headers.get("Range")))
        if page is None:
            return self.send_error(404)
        if page.status and (status := page.status.pop(0)) != 200:
            return self.answer(status, b"", page)
        start = self.start_of(page)
        if start is not None and start >= len(page.data):
            return self.send_error(416)
        if start is None:
            return self.answer(200, page.data, page)
        start += page.shift
        return self.answer(206, page.data[start:], page, start)

    def start_of(self, page):
        """Where the piece that was asked for begins, None if the whole file is to be sent."""
        if not page.ranges or "Range" not in self.headers:
            return None
        if self.headers.get("If-Range", page.headers.get("ETag")) != page.headers.get("ETag"):
            return None
        return int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))

    def answer(self, status, body, page, start=0):
        self.send_response(status)
        for name, values in page.headers.items():
            for value in values if isinstance(values, list) else [values]:
                self.send_header(name, value)
        if status == 206:
            whole = len(page.data)
            self.send_header("Content-Range", f"bytes {start}-{whole - 1}/{whole}")
        if page.length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if page.stall is not None:
            half = 0 if start else len(body) // 2
            self.wfile.write(body[:half])
            page.stall.wait(10)
            body = body[half:]
        self.wfile.write(body[: page.cuts.pop(0)] if page.cuts and status < 300 else body)

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *arguments):
        pass  # clients that have gone
