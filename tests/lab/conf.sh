# Pieces of configuration files that several services share; sourced by config.sh and run.
db() { echo "mysql+pymysql://$DB_USER:$DB_PASS@$IP:$DB_PORT/$1?charset=utf8mb4"; }
amqp="transport_url = rabbit://$AMQP_USER:$AMQP_PASS@$IP:$AMQP_PORT//"
creds() { cat <<X
auth_type = password
auth_url = $OS_AUTH_URL
username = $1
password = $SERVICE_PASS
project_name = service
user_domain_name = Default
project_domain_name = Default
region_name = RegionOne
X
}
authtoken() { cat <<X
[keystone_authtoken]
www_authenticate_uri = $OS_AUTH_URL
memcached_servers = $IP:$MEMCACHED_PORT
memcache_security_strategy = ENCRYPT
memcache_secret_key = oslab
service_token_roles_required = true
service_type = $2
$(creds $1)
X
}
common() { cat <<X
[oslo_concurrency]
lock_path = $OSLAB/data/$1/lock
[oslo_messaging_notifications]
driver = noop
X
[ "$2" = defaults ] || printf '[oslo_policy]\nenforce_scope = %s\nenforce_new_defaults = %s\n' ${2:-true} ${2:-true}
}
