"""Opens every key pair of Magnum's, as upstream's tools would: with Python's cryptography and the passphrase that lies beside it. Those that Barbican
keeps or, with `--rows`, those that come in as JSON, one row of `x509keypair` a line. Prints how many there are; fails when one does not open, or its
key is not the certificate's."""
import json
import os
import sys

import openstack
from cryptography import x509
from cryptography.hazmat.primitives import serialization


def public(key):
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def kept_by_barbican():
    magnum = openstack.connect(auth_url=os.environ["OS_AUTH_URL"], region_name="RegionOne", username="magnum", password=os.environ["SERVICE_PASS"],
                               project_name="service", user_domain_name="Default", project_domain_name="Default")

    def payload(ref):
        answer = magnum.key_manager.get(ref + "/payload", headers={"Accept": "text/plain"})
        assert answer.ok, (ref, answer.status_code, answer.text)
        return answer.content

    for container in magnum.key_manager.containers():
        secrets = {ref["name"]: payload(ref["secret_ref"]) for ref in container.secret_refs}
        yield container.name, secrets["private_key"], secrets.get("private_key_passphrase"), secrets["certificate"]


def rows():
    for line in sys.stdin:
        row = json.loads(line)
        key, passphrase, certificate = (row[name] and row[name].encode() for name in ("private_key", "private_key_passphrase", "certificate"))
        yield row["name"], key, passphrase, certificate


count = 0
for name, key, passphrase, certificate in rows() if sys.argv[1:] == ["--rows"] else kept_by_barbican():
    key = serialization.load_pem_private_key(key, passphrase or None)
    assert public(key.public_key()) == public(x509.load_pem_x509_certificate(certificate).public_key()), name
    count += 1
print(count)
