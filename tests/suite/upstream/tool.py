# Upstream's own code on a database: its migration tool, and its objects, which is what its API reads rows through.
# Arguments: `manage` and those of magnum-db-manage; or `read` and a configuration file; or `options`.
import json
import sys

verb, arguments = sys.argv[1], sys.argv[2:]

if verb == "manage":
    sys.argv = ["magnum-db-manage", *arguments]
    from magnum.cmd import db_manage

    sys.exit(db_manage.main())

if verb == "options":
    # All that upstream and the libraries of its processes declare.
    import magnum.conf
    from keystonemiddleware.auth_token import _opts as token
    from magnum.common import policy, rpc, service  # noqa: F401
    from magnum.db.sqlalchemy import models  # noqa: F401
    from oslo_db import options as database
    from oslo_log import _options as log
    from oslo_messaging import opts as messaging
    from oslo_middleware import opts as middleware
    from oslo_policy import opts as rules

    conf = magnum.conf.CONF
    listed = [(name, option.name) for name, group in conf._groups.items() for option in (o["opt"] for o in group._opts.values())]
    listed += [("DEFAULT", o["opt"].name) for o in conf._opts.values()]
    for library in (token, database, log, messaging, middleware, rules):
        listed += [(getattr(group, "name", group) or "DEFAULT", option.name) for group, options in library.list_opts() for option in options]
    print(json.dumps(sorted({(section, name.replace("-", "_")) for section, name in listed})))
    sys.exit()

import magnum.conf

magnum.conf.CONF(["--config-file", arguments[0]], project="magnum")
from magnum import objects
from magnum.common import context

everyone = context.make_admin_context(all_tenants=True)
seen = {}
for kind in ("ClusterTemplate", "Cluster", "Quota", "X509KeyPair", "MagnumService"):
    seen[kind] = getattr(objects, kind).list(everyone)
seen["NodeGroup"] = [group for cluster in seen["Cluster"] for group in objects.NodeGroup.list(everyone, cluster.uuid)]


def plain(one):
    # What a template's or cluster's owner sees; objects within objects are listed on their own.
    return {name: getattr(one, name) for name in one.fields if one.obj_attr_is_set(name) and name != "cluster_template"}


print(json.dumps({kind: [plain(one) for one in rows] for kind, rows in seen.items()}, default=str))
