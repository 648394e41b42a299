# Writes every service's configuration under $OSLAB/etc; services find it as ~/.SERVICE with HOME=$OSLAB/home.
set -e
. "$(dirname "${BASH_SOURCE[0]}")/infra.sh"
. "$LAB/conf.sh"
for s in keystone heat glance placement nova neutron octavia barbican cinder designate; do
  mkdir -p $OSLAB/etc/$s $OSLAB/data/$s; ln -sfn $OSLAB/etc/$s $OSLAB/home/.$s
done
cat >$OSLAB/etc/keystone/keystone.conf <<X
[DEFAULT]
[database]
connection = $(db keystone)
[identity]
# The fewest: each start of a client logs in, and a hash of the usual 12 takes a third of a second of a CPU.
password_hash_rounds = 4
[token]
provider = fernet
expiration = 86400
allow_expired_window = 172800
[fernet_tokens]
key_repository = $OSLAB/data/keystone/fernet
[credential]
key_repository = $OSLAB/data/keystone/credential
[cache]
enabled = true
backend = oslo_cache.memcache_pool
memcache_servers = $IP:$MEMCACHED_PORT
X
cat >$OSLAB/etc/heat/heat.conf <<X
[DEFAULT]
$amqp
heat_metadata_server_url = http://$IP:$HEAT_CFN_PORT
heat_waitcondition_server_url = http://$IP:$HEAT_CFN_PORT/v1/waitcondition
stack_user_domain_name = heat_user_domain
stack_domain_admin = heat_domain_admin
stack_domain_admin_password = $SERVICE_PASS
deferred_auth_method = trusts
num_engine_workers = 2
# Upstream's stack of 3+100 nodes has more than the usual 1000.
max_resources_per_stack = -1
# A large stack begins the stacks of all its nodes at once, and for each an engine waits for another's answer: on two cores longer than the usual 60 s.
rpc_response_timeout = 600
region_name_for_services = RegionOne
server_keystone_endpoint_type = public
auth_encryption_key = 0123456789abcdef0123456789abcdef
[database]
connection = $(db heat)
[heat_api]
workers = 1
bind_host = $IP
[trustee]
$(creds heat | grep -v ^project)
[clients]
endpoint_type = publicURL
[clients_keystone]
auth_uri = http://$IP:$KEYSTONE_PORT
[ec2authtoken]
auth_uri = $OS_AUTH_URL
$(authtoken heat orchestration)
$(common heat false)
X
cp $VENV/etc/heat/api-paste.ini $OSLAB/etc/heat/; cp -r $VENV/etc/heat/environment.d $VENV/etc/heat/templates $OSLAB/etc/heat/
cat >$OSLAB/etc/glance/glance-api.conf <<X
[DEFAULT]
bind_host = $IP
bind_port = $GLANCE_PORT
workers = 1
enabled_backends = file:file
[database]
connection = $(db glance)
[glance_store]
default_backend = file
[file]
filesystem_store_datadir = $OSLAB/data/glance/images
[os_glance_staging_store]
filesystem_store_datadir = $OSLAB/data/glance/staging
[os_glance_tasks_store]
filesystem_store_datadir = $OSLAB/data/glance/tasks
[paste_deploy]
flavor = keystone
$(authtoken glance image)
$(common glance)
X
cp $VENV/etc/glance/glance-api-paste.ini $OSLAB/etc/glance/
cat >$OSLAB/etc/placement/placement.conf <<X
[placement_database]
connection = $(db placement)
[api]
auth_strategy = keystone
$(authtoken placement placement)
X
cat >$OSLAB/etc/nova/nova.conf <<X
[DEFAULT]
$amqp
# the fake driver that keeps its node's identity: with the plain one nova-compute refuses to start a second time
compute_driver = fake.FakeDriverWithoutFakeNodes
host = lab
my_ip = $IP
state_path = $OSLAB/data/nova
enabled_apis = osapi_compute
default_ephemeral_format = ext4
allow_resize_to_same_host = true
[api_database]
connection = $(db nova_api)
[database]
connection = $(db nova)
[scheduler]
workers = 1
discover_hosts_in_cells_interval = 30
[conductor]
workers = 1
[vnc]
enabled = false
[glance]
api_servers = http://$IP:$GLANCE_PORT
[placement]
$(creds placement)
[neutron]
$(creds neutron)
service_metadata_proxy = true
[cinder]
os_region_name = RegionOne
catalog_info = block-storage:cinder:publicURL
$(creds cinder)
[service_user]
send_service_user_token = true
$(creds nova)
$(authtoken nova compute)
$(common nova)
X
cp $VENV/etc/nova/api-paste.ini $OSLAB/etc/nova/
cat >$OSLAB/etc/neutron/neutron.conf <<X
[DEFAULT]
$amqp
core_plugin = ml2
service_plugins = router
auth_strategy = keystone
api_workers = 1
rpc_workers = 1
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
state_path = $OSLAB/data/neutron
api_paste_config = $OSLAB/etc/neutron/api-paste.ini
dhcp_agent_notification = false
[database]
connection = $(db neutron)
[ml2]
type_drivers = flat,vxlan
tenant_network_types = vxlan
# openvswitch binds ports through the agent row that setup.py writes: no agent runs.
mechanism_drivers = openvswitch
extension_drivers = port_security
[ml2_type_flat]
flat_networks = public
[ml2_type_vxlan]
vni_ranges = 1:10000
[quotas]
quota_network = -1
quota_subnet = -1
quota_port = -1
quota_router = -1
quota_floatingip = -1
quota_security_group = -1
quota_security_group_rule = -1
$(authtoken neutron network)
$(common neutron)
X
cp $VENV/etc/neutron/api-paste.ini $OSLAB/etc/neutron/
cat >$OSLAB/etc/octavia/octavia.conf <<X
[DEFAULT]
$amqp
[api_settings]
bind_host = $IP
bind_port = $OCTAVIA_PORT
enabled_provider_drivers = amphora:amphora with the noop drivers,octavia:alias of amphora
default_provider_driver = amphora
[database]
connection = $(db octavia)
[oslo_messaging]
topic = octavia_prov
[controller_worker]
amphora_driver = amphora_noop_driver
compute_driver = compute_noop_driver
network_driver = allowed_address_pairs_driver
volume_driver = volume_noop_driver
image_driver = image_noop_driver
amp_flavor_id = 1
amp_image_tag = amphora
amp_boot_network_list = 00000000-0000-0000-0000-000000000000
workers = 1
client_ca = $OSLAB/data/octavia/ca.pem
[certificates]
cert_manager = noop_cert_manager
cert_generator = local_cert_generator
ca_certificate = $OSLAB/data/octavia/ca.pem
ca_private_key = $OSLAB/data/octavia/ca.key
ca_private_key_passphrase = octavia
server_certs_key_passphrase = insecure-key-do-not-use-this-key
[health_manager]
heartbeat_key = oslab
[service_auth]
$(creds octavia)
$(authtoken octavia load-balancer)
$(common octavia false)
X
# The worker plugs nothing but deletes the VIP's port (octavia_vip_driver.py); the API above makes that port for real.
printf '[controller_worker]\nnetwork_driver = lab_vip_only\n' >$OSLAB/etc/octavia/worker.conf
[ -f $OSLAB/data/octavia/ca.pem ] || openssl req -x509 -newkey rsa:2048 -days 3650 -subj /CN=oslab -passout pass:octavia \
  -keyout $OSLAB/data/octavia/ca.key -out $OSLAB/data/octavia/ca.pem 2>/dev/null
cat >$OSLAB/etc/barbican/barbican.conf <<X
[DEFAULT]
host_href = http://$IP:$BARBICAN_PORT
$amqp
[database]
connection = $(db barbican)
[secretstore]
enabled_secretstore_plugins = store_crypto
[crypto]
enabled_crypto_plugins = simple_crypto
[simple_crypto_plugin]
kek = dGhpcnR5X3R3b19ieXRlX2tleWJsYWhibGFoYmxhaGg=
[queue]
enable = false
$(authtoken barbican key-manager)
$(common barbican)
X
cp $VENV/etc/barbican/barbican-api-paste.ini $OSLAB/etc/barbican/
cat >$OSLAB/etc/barbican/app.py <<X
from paste import deploy
from barbican.api import app  # noqa: reads the configuration
application = deploy.loadapp('config:$OSLAB/etc/barbican/barbican-api-paste.ini')
X
cat >$OSLAB/etc/cinder/cinder.conf <<X
[DEFAULT]
$amqp
auth_strategy = keystone
state_path = $OSLAB/data/cinder
host = lab
my_ip = $IP
enabled_backends = fake
default_volume_type = fake
api_paste_config = $OSLAB/etc/cinder/api-paste.ini
rootwrap_config = $OSLAB/etc/cinder/rootwrap.conf
resource_query_filters_file = $OSLAB/etc/cinder/resource_filters.json
[fake]
volume_driver = cinder.tests.fake_driver.FakeLoggingVolumeDriver
volume_backend_name = fake
[database]
connection = $(db cinder)
$(authtoken cinder block-storage)
[service_user]
send_service_user_token = true
$(creds cinder)
$(common cinder)
X
cp $VENV/etc/cinder/* -r $OSLAB/etc/cinder/
cat >$OSLAB/etc/designate/designate.conf <<X
[DEFAULT]
$amqp
state_path = $OSLAB/data/designate
[storage:sqlalchemy]
connection = $(db designate)
[service:api]
api_base_uri = http://$IP:$DESIGNATE_PORT/
auth_strategy = keystone
enable_host_header = false
[service:central]
workers = 1
[service:worker]
workers = 1
# The stand-in for the nameserver answers at once.
poll_delay = 0
poll_retry_interval = 1
[producer_task:increment_serial]
interval = 1
$(authtoken designate dns)
$(common designate)
X
cp $VENV/etc/designate/api-paste.ini $OSLAB/etc/designate/
cat >$OSLAB/etc/designate/pools.yaml <<X
- name: default
  description: zones of the lab, which no nameserver serves
  attributes: {}
  ns_records:
    - {hostname: ns.example.org., priority: 1}
  nameservers:
    - {host: $IP, port: $NAMESERVER_STUB_PORT}
  targets:
    - type: fake
      description: told of a change, and nothing else
      masters:
        - {host: $IP, port: $NAMESERVER_STUB_PORT}
      options: {host: $IP, port: $NAMESERVER_STUB_PORT}
X
