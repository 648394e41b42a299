# Every `openstack coe` subcommand, its good and its bad end, on a complete cluster $NAME of template $TEMPLATE. Sourced by `run`, whose
# functions it uses.

# refused PATTERN CMD...: the command fails, and says so in these words
refused() { local pattern=$1 out; shift; if out=$("$@" 2>&1); then echo "it was accepted:"; echo "$out"; return 1; fi; grep -qiE "$pattern" <<<"$out" || { echo "no '$pattern' in:"; echo "$out"; return 1; }; }
# workers COUNT STACK: Heat says that so many worker servers are in the stack
workers() {
  local all; all=$(os stack resource list $2 --nested-depth 2 -f value -c resource_name 2>&1)
  grep -qx kube_minions <<<"$all" || { echo "no group of workers in:"; echo "$all"; return 1; }
  equals $1 grep -cx kube-minion <<<"$all"
}

as demo
# ---- templates
check "coe cluster template update" os coe cluster template update $TEMPLATE replace name=$TEMPLATE-x
check "coe cluster template update (back)" os coe cluster template update $TEMPLATE-x replace name=$TEMPLATE
check "coe cluster template update of what is in use is refused" refused 'referenced by|400' os coe cluster template update $TEMPLATE replace flavor_id=m1.medium
check "coe cluster template create with an unknown image is refused" refused 'image|400' os coe cluster template create bad-$$ --coe kubernetes --image nope --external-network public --keypair key
check "coe cluster template create --public is refused to a member" refused "doesn't allow|403" os coe cluster template create pub-$$ --coe kubernetes --image fedora-coreos --external-network public --flavor m1.small --master-flavor m1.small --public
check "coe cluster template list by what is no column is refused" refused 'invalid field for sorting' os coe cluster template list --sort-key nope
check "coe cluster template show of an unknown one" refused 'could not be found|404|not found' os coe cluster template show nope
# The client ends well all the same.
check "coe cluster template delete of what is in use is refused" has 'referenced by' os coe cluster template delete $TEMPLATE

# ---- clusters
check "coe cluster create from an unknown template is refused" refused 'could not be found|404' os coe cluster create bad-$$ --cluster-template nope
check "coe cluster create with an even number of masters is refused" refused 'odd|400' os coe cluster create bad-$$ --cluster-template $TEMPLATE --master-count 2
check "coe cluster list by what is no column is refused" refused 'invalid field for sorting' os coe cluster list --sort-key nope
check "coe cluster show of an unknown one" refused 'could not be found|404|not found' os coe cluster show nope
check "coe cluster delete of an unknown one" refused 'could not be found|404' os coe cluster delete nope
check "coe cluster config of an unknown one" refused 'could not be found|404|not found' os coe cluster config nope
check "coe cluster update of a fixed property is refused" refused 'cannot change|400' os coe cluster update $NAME replace name=other
check "coe cluster upgrade to an unknown template is refused" refused 'could not be found|404' os coe cluster upgrade $NAME nope
check "coe cluster resize of masters is refused" refused 'master|400' os coe cluster resize $NAME 3 --nodegroup default-master
check "coe cluster resize of an unknown group is refused" refused 'could not be found|404' os coe cluster resize $NAME 2 --nodegroup nope

./play-nodes 7200 >$RUN/nodes.log 2>&1 & players=$!
check "coe cluster resize" os coe cluster resize $NAME 2
check "the cluster is UPDATE_IN_PROGRESS at once, or already done" has 'UPDATE_(IN_PROGRESS|COMPLETE)' value coe cluster show $NAME status
check "the resize ends in UPDATE_COMPLETE" settled 900
check "the cluster has two nodes" equals 2 value coe cluster show $NAME node_count
check "Nova: five servers are ACTIVE" count 5 ACTIVE os server list -f value -c Status
all_agree "larger"
first=$(os server list -f value -c ID -c Name | awk '/minion|worker|node/ {print $1; exit}')
check "coe cluster resize --nodes-to-remove" os coe cluster resize $NAME 1 --nodes-to-remove $first
check "the resize ends in UPDATE_COMPLETE (smaller)" settled 900
check "the named server is gone" refused 'No (Server|server)|could not be found|not found' os server show $first
all_agree "smaller"
# Possible from microversion 1.10 on; this client asks for the newest, whatever version it is told.
check "coe cluster resize to no node" os coe cluster resize $NAME 0
check "the resize ends in UPDATE_COMPLETE (no node)" settled 900
check "the cluster has no node" equals 0 value coe cluster show $NAME node_count
check "Heat: the stack has no worker" workers 0 $STACK
check "Nova: the masters are left" count 3 ACTIVE os server list -f value -c Status
all_agree "without a node"
check "coe cluster update (node_count)" os coe cluster update $NAME replace node_count=1
check "the update ends in UPDATE_COMPLETE" settled 900
check "Heat: the stack has one worker" workers 1 $STACK
check "Nova: four servers are ACTIVE" count 4 ACTIVE os server list -f value -c Status
all_agree "with a node again"
check "coe cluster update (health)" os coe cluster update $NAME replace health_status=HEALTHY
check "the health is shown" equals HEALTHY value coe cluster show $NAME health_status

# ---- nodegroups
check "coe nodegroup list" count 2 'default-(master|worker)' os coe nodegroup list $NAME -f value -c name
check "coe nodegroup list of an unknown cluster" refused 'could not be found' os coe nodegroup list nope
check "coe nodegroup create without a node" os coe nodegroup create $NAME gpu --node-count 0 --min-nodes 0 --max-nodes 3 --role gpu --flavor m1.small
check "coe nodegroup create of a taken name is refused" refused 'already|409|exists' os coe nodegroup create $NAME gpu
check "coe nodegroup create outside its bounds is refused" refused 'max_node_count|409' os coe nodegroup create $NAME gpu2 --node-count 5 --min-nodes 1 --max-nodes 2
check "the nodegroup becomes CREATE_COMPLETE" within 900 group_is $NAME gpu CREATE_COMPLETE
stack=$(value coe nodegroup show $NAME gpu stack_id)
check "Heat: its stack has no worker" workers 0 $stack
check "Nova: four servers are ACTIVE still" count 4 ACTIVE os server list -f value -c Status
all_agree "with a nodegroup"
check "coe nodegroup list --role" count 1 gpu os coe nodegroup list $NAME --role gpu -f value -c name
check "coe nodegroup show of an unknown one" refused 'could not be found|404' os coe nodegroup show $NAME nope
check "coe nodegroup update" os coe nodegroup update $NAME gpu replace max_node_count=4
check "the update of the nodegroup ends" settled 900
check "the new bound is shown" equals 4 value coe nodegroup show $NAME gpu max_node_count
check "coe nodegroup update of a fixed property is refused" refused 'internal attribute|400' os coe nodegroup update $NAME gpu replace name=other
check "coe cluster resize above the bound is refused" refused 'outside|400' os coe cluster resize $NAME 9 --nodegroup gpu
check "coe cluster resize --nodegroup" os coe cluster resize $NAME 1 --nodegroup gpu
check "the nodegroup becomes UPDATE_COMPLETE" within 900 group_is $NAME gpu UPDATE_COMPLETE
check "Heat: its stack has one worker" workers 1 $stack
check "Nova: five servers are ACTIVE again" count 5 ACTIVE os server list -f value -c Status
all_agree "with a larger nodegroup"
check "coe nodegroup delete of a default one is refused" refused 'default|400' os coe nodegroup delete $NAME default-worker
check "coe nodegroup delete" os coe nodegroup delete $NAME gpu
check "the nodegroup is gone" within 900 no_group $NAME gpu
check "Heat: its stack is gone" within 300 count 1 . os stack list -f value -c ID
check "Nova: four servers are left" count 4 ACTIVE os server list -f value -c Status
all_agree "without it"

# ---- certificates
check "coe ca show" has 'BEGIN CERTIFICATE' os coe ca show $NAME
check "coe ca show of an unknown cluster" refused 'could not be found|404' os coe ca show nope
openssl req -new -newkey rsa:2048 -nodes -keyout $RUN/sign.key -subj '/CN=admin/O=system:masters' -out $RUN/sign.csr 2>/dev/null
check "coe ca sign" has 'BEGIN CERTIFICATE' os coe ca sign $NAME $RUN/sign.csr
echo nonsense >$RUN/bad.csr; check "coe ca sign of nonsense is refused" refused 'CSR|400' os coe ca sign $NAME $RUN/bad.csr

# ---- quotas, statistics, services (the client's quota commands end well whatever they were told, and print one table only)
as admin
project=$(value project show demo id) other=$(value project show demo2 id)
check "coe quotas create" os coe quotas create --project-id $project --resource Cluster --hard-limit 1
check "coe quotas create of what is there is refused" has 'already' os coe quotas create --project-id $project --resource Cluster --hard-limit 1
check "coe quotas list" has "$project" os coe quotas list --all-tenants
check "coe quotas show" has 'hard_limit +\| 1 ' os coe quotas show --project-id $project --resource Cluster
as demo; check "the quota holds" refused 'maximum|403|limit' os coe cluster create over-$$ --cluster-template $TEMPLATE
as admin
check "coe quotas update" os coe quotas update --project-id $project --resource Cluster --hard-limit 2
check "coe quotas show (updated)" has 'hard_limit +\| 2 ' os coe quotas show --project-id $project --resource Cluster
check "coe quotas update to less than nothing is refused" has 'failed: Invalid input for field/attribute hard_limit' os coe quotas update --project-id $project --resource Cluster --hard-limit -1
check "coe quotas delete" os coe quotas delete --project-id $project --resource Cluster
check "coe quotas delete of what is not there" has 'could not be found' os coe quotas delete --project-id $project --resource Cluster
check "coe quotas update of what is not there" has 'could not be found' os coe quotas update --project-id $project --resource Cluster --hard-limit 2
check "coe stats list" has 'clusters +\| 1 ' os coe stats list $project
as demo
check "coe quotas create is refused to a member" has "doesn't allow" os coe quotas create --project-id $project --resource Cluster --hard-limit 1
check "coe quotas list is refused to a member" refused "doesn't allow" os coe quotas list
# Without a row the default is shown: what is refused is another project's.
check "coe quotas show of another project is refused" refused 'not authorized' os coe quotas show --project-id $other --resource Cluster
check "coe stats list of another project is refused" refused '403|not authorized|allow' os coe stats list $other
check "coe service list is refused to a member" refused "doesn't allow|403" os coe service list

# ---- the SDK
check "openstacksdk: every call of container_infrastructure_management" timeout 300 $CLIENT/bin/python sdk.py $NAME $TEMPLATE
kill $players 2>/dev/null; wait $players 2>/dev/null
