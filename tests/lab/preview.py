#!/usr/bin/env python3
"""The real Heat looks at stacks that are not made: each with what it nests, and then its master and its worker, whose properties and what they
name in the cloud Heat judges only where they stand alone.

Usage: preview.py FILE   with OS_* of a user. FILE has a line of JSON for each stack (name, template, files, parameters, need), as
`MAGNUM_COMBINATIONS=FILE cargo test --workspace --lib combinations -- --ignored` writes it. Prints what is not as it should be; exit 0 when
that is nothing.
"""
import collections
import contextlib
import json
import os
import sys
import time

import openstack
import yaml

cloud = openstack.connect(auth_url=os.environ["OS_AUTH_URL"], region_name="RegionOne", username=os.environ["OS_USERNAME"],
                          password=os.environ["OS_PASSWORD"], project_name=os.environ["OS_PROJECT_NAME"],
                          user_domain_name="Default", project_domain_name="Default")
network = cloud.network.find_network("private", ignore_missing=False)
group = cloud.network.find_security_group("default", project_id=cloud.current_project_id, ignore_missing=False)
# What the names in the file stand for.
HERE = {"image": "fedora-coreos", "volume-type": "fake", "given-network": network.id, "given-subnet": network.subnet_ids[0], "security-group": group.id}
# What a node is given by resources of the stack around it.
AROUND = {"name": "node-0", "index": "0", "former_images": {}, "generation": "", "replaces": "", "newcomers": 0, "server_group": "affinity", "network": network.id,
          "subnet": network.subnet_ids[0], "security_groups": [group.id], "api_address": "10.0.0.7", "api_public_address": ""}


def here(value):
    return [here(v) for v in value] if isinstance(value, list) else HERE.get(value, value) if isinstance(value, str) else value


def flat(found):
    """All resources, with those that are nested: each of these is a list in the list."""
    return [inner for one in found for inner in (flat(one) if isinstance(one, list) else [one])]


def types(found):
    """How many resources of each type."""
    return collections.Counter(one["resource_type"] for one in flat(found))


def taken(found):
    """What these resources take of quotas."""
    counts = types(found)
    properties = lambda kind: [one["properties"] for one in flat(found) if one["resource_type"] == kind]
    groups, balancers, interfaces = (counts[kind] for kind in ("OS::Neutron::SecurityGroup", "OS::Octavia::LoadBalancer",
                                                               "OS::Neutron::RouterInterface"))
    return {"servers": counts["OS::Nova::Server"], "server_groups": counts["OS::Nova::ServerGroup"], "volumes": counts["OS::Cinder::Volume"],
            "gigabytes": sum(int(volume["size"]) for volume in properties("OS::Cinder::Volume")), "networks": counts["OS::Neutron::Net"],
            # One that is only looked up is not made; those that are made are on the router.
            "subnets": interfaces, "routers": counts["OS::Neutron::Router"], "floating_ips": counts["OS::Neutron::FloatingIP"],
            # Routers and load balancers have theirs, and Neutron has its own on each network; a group has two rules before it is given any.
            # So has a server on a network that it has no port of.
            "ports": counts["OS::Neutron::Port"] + interfaces + balancers + counts["OS::Neutron::Net"]
            + sum(bool(one.get("network")) for server in properties("OS::Nova::Server") for one in server["networks"]), "load_balancers": balancers, "security_groups": groups,
            "security_group_rules": 2 * groups + counts["OS::Neutron::SecurityGroupRule"]
            + sum(len(one["rules"]) for one in properties("OS::Neutron::SecurityGroup"))}


def preview(template, files, parameters):
    asked = {"stack_name": "preview", "template": template, "files": files, "timeout_mins": 60, "parameters": parameters}
    return cloud.orchestration.post("/stacks/preview", json=asked, timeout=120)


def due(given, masters, workers):
    """The resources that such a cluster, or so many nodes alone, must have."""
    nodes = masters + workers
    volumes = sum(given[size] > 0 for size in ("boot_volume_size", "docker_volume_size"))
    return {"OS::Nova::Server": nodes, "OS::Neutron::Port": nodes, "OS::Heat::WaitCondition": nodes, "OS::Heat::WaitConditionHandle": nodes,
            "OS::Cinder::Volume": nodes * volumes + masters * (given.get("etcd_volume_size", 0) > 0)}


def look(name, template, files, parameters, wanted, need=None):
    """Whether Heat takes it, with the resources that it must have, and takes of quotas what we count; says what is wrong."""
    answer = preview(template, files, parameters)
    wrong = None
    if answer.status_code != 200:
        wrong = "%d %s" % (answer.status_code, answer.text[:600])
    else:
        found = types(answer.json()["stack"]["resources"])
        # A port of the API is among the cluster's own.
        got = {kind: found[kind] for kind in wanted}
        if any(got[kind] < count or got[kind] > count and kind != "OS::Neutron::Port" for kind, count in wanted.items()):
            wrong = "wanted %s, got %s" % (wanted, got)
        if need is not None and taken(answer.json()["stack"]["resources"]) != need:
            wrong = "takes %s, counted %s" % (taken(answer.json()["stack"]["resources"]), need)
    if wrong:
        print("%s: %s" % (name, wrong))
    return not wrong


def node(stack, around, pool):
    """The template of a node of a group of the stack, and its parameters."""
    template = yaml.safe_load(stack["template"])
    definition = template["resources"][around]["properties"]["resource_def"]
    every = {name: parameter["default"] for name, parameter in template["parameters"].items() if "default" in parameter} | stack["parameters"]
    given = {}
    for name, value in definition["properties"].items():
        asked = value.get("get_param") if isinstance(value, dict) else None
        given[name] = AROUND[name] if name in AROUND else here(every[asked]) if asked else pool
    return stack["files"][definition["type"]], given


@contextlib.contextmanager
def a_pool():
    """A pool of a load balancer, for a master to be a member of."""
    octavia = cloud.load_balancer
    balancer = octavia.create_load_balancer(name="preview", vip_subnet_id=network.subnet_ids[0])
    try:
        octavia.wait_for_load_balancer(balancer.id, interval=1, wait=120)
        yield octavia.create_pool(name="preview", protocol="TCP", lb_algorithm="ROUND_ROBIN", loadbalancer_id=balancer.id).id
    finally:
        octavia.wait_for_load_balancer(balancer.id, interval=1, wait=120)
        octavia.delete_load_balancer(balancer.id, cascade=True)
        end = time.time() + 120
        while octavia.find_load_balancer(balancer.id):
            if time.time() > end:
                sys.exit("the load balancer of the previews does not go")
            time.sleep(1)


@contextlib.contextmanager
def ipv6():
    """An IPv6 subnet of the network, and a pool of such ranges, for clusters that have both versions of IP."""
    neutron, mode = cloud.network, "dhcpv6-stateful"
    subnet = neutron.create_subnet(name="preview-v6", network_id=network.id, ip_version=6, cidr="fd00:1::/64", ipv6_ra_mode=mode,
                                   ipv6_address_mode=mode)
    try:
        ranges = neutron.create_subnet_pool(name="preview-v6", prefixes=["fd00:2::/48"], default_prefix_length=64)
        try:
            HERE.update({"given-subnet-v6": subnet.id, "subnet-pool": ranges.id})
            AROUND["subnet_v6"] = subnet.id
            yield
        finally:
            neutron.delete_subnet_pool(ranges)
    finally:
        neutron.delete_subnet(subnet)


def main(path):
    begin, looks, bad, controls = time.time(), 0, 0, 0
    with open(path, encoding="utf-8") as lines:
        stacks = [json.loads(line) for line in lines]
    with ipv6(), a_pool() as pool:
        for stack in stacks:
            given = {name: here(value) for name, value in stack["parameters"].items()}
            masters, workers = given.get("number_of_masters", 0), given["number_of_minions"]
            looks += 1
            bad += not look(stack["name"], stack["template"], stack["files"], given, due(given, masters, workers), stack["need"])
            for around, is_master in (("kube_masters", True), ("kube_minions", False)):
                if is_master and not masters:
                    continue
                template, alone = node(stack, around, pool)
                looks += 1
                bad += not look("a node of %s, %s" % (around, stack["name"]), template, {}, alone, due(alone, is_master, not is_master))
                if not controls:
                    # Heat does look.
                    for name in ("flavor", "image", "network", "ssh_key_name"):
                        controls += 1
                        answer = preview(template, {}, {**alone, name: "no-such"})
                        if answer.status_code != 400 or "no-such" not in answer.text:
                            sys.exit("Heat took no-such as %s: %d %s" % (name, answer.status_code, answer.text[:600]))
    print("%d stacks, %d looks, %d not as they should be, %.0f s" % (len(stacks), looks, bad, time.time() - begin))
    return 1 if bad or not stacks else 0


sys.exit(main(sys.argv[1]))
