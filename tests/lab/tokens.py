"""How fast our API answers with tokens that it has not seen, which the real Keystone must be asked about, and with those that it has.

Prints requests per second; fails only when an answer is wrong. Run it while a road of the lab has our API running (see README.md):
    . tests/lab/env.sh; as demo; $CLIENT/bin/python tests/lab/tokens.py [TOKENS]
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import requests

CONNECTIONS = 8
AUTH, HOST = os.environ["OS_AUTH_URL"], os.environ["IP"]
LIST = f"http://{HOST}:{os.environ['MAGNUM_PORT']}/v1/clusters?limit=1"


def token(user, password, project):
    domain = {"name": "Default"}
    body = {
        "auth": {
            "identity": {
                "methods": ["password"],
                "password": {"user": {"name": user, "password": password, "domain": domain}},
            },
            "scope": {"project": {"name": project, "domain": domain}},
        }
    }
    answer = requests.post(f"{AUTH}/auth/tokens", json=body, timeout=60)
    answer.raise_for_status()
    return answer.headers["X-Subject-Token"]


def rate(pool, what, each, items):
    began = time.monotonic()
    answers = list(pool.map(each, items))
    took = time.monotonic() - began
    wrong = [status for status in answers if status != 200]
    print(f"{what}: {len(items)} requests, {len(items) / took:.1f} per second, {len(wrong)} wrong", flush=True)
    return len(wrong)


def main():
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    admin = token("admin", "admin", "admin")
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        login = [os.environ[f"OS_{name}"] for name in ("USERNAME", "PASSWORD", "PROJECT_NAME")]
        both = list(pool.map(lambda _: token(*login), range(2 * wanted)))
        tokens, others = both[:wanted], both[wanted:]

        def ask_keystone(subject):
            headers = {"X-Auth-Token": admin, "X-Subject-Token": subject}
            return requests.get(f"{AUTH}/auth/tokens", headers=headers, timeout=60).status_code

        def ask_us(mine):
            return requests.get(LIST, headers={"X-Auth-Token": mine}, timeout=60).status_code

        wrong = rate(pool, "Keystone, asked about a token", ask_keystone, others)
        wrong += rate(pool, "our API, a token that it does not know", ask_us, tokens)
        wrong += rate(pool, "our API, the same tokens", ask_us, tokens * 5)
    return 1 if wrong else 0


sys.exit(main())
