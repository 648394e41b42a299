#!/usr/bin/env python3
"""openstacksdk's container_infrastructure_management, call by call, on a complete cluster and its template.

Usage: sdk.py CLUSTER TEMPLATE   with OS_* of the cluster's creator. Prints each call; ends with the first that is not as it should be. What is an
admin's is asked as the lab's admin.
"""
import os
import sys

import openstack
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

cluster_name, template_name = sys.argv[1:3]


def connect(user, password, project):
    cloud = openstack.connect(auth_url=os.environ["OS_AUTH_URL"], region_name="RegionOne", username=user, password=password,
                              project_name=project, user_domain_name="Default", project_domain_name="Default")
    return cloud.container_infrastructure_management


magnum = connect(os.environ["OS_USERNAME"], os.environ["OS_PASSWORD"], os.environ["OS_PROJECT_NAME"])
admin = connect("admin", "admin", "admin")


def refused(what, call, kind):
    try:
        call()
    except kind as error:
        print("ok", what, "is refused:", str(error).splitlines()[0][:100])
    else:
        sys.exit("%s was accepted" % what)


def equal(what, wanted, got):
    if wanted != got:
        sys.exit("%s: wanted %r, got %r" % (what, wanted, got))
    print("ok", what)


# templates
new = magnum.create_cluster_template(name="sdk-template", coe="kubernetes", image_id="fedora-coreos", keypair_id="key",
                                     external_network_id="public", flavor_id="m1.small", master_flavor_id="m1.small")
equal("create_cluster_template", "sdk-template", new.name)
equal("get_cluster_template", new.uuid, magnum.get_cluster_template(new.id).uuid)
equal("find_cluster_template by name", new.uuid, magnum.find_cluster_template("sdk-template").uuid)
equal("find_cluster_template of an unknown one", None, magnum.find_cluster_template("sdk-nope"))
equal("cluster_templates", True, {"sdk-template", template_name} <= {t.name for t in magnum.cluster_templates()})
equal("cluster_templates page by page", True, {"sdk-template", template_name} <= {t.name for t in magnum.cluster_templates(limit=1)})
got = magnum.get_cluster_template(new.id)
equal("update_cluster_template", "sdk-renamed", magnum.update_cluster_template(got, name="sdk-renamed").name)
refused("a template without image", lambda: magnum.create_cluster_template(name="x", coe="kubernetes"), openstack.exceptions.BadRequestException)
magnum.delete_cluster_template(new.id)
equal("delete_cluster_template", None, magnum.find_cluster_template("sdk-renamed"))
refused("delete of an unknown template", lambda: magnum.delete_cluster_template("sdk-nope", ignore_missing=False),
        openstack.exceptions.NotFoundException)

# clusters
# What is found by name keeps the name for its id; the uuid is what the service says.
found = magnum.find_cluster(cluster_name)
equal("find_cluster by name", cluster_name, found.name)
cluster = magnum.get_cluster(found.uuid)
equal("get_cluster", found.uuid, cluster.uuid)
equal("clusters", [cluster.uuid], [c.uuid for c in magnum.clusters()])
equal("find_cluster of an unknown one", None, magnum.find_cluster("sdk-nope"))
refused("get_cluster of an unknown one", lambda: magnum.get_cluster("sdk-nope"), openstack.exceptions.NotFoundException)
magnum.update_cluster(magnum.get_cluster(cluster.id), node_count=2)
magnum.wait_for_status(magnum.get_cluster(cluster.id), "UPDATE_COMPLETE", failures=["UPDATE_FAILED"], interval=2, wait=240)
equal("update_cluster and wait_for_status", 2, magnum.get_cluster(cluster.id).node_count)
refused("a cluster of an unknown template", lambda: magnum.create_cluster(name="x", cluster_template_id="sdk-nope"),
        openstack.exceptions.BadRequestException)
made = magnum.create_cluster(name="sdk-cluster", cluster_template_id=magnum.find_cluster_template(template_name).uuid, node_count=1)
equal("create_cluster", "CREATE_IN_PROGRESS", magnum.get_cluster(made.id).status)
magnum.delete_cluster(made.id)
magnum.wait_for_delete(magnum.get_cluster(made.id), interval=2, wait=240)
equal("delete_cluster and wait_for_delete", None, magnum.find_cluster("sdk-cluster"))

# certificates
key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "admin"), x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters")])
csr = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
pem = csr.public_bytes(serialization.Encoding.PEM).decode()
authority = magnum.get_cluster_certificate(cluster.id)
equal("get_cluster_certificate", True, "BEGIN CERTIFICATE" in authority.pem)
signed = magnum.create_cluster_certificate(cluster_uuid=cluster.id, csr=pem)
leaf = x509.load_pem_x509_certificate(signed.pem.encode())
leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.pem.encode()))
equal("create_cluster_certificate", name, leaf.subject)
refused("a certificate of nonsense", lambda: magnum.create_cluster_certificate(cluster_uuid=cluster.id, csr="x"),
        openstack.exceptions.BadRequestException)

# services
equal("services", ["lab-conductor-1", "lab-conductor-2"], sorted(s.host for s in admin.services() if s.state == "up"))
refused("services for a member", lambda: list(magnum.services()), openstack.exceptions.ForbiddenException)
