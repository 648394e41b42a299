# Upgrades on the complete cluster $NAME of template $TEMPLATE, which has three masters and two workers, and a rotation of authorities on one without a load balancer.
# Sourced by `run`, whose functions it uses. (`replacements` rotates those of a cluster with three masters.)

NEXT=lab-next-$$ PLAIN=lab-plain-$$ ZONE=clusters.example.org.
servers() { os server list -f value -c Name | sort | tr '\n' ' '; }
replaced() { local now; now=$(servers); for name in $1; do case " $now " in *" $name "*) echo "$name is there still"; return 1;; esac; done; }

as demo
head -c 1024 /dev/zero >$RUN/next.img
image=$(value image create next-$$ --disk-format raw --container-format bare --property os_distro=fedora-coreos --file $RUN/next.img id)
must "coe cluster template create (a newer Kubernetes, another image)" os coe cluster template create $NEXT --coe kubernetes --image $image \
  --external-network public --keypair key --flavor m1.small --master-flavor m1.small --master-lb-enabled --floating-ip-enabled \
  --network-driver calico --dns-nameserver 8.8.8.8 --labels kube_tag=v1.37.1
old=$(servers) count=$(os server list -f value -c ID | wc -l) address=$(value coe cluster show $NAME api_address)
./play-nodes 7200 >$RUN/upgrade-nodes.log 2>&1 & players=$!

check "coe nodegroup create" os coe nodegroup create $NAME late --node-count 1
check "the nodegroup becomes CREATE_COMPLETE" within 900 group_is $NAME late CREATE_COMPLETE
check "coe cluster upgrade of a group to another template than its cluster's is refused" refused 'template of its cluster|409' os coe cluster upgrade $NAME $NEXT --nodegroup late
since=$(date -u +%FT%TZ)
check "coe cluster upgrade" os coe cluster upgrade $NAME $NEXT --max-batch-size 2
check "the upgrade ends in UPDATE_COMPLETE" settled 2400
check "every node was replaced" replaced "$old"
check "Heat and Nova tell what came and went" tell_history $STACK
check "Heat: each master went when its successor was complete, before the next one came; then two workers came at once, and two went" \
  came_and_went '^\+m3 -m0 \+m4 -m1 \+m5 -m2 \+w[0-9]+ \+w[0-9]+ -w[0-9]+ -w[0-9]+$'
check "Nova: there were three masters at any time, and one more at most" masters_at_once "3 to 4"
check "each new master saw off its predecessor before it was ready" seen_off $RUN/upgrade-nodes.log "3 for 0 4 for 1 5 for 2"
check "the cluster has the addresses of three masters" equals 3 masters_of $NAME
all_agree "upgraded"
check "Nova: as many servers as before, and the group's" count $((count + 1)) ACTIVE os server list -f value -c Status
check "the new servers are of the new image" count $count $image os server list -f value -c 'Image ID'
check "the cluster is of the new template" equals "$(value coe cluster template show $NEXT uuid)" value coe cluster show $NAME cluster_template_id
check "the new version is shown" equals v1.37.1 value coe cluster show $NAME coe_version
check "the API has the address that it had" equals "$address" value coe cluster show $NAME api_address
check "Octavia: the load balancer has the new masters only" count 3 . os loadbalancer member list $(value loadbalancer pool list id | head -n 1) -f value -c id
check "coe cluster upgrade back is refused" refused 'go back|400' os coe cluster upgrade $NAME $TEMPLATE
group=$(os server list -f value -c Name | grep late | tr '\n' ' ')
check "coe cluster upgrade --nodegroup" os coe cluster upgrade $NAME $NEXT --nodegroup late
check "the upgrade of the group ends" settled 900
check "the group's node was replaced" replaced "$group"
all_agree "its group upgraded"
check "coe nodegroup delete" os coe nodegroup delete $NAME late
check "the nodegroup is gone" within 900 no_group $NAME late
all_agree "its group gone"

# ---- one master that holds the API's address itself, and a user who leaves: with him goes the trust of the cluster
as admin
check "user create" os user create --domain Default --password leaver leaver
for role in member load-balancer_member creator; do check "role add $role" os role add --user leaver --project demo $role; done
as leaver demo
ssh-keygen -q -t ed25519 -N '' -f $RUN/leaver </dev/null
check "keypair create" os keypair create --public-key $RUN/leaver.pub key
must "coe cluster create without a load balancer, with a name in DNS" os coe cluster create $PLAIN --cluster-template $NEXT --node-count 1 \
  --master-lb-disabled --merge-labels --labels api_dns_zone=$ZONE
check "the cluster becomes CREATE_COMPLETE" within 900 cluster_is $PLAIN CREATE_COMPLETE
address=$(value coe cluster show $PLAIN api_address) old=$(os server list -f value -c Name | grep $PLAIN | tr '\n' ' ')
named() { equals "$(sed 's,https://\(.*\):6443,\1,' <<<"$address")" value recordset show $ZONE $PLAIN.$ZONE records; }
check "Designate: the API has its name" named
# Not between his leaving and the new credentials: the trust that goes with him is in the inventory until then.
all_agree "another one made"
as admin
check "user delete" os user delete --domain Default leaver
# Certificates are shown to a cluster's owner: somebody else must become it.
transfer() { ask clusters/$PLAIN/actions/transfer -X POST -H 'Content-Type: application/json' -d "{\"user_id\": \"$1\"}"; }
check "a user without a role in the project does not get the cluster" has 'has no role in project' transfer "$(value user show demo2 id)"
check "the cluster is handed to another user" has '"uuid"' transfer "$(value user show demo id)"
as demo
authorities() { ask certificates/$PLAIN | jq -r .pem; }
check "the API has a floating IP" has "$(sed 's,https://\(.*\):6443,\1,' <<<"$address")" os floating ip list -f value -c 'Floating IP Address'
# The trust of who has left is useless: the new owner gives one of his.
rotate_credentials() { ask credentials/$PLAIN -X PATCH -o /dev/null -w '%{http_code}'; }
check "PATCH /v1/credentials" equals 202 rotate_credentials
check "the rotation of the credentials ends in UPDATE_COMPLETE" within 900 cluster_is $PLAIN UPDATE_COMPLETE
check "the master was replaced" replaced "$(grep -o '[^ ]*master[^ ]*' <<<"$old")"
old=$(os server list -f value -c Name | grep $PLAIN | tr '\n' ' ')
os coe ca show $PLAIN >$RUN/ca.before
check "coe ca rotate" os coe ca rotate $PLAIN
check "in between both authorities are shown" within 900 count 2 'BEGIN CERTIFICATE' authorities
check "the rotation ends in UPDATE_COMPLETE" within 2400 cluster_is $PLAIN UPDATE_COMPLETE
check "every node was replaced" replaced "$old"
check "Nova: one master, of the fourth generation" count 1 "$PLAIN-.*master-4$" os server list -f value -c Name
check "the API has the address that it had" equals "$address" value coe cluster show $PLAIN api_address
check "Designate: it has its name" named
check "one authority is shown" count 1 'BEGIN CERTIFICATE' os coe ca show $PLAIN
check "it is another one" differs $RUN/ca.before os coe ca show $PLAIN
rm -rf $RUN/rotated; mkdir -p $RUN/rotated
check "coe cluster config after the rotation" os coe cluster config $PLAIN --dir $RUN/rotated --output-certs
check "the signed certificate verifies against the new authority" openssl verify -CAfile $RUN/rotated/ca.pem $RUN/rotated/cert.pem
all_agree "rotated"
check "coe cluster resize of a cluster whose user is gone" os coe cluster resize $PLAIN 2
check "the resize ends in UPDATE_COMPLETE" within 900 cluster_is $PLAIN UPDATE_COMPLETE
check "it has two workers" equals 2 value coe cluster show $PLAIN node_count
all_agree "larger, of another user"
check "coe cluster delete" os coe cluster delete $PLAIN
check "the cluster is gone" within 900 no_cluster $PLAIN
all_agree "the other one gone"
check "image delete" os image delete $image
kill $players 2>/dev/null; wait $players 2>/dev/null; players=
