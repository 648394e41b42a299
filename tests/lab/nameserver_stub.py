"""Stands in for the nameserver of Designate's pool, which nobody tells of anything: of every zone it says that it has come to know of all changes so
far, as Designate asks it (SOA by UDP) before a record becomes active.

Usage: nameserver_stub.py PORT   with IP in the environment.
"""
import os
import socketserver
import sys
import time

import dns.flags
import dns.message
import dns.rrset


class Nameserver(socketserver.BaseRequestHandler):
    def handle(self):
        data, socket = self.request
        query = dns.message.from_wire(data)
        zone = query.question[0].name
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.AA
        # The serial number of a change is its time in seconds, or one more than the last.
        soa = "ns.example.org. demo.example.org. %d 3600 600 86400 3600" % (time.time() + 3600)
        answer.answer.append(dns.rrset.from_text(zone, 0, "IN", "SOA", soa))
        socket.sendto(answer.to_wire(), self.client_address)


socketserver.ThreadingUDPServer((os.environ["IP"], int(sys.argv[1])), Nameserver).serve_forever()
