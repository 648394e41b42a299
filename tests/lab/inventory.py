"""What exists in the lab, one line each ("kind name id"), sorted: everything a cluster could leave behind in project demo, in the
trustee domain and in Heat's user domain. Taken before and after a run, the two must be equal."""
import os

import openstack


def connect(user, project, password=None):
    return openstack.connect(auth_url=os.environ["OS_AUTH_URL"], region_name="RegionOne", username=user, password=password or user,
                             project_name=project, user_domain_name="Default", project_domain_name="Default")


admin, demo = connect("admin", "admin"), connect("demo", "demo")
project = demo.current_project_id
rows = []


def add(kind, things, keep=lambda thing: True):
    rows.extend("%s %s %s" % (kind, getattr(t, "name", None) or "-", t.id) for t in things if keep(t))


add("stack", demo.orchestration.stacks())
add("server", demo.compute.servers())
add("server-group", demo.compute.server_groups())
add("keypair", demo.compute.keypairs())
add("volume", demo.block_storage.volumes())
add("load-balancer", demo.load_balancer.load_balancers(project_id=project))
for zone in demo.dns.zones():
    add("recordset", demo.dns.recordsets(zone))
for kind, things in (("network", "networks"), ("subnet", "subnets"), ("port", "ports"), ("router", "routers"), ("floating-ip", "ips"),
                     ("security-group", "security_groups")):
    add(kind, getattr(admin.network, things)(project_id=project))
# a VIP port belongs to nobody's project while Octavia makes it; floating IPs in use have a port without project
add("port", admin.network.ports(project_id=""), lambda p: p.device_owner.startswith("Octavia"))
for keeper in (demo, connect("magnum", "service", os.environ["SERVICE_PASS"])):
    add("secret", keeper.key_manager.secrets())
    add("container", keeper.key_manager.containers())
for t in admin.identity.get("/OS-TRUST/trusts").json()["trusts"]:
    rows.append("trust %s %s" % (t["trustor_user_id"], t["id"]))
for name in ("magnum", "heat_user_domain"):
    domain = admin.identity.find_domain(name).id
    users = list(admin.identity.users(domain_id=domain))
    add("user-of-" + name, users)
    # what the owner of a stack is lent is called as in the inventory of a cluster
    for user in users:
        pairs = admin.compute.get("/os-keypairs", params={"user_id": user.id}, microversion="2.10").json()["keypairs"]
        rows.extend("keypair %s %s/%s" % (pair["keypair"]["name"], user.id, pair["keypair"]["name"]) for pair in pairs)
    # Heat removes its users with a stack but keeps one project of its own for each stack until then
    add("project-of-" + name, admin.identity.projects(domain_id=domain))
add("application-credential", demo.identity.application_credentials(demo.current_user_id))
print("\n".join(sorted(set(rows))))
