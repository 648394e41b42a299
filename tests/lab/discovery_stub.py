"""Stands in for the public etcd discovery service, which upstream's Magnum asks before each cluster: GET /new?size=N answers an address,
GET /TOKEN/_config/size the size that was asked for.

Usage: discovery_stub.py PORT   with IP in the environment.
"""
import json
import os
import sys
import uuid
from http.server import ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from stub import Stub

address, port = os.environ["IP"], int(sys.argv[1])
sizes = {}


class Discovery(Stub):
    def do_GET(self):
        url = urlsplit(self.path)
        token = url.path.split("/")[1]
        if token == "new":
            token = uuid.uuid4().hex
            sizes[token] = parse_qs(url.query)["size"][0]
            self.answer(200, "http://%s:%d/%s" % (address, port, token))
        elif token in sizes:
            self.answer(200, json.dumps({"action": "get", "node": {"key": "size", "value": sizes[token]}}))
        else:
            self.answer(404, "{}")


ThreadingHTTPServer((address, port), Discovery).serve_forever()
