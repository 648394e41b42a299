"""What the stand-ins of the lab have in common."""
from http.server import BaseHTTPRequestHandler


class Stub(BaseHTTPRequestHandler):
    def answer(self, status, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
