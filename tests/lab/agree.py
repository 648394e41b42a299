"""Whether the lab holds what the inventory of a cluster says, and nothing else: of what is new since BEFORE, everything is recorded, or Heat has it
in a stack that is recorded, or a service made it for one of these (the ports of a network, a load balancer's, Heat's own users); and what is
recorded is there, and so is what Heat has in those stacks.

Usage: agree.py BEFORE NOW <RECORDED   with what `inventory.py` said twice, and a line "kind name id" (tabs) for each row of cloud_resource.
"""
import os
import sys

import openstack


def connect(user, project=None, password=None):
    return openstack.connect(auth_url=os.environ["OS_AUTH_URL"], region_name="RegionOne", username=user, password=password or user,
                             project_name=project or user, user_domain_name="Default", project_domain_name="Default")


def last(reference):
    """An id, of a thing that may be known by its address."""
    return reference.rstrip("/").rsplit("/", 1)[-1]


def known_as(kind, thing):
    """A key pair is known by its user and its name; several users have one of the same name."""
    return thing if kind.endswith("keypair") else last(thing)


# Of what Heat makes, the types that `inventory.py` lists.
LISTED = {"OS::" + kind for kind in ("Cinder::Volume", "Designate::RecordSet", "Neutron::FloatingIP", "Neutron::Net", "Neutron::Port", "Neutron::Router",
                                     "Neutron::SecurityGroup", "Neutron::Subnet", "Nova::Server", "Nova::ServerGroup", "Octavia::LoadBalancer")}

# Ports of load balancers, and those of floating IPs, are of another project or of none.
admin, demo = connect("admin"), connect("demo")
before = set(open(sys.argv[1]).read().splitlines())
now = set(open(sys.argv[2]).read().splitlines())
recorded = [line.rstrip("\n").split("\t") for line in sys.stdin]
ids = {known_as(row[0], row[2]) for row in recorded if row[2]}
stacks = [row for row in recorded if row[0] == "heat_stack"]
there = {known_as(line.split(" ", 1)[0], line.rsplit(" ", 1)[-1]) for line in now}
wrong = []
of_stacks = set()
looked_at = 0
for _, name, stack in stacks:
    of_stacks.add(stack)
    for r in demo.orchestration.get("/stacks/%s/%s/resources?nested_depth=5" % (name, stack)).json()["resources"]:
        kind, thing = r["resource_type"], r["physical_resource_id"]
        of_stacks.add(thing)
        looked_at += kind in LISTED
        if kind in LISTED and thing not in there:
            wrong.append("Heat has it and it is not there: %s %s %s" % (kind, r["resource_name"], thing))
known = ids | of_stacks
# What a service makes for what is known.
for port in admin.network.ports():
    if port.device_owner in ("network:floatingip", "network:dhcp"):
        if port.device_id in known or port.network_id in known:
            known.add(port.id)
    elif port.device_id in known or port.device_owner.startswith("Octavia") and port.device_id.removeprefix("lb-") in known:
        known.add(port.id)
for server in demo.compute.servers():
    if server.id in known:
        known.update(volume.id for volume in server.attached_volumes)
# A certificate in Barbican is a container of secrets.
for container in connect("magnum", "service", os.environ["SERVICE_PASS"]).key_manager.containers():
    if last(container.id) in known:
        known.update(last(secret["secret_ref"]) for secret in container.secret_refs)


def is_heats_own(kind, name):
    """Heat's project for a stack ends with as much of the stack's id as there is room for; who asks it for a stack trusts it."""
    if kind == "trust":
        return name in ids
    stack = name.split("-", 1)[-1]
    return kind.endswith("heat_user_domain") and len(stack) > 20 and any(known.startswith(stack) for known in of_stacks)


for line in sorted(now - before):
    kind, rest = line.split(" ", 1)
    name, thing = rest.rsplit(" ", 1)
    if known_as(kind, thing) not in known and not is_heats_own(kind, name):
        wrong.append("not in the inventory: " + line)
for kind, name, thing in recorded:
    if not thing:
        wrong.append("recorded without id: %s %s" % (kind, name))
    elif known_as(kind, thing) not in there:
        wrong.append("recorded and not there: %s %s %s" % (kind, name, thing))
if stacks and not looked_at:
    wrong.append("Heat has nothing in the stacks that are recorded")
print("\n".join(wrong) or "%d things are new, %d are recorded, Heat has %d" % (len(now - before), len(recorded), looked_at))
sys.exit(1 if wrong else 0)
