"""Stands in for the API of a Kubernetes cluster whose nodes never boot: GET /healthz and GET /api/v1/nodes, over TLS, for administrators.

Who asks must show a certificate of the cluster's own authority with the organisation system:masters, as a real API server wants it.

Usage: kubernetes_stub.py ADDRESS PORT CERTIFICATE KEY AUTHORITY NODE...   (PEM files)
"""
import json
import ssl
import sys
from http.server import ThreadingHTTPServer

from stub import Stub

address, port, certificate, key, authority, *nodes = sys.argv[1:]


def node(name):
    return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


class Api(Stub):
    def do_GET(self):
        subject = [pair for part in self.connection.getpeercert().get("subject", ()) for pair in part]
        path = self.path.split("?")[0]
        if ("organizationName", "system:masters") not in subject:
            self.answer(403, json.dumps({"kind": "Status", "message": "forbidden to %s" % subject}))
        elif path == "/healthz":
            self.answer(200, "ok")
        elif path == "/api/v1/nodes":
            self.answer(200, json.dumps({"kind": "NodeList", "metadata": {}, "items": [node(name) for name in nodes]}))
        else:
            self.answer(404, json.dumps({"kind": "Status", "message": "there is no %s here" % path}))


context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority)
context.verify_mode = ssl.CERT_REQUIRED
context.load_cert_chain(certificate, key)
server = ThreadingHTTPServer((address, int(port)), Api)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
