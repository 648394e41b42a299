#!/usr/bin/env python3
"""Records what upstream's own policy code decides.

Needs: pip install oslo.policy; and upstream's source, release 20.0.2, unpacked: python3 record.py <unpacked source> <this folder> [what].
Writes defaults.txt (every rule name x roles x ownership x domain), language.jsonl (expressions made at random, and some by hand) and
files.jsonl (whole policy files, by hand). What: one of defaults, language, files; or formerly, with oslo.policy 4.5.1, which writes
files-formerly.jsonl: the files of files.jsonl that it decides otherwise. Without it: the first three.
"""

import importlib.metadata
import itertools
import json
import logging
import os
import random
import sys
import tempfile
import types
import warnings

source, here = sys.argv[1:3]
what = sys.argv[3:]
for name, path in [("magnum", "magnum"), ("magnum.common", "magnum/common")]:
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [f"{source}/{path}"]

from magnum.common import policies  # noqa: E402
from oslo_config import cfg  # noqa: E402
from oslo_policy import policy  # noqa: E402

warnings.simplefilter("ignore")
ROLES = [[], ["reader"], ["member"], ["member", "reader"], ["admin"], ["Admin", "manager", "member", "reader"], ["other"]]
OWNERS = [("p1", "u1"), ("p1", "u2"), ("p2", "u2")]
DOMAINS = ["users", "trustees"]


def defaults():
    with open(f"{here}/defaults.txt", "w") as out:
        out.write("# rule, scope types, then for each of enforce_new_defaults = true and false: roles x owner x domain of the caller\n")
        # Came with a later release, where it rests on the same base rule.
        rules = list(policies.list_rules()) + [
            policy.RuleDefault("credential:rotate", "rule:project_member_deny_cluster_user", scope_types=["project"])]
        enforcers = []
        for new in (True, False):
            conf = cfg.ConfigOpts()
            conf([])
            enforcer = policy.Enforcer(conf, use_conf=True)
            conf.set_override("enforce_new_defaults", new, "oslo_policy")
            enforcer.register_defaults(rules)
            enforcers.append(enforcer)
        for rule in rules:
            columns = []
            for enforcer in enforcers:
                bits = ""
                for roles, owner, domain in itertools.product(ROLES, OWNERS, DOMAINS):
                    # Upstream means the caller's own domain by domain_id in its rule about trustees.
                    creds = {"user_id": "u1", "project_id": "p1", "roles": roles, "user_domain_id": domain}
                    creds["is_admin"] = enforcer.enforce("context_is_admin", {}, dict(creds))
                    target = {"project_id": owner[0], "user_id": owner[1], "trustee_domain_id": "trustees"}
                    # With domain_id in place oslo would take the token for one of a domain; the scope is a matter of its own.
                    enforcer.registered_rules[rule.name].scope_types = None
                    bits += "01"[bool(enforcer.enforce(rule.name, target, creds | {"domain_id": domain}))]
                columns.append(bits)
            scopes = {"credential:rotate": ["project"]}.get(rule.name, None)
            out.write(f"{rule.name} {','.join(scopes or SCOPES.get(rule.name) or ['any'])} {' '.join(columns)}\n")


SCOPES = {rule.name: rule.scope_types for rule in policies.list_rules()}

CREDS = [
    {"user_id": "u1", "user": "u1", "user_name": "anna", "project_id": "p1", "project": "p1", "project_name": "red", "is_admin": False,
     "roles": ["Member", "reader"], "user_domain_id": "users", "trust_id": None, "read_only": False},
    {"user_id": "u2", "user": "u2", "user_name": "bert", "project_id": "p2", "project": "p2", "project_name": "blue", "is_admin": True,
     "roles": ["admin"], "user_domain_id": "trustees", "trust_id": "t1", "read_only": False},
]
TARGETS = [
    {"project_id": "p1", "user_id": "u1", "name": "one", "trustee_domain_id": "trustees", "public": True, "size": 5},
    {"project_id": "p2", "user_id": "u9", "name": "p2", "role": "member"},
]
RULES = {"open": "@", "closed": "!", "mine": "project_id:%(project_id)s", "circleless": "rule:mine or rule:nowhere"}


class Doubts(logging.Handler):
    def emit(self, record):
        self.raised = True


def decide(rule):
    """A word for each pair of caller and target, and whether upstream had doubts about the rule."""
    doubts = Doubts()
    doubts.raised = False
    logger = logging.getLogger("oslo_policy._parser")
    logger.handlers, logger.propagate = [doubts], False
    conf = cfg.ConfigOpts()
    conf([])
    enforcer = policy.Enforcer(conf, use_conf=False)
    try:
        enforcer.set_rules(policy.Rules.from_dict(RULES | {"it": rule}))
    except Exception:
        return "x" * 4, True
    bits = ""
    for creds, target in itertools.product(CREDS, TARGETS):
        try:
            bits += "01"[bool(enforcer.enforce("it", dict(target), dict(creds)))]
        except Exception:
            bits += "x"
    # A bare %s is the whole target as Python prints it: nobody can mean that.
    return bits, doubts.raised or "x" in bits or ":%s" in json.dumps(rule)


rng = random.Random(20)
LEFT = ["role", "role", "rule", "user_id", "project_id", "user_name", "project_name", "is_admin", "roles", "user", "trust_id", "read_only",
        "nothing", "a.b", "'one'", '"member"', "True", "None", "5", "'p2'", "user-id", "Role"]
RIGHT = ["member", "admin", "READER", "%(role)s", "open", "closed", "mine", "nowhere", "circleless", "u1", "p1", "p2", "%(user_id)s",
         "%(project_id)s", "%(name)s", "%(size)s", "%(public)s", "%(missing)s", "x%(user_id)s", "True", "False", "None", "anna", "red",
         "%(trustee_domain_id)s", "100%%", "%%(name)s", "", "a:b", "%(name)s%(name)s"]


def leaf():
    return rng.choice(["@", "!"]) if rng.random() < 0.1 else f"{rng.choice(LEFT)}:{rng.choice(RIGHT)}"


def word(text):
    return rng.choice([text, text, text.upper(), text.title()])


def tree(depth):
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        return leaf()
    if kind < 0.45:
        return f"{word('not')} {tree(depth - 1)}"
    if kind < 0.65:
        inside = tree(depth - 1)
        return rng.choice([f"({inside})", f"( {inside} )", f"(({inside}))"])
    joint = rng.choice([" ", "  ", "\n"])
    return joint.join([tree(depth - 1), word(rng.choice(["and", "or"])), tree(depth - 1)])


SOUP = ["(", ")", "and", "or", "not", "@", "!", "role:admin", "user_id:u1", "word", "'text'", "project_id:%(project_id)s", "((", "))", ":", "x:",
        ":x", "%", "role:%", "role:%s", "role:%(name)d", "is_admin:True", "(role:admin", "role:admin)", "not(role:admin)", "1a:b"]
BY_HAND = ["", " ", [], [[]], [["@"]], ["@"], [[], ["!"]], [["role:admin"], ["role:member", "project_id:p1"]], [["role:member", "role:admin"]],
           ["role:member"], [""], [["role:admin or role:member"]], "not not @", "role:member and not role:admin", "@ or ! and !", "! and ! or @",
           "not @ or @", "not (@ or @)", "not ! and !", "(role:admin or role:member) and (not (role:x))", "and", "not", "()", "role:a role:b"]


def language():
    rules = list(BY_HAND)
    rules += [tree(rng.randint(0, 4)) for _ in range(900)]
    rules += [" ".join(rng.choices(SOUP, k=rng.randint(1, 6))) for _ in range(400)]
    rules += [[[leaf() for _ in range(rng.randint(0, 2))] if rng.random() < 0.6 else leaf() for _ in range(rng.randint(0, 3))] for _ in range(100)]
    with open(f"{here}/language.jsonl", "w") as out:
        out.write(json.dumps({"callers": CREDS, "targets": TARGETS, "rules": RULES}) + "\n")
        seen = set()
        for rule in rules:
            key = json.dumps(rule)
            if key not in seen:
                seen.add(key)
                bits, doubtful = decide(rule)
                out.write(json.dumps({"rule": rule, "decided": bits, "doubtful": doubtful}) + "\n")


OWNER, USER = "is_admin:True or project_id:%(project_id)s", "((rule:context_is_admin) or (rule:is_user))"
OR_CLUSTER_USER, DENY = "((rule:context_is_admin) or (rule:user_or_cluster_user))", "not domain_id:%(trustee_domain_id)s"
OTHER, READER = "role:other", "rule:admin_or_project_reader"
# Overrides of base rules: of one that others replaced (its name begins with rule:), of one that replaced it, of both, and of one that is as it was;
# with the same text, the same rule in other words, and another rule.
FILES = [
    {},
    {"rule:admin_or_owner": OWNER},
    {"rule:admin_or_owner": f"(({OWNER}))"},
    {"rule:admin_or_owner": [["is_admin:True"], ["project_id:%(project_id)s"]]},
    {"rule:admin_or_owner": "project_id:%(project_id)s or is_admin:True"},
    {"rule:admin_or_owner": "rule:admin_or_owner"},
    {"rule:admin_or_owner": OTHER},
    {"rule:admin_or_owner": "@"},
    {"rule:admin_or_owner": "!"},
    # As generated samples have it: the replaced rule means its successor.
    {"rule:admin_or_owner": READER},
    {"rule:admin_or_owner": f"({READER})"},
    {"rule:admin_or_owner": "rule:admin_or_project_member"},
    {"admin_or_project_reader": "(rule:context_is_admin) or (rule:project_reader)"},
    {"admin_or_project_reader": OWNER},
    {"admin_or_project_reader": OTHER},
    {"admin_or_project_reader": "rule:admin_or_owner"},
    {"rule:admin_or_owner": OTHER, "admin_or_project_reader": "role:manager"},
    {"rule:admin_or_owner": OTHER, "admin_or_project_reader": "(rule:context_is_admin) or (rule:project_reader)"},
    {"rule:admin_or_owner": OWNER, "admin_or_project_reader": OTHER},
    {"rule:admin_or_owner": OTHER, "admin_or_project_reader": OTHER, "admin_or_project_member": "!"},
    {"admin_or_owner": OWNER},
    {"admin_or_owner": OTHER},
    {"admin_or_owner": OTHER, "rule:admin_or_owner": "rule:admin_or_owner"},
    {"project_reader": OTHER},
    {"project_reader": OTHER, "rule:admin_or_owner": OWNER},
    {"context_is_admin": OTHER},
    {"context_is_admin": OTHER, "rule:admin_or_owner": "is_admin:True"},
    {"rule:admin_or_user": USER},
    {"rule:admin_or_user": "rule:context_is_admin or rule:is_user"},
    {"rule:admin_or_user": OTHER},
    {"rule:admin_or_user": "rule:admin_or_user"},
    {"rule:admin_or_user_or_cluster_user": OR_CLUSTER_USER},
    {"rule:admin_or_user_or_cluster_user": OTHER, "is_user": OTHER},
    {"rule:deny_cluster_user": DENY},
    {"rule:deny_cluster_user": OTHER},
    {"rule:deny_cluster_user": "@", "project_member_deny_cluster_user": OTHER},
    {"rule:deny_cluster_user": "rule:project_member_deny_cluster_user"},
    {"deny_cluster_user": "@"},
    {"deny_cluster_user": DENY, "rule:deny_cluster_user": DENY},
    {"stats:get_all": OTHER, "rule:admin_or_owner": "@"},
    {"stats:get_all": OWNER},
    {"cluster:get": "rule:rule:deny_cluster_user", "rule:deny_cluster_user": OTHER},
]


def decide_file(rules, file):
    """By rule, a digit for each combination as in defaults.txt: with enforce_new_defaults and without."""
    decided = {"file": file}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "policy.json")
        with open(path, "w") as out:
            json.dump(file, out)
        for key, new in [("new", True), ("old", False)]:
            conf = cfg.ConfigOpts()
            conf([])
            enforcer = policy.Enforcer(conf, policy_file=path)
            conf.set_override("enforce_new_defaults", new, "oslo_policy")
            enforcer.register_defaults(rules)
            asked = [rule.name for rule in rules if rule.deprecated_rule] + ["admin_or_owner", "stats:get_all", "cluster:get"]
            decided[key] = {}
            for name in asked:
                enforcer.registered_rules[name].scope_types = None
                bits = ""
                for roles, owner, domain in itertools.product(ROLES, OWNERS, DOMAINS):
                    creds = {"user_id": "u1", "project_id": "p1", "roles": roles, "user_domain_id": domain}
                    creds["is_admin"] = enforcer.enforce("context_is_admin", {}, dict(creds))
                    target = {"project_id": owner[0], "user_id": owner[1], "trustee_domain_id": "trustees"}
                    bits += "01"[bool(enforcer.enforce(name, target, creds | {"domain_id": domain}))]
                decided[key][name] = bits
    return decided


def files(name, but=()):
    """Writes what is decided, but for lines that are known already."""
    rules = list(policies.list_rules())
    with open(f"{here}/{name}", "w") as out:
        out.write(json.dumps({"oslo.policy": importlib.metadata.version("oslo.policy")}) + "\n")
        for file in FILES:
            line = json.dumps(decide_file(rules, file)) + "\n"
            if line not in but:
                out.write(line)


def formerly():
    with open(f"{here}/files.jsonl") as known:
        files("files-formerly.jsonl", set(known))


if not what or "defaults" in what:
    defaults()
if not what or "language" in what:
    language()
if not what or "files" in what:
    files("files.jsonl")
if "formerly" in what:
    formerly()
