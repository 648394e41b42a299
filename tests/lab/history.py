"""In which order masters and workers of a cluster came and went: one line that Heat tells, and one that Nova tells.

The first has `+m3` for a master that became complete (with its number in the group) and `-m0` for one whose removal began; `w` are workers. Those of
one kind that came or went together are in the order of their numbers. The second says how many masters had a machine at once, at least and at most.

Usage: history.py STACK SINCE   with OS_* of the stack's project, and SINCE as Heat tells times (2026-01-31T12:00:00Z).
"""
import itertools
import os
import sys

import openstack


def connect(user, project):
    return openstack.connect(auth_url=os.environ["OS_AUTH_URL"], region_name="RegionOne", username=user, password=user, project_name=project,
                             user_domain_name="Default", project_domain_name="Default")


def answer(client, path, **params):
    got = client.get(path, params=params)
    assert got.ok, (path, got.status_code, got.text)
    return got.json()


since = sys.argv[2]
heat = connect(os.environ["OS_USERNAME"], os.environ["OS_PROJECT_NAME"]).orchestration
stack = answer(heat, "/stacks/%s" % sys.argv[1])["stack"]
own = "/stacks/%s/%s" % (stack["stack_name"], stack["id"])

moves = []
for letter, group in (("m", "kube_masters"), ("w", "kube_minions")):
    links = answer(heat, "%s/resources/%s" % (own, group))["resource"]["links"]
    nested = [link["href"] for link in links if link["rel"] == "nested"][0]
    events = answer(heat, nested[nested.index("/stacks/"):] + "/events", sort_keys="event_time", sort_dir="asc")["events"]
    for event in events:
        sign = {"CREATE_COMPLETE": "+", "DELETE_IN_PROGRESS": "-"}.get(event["resource_status"])
        # Beside its members it tells of itself.
        if sign and event["resource_name"].isdigit() and event["event_time"] >= since:
            moves.append((event["event_time"], sign + letter, int(event["resource_name"])))
# Steps are more than a second apart; what one of them does is not.
moves.sort(key=lambda move: move[0])
told = []
for kind, together in itertools.groupby(moves, key=lambda move: move[1]):
    told += ["%s%d" % (kind, number) for number in sorted(move[2] for move in together)]
print(" ".join(told))

compute, spans = connect("admin", "admin").compute, []
for is_gone in (False, True):
    servers = answer(compute, "/servers/detail", all_tenants=1, deleted=is_gone, name="%s-master-" % stack["stack_name"])["servers"]
    for server in servers:
        begin, end = server["OS-SRV-USG:launched_at"], server["OS-SRV-USG:terminated_at"]
        if begin:
            spans.append((begin[:19], end[:19] if end else "9999"))
# Between each change and the next one.
since = since[:19]
times = sorted({since, "9999"} | {time for span in spans for time in span if time > since})
counts = [sum(begin <= a and b <= end for begin, end in spans) for a, b in zip(times, times[1:])]
print("masters at once: %d to %d" % (min(counts), max(counts)))
