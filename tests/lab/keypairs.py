"""Opens every key pair that Barbican keeps for Magnum, as upstream's tools would: with Python's cryptography and the passphrase that lies beside
it. Prints how many there are; fails when one does not open, or its key is not the certificate's."""
import os

import openstack
from cryptography import x509
from cryptography.hazmat.primitives import serialization

magnum = openstack.connect(auth_url=os.environ["OS_AUTH_URL"], region_name="RegionOne", username="magnum", password=os.environ["SERVICE_PASS"],
                           project_name="service", user_domain_name="Default", project_domain_name="Default")


def payload(ref):
    answer = magnum.key_manager.get(ref + "/payload", headers={"Accept": "text/plain"})
    assert answer.ok, (ref, answer.status_code, answer.text)
    return answer.content


def public(key):
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


count = 0
for container in magnum.key_manager.containers():
    secrets = {ref["name"]: ref["secret_ref"] for ref in container.secret_refs}
    passphrase = secrets.get("private_key_passphrase")
    key = serialization.load_pem_private_key(payload(secrets["private_key"]), payload(passphrase) if passphrase else None)
    certificate = x509.load_pem_x509_certificate(payload(secrets["certificate"]))
    assert public(key.public_key()) == public(certificate.public_key()), container.name
    count += 1
print(count)
