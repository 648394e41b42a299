# A cluster of the Cluster API driver beside the others: its machines are simulated on a management cluster, its credential, images and whatever
# else is asked of OpenStack are real. Sourced by `run`, whose functions it uses.

GREEN=lab-green-$$ CAPI=lab-capi-$$ LATER=lab-capi-next-$$
as demo
head -c 1024 /dev/zero >$RUN/capi.img
# capi_template NAME VERSION: of an image as those for Cluster API are marked; the driver follows from the image
capi_template() {
  local id; id=$(value image create $1 --disk-format raw --container-format bare --property os_distro=ubuntu --property kube_version=$2 --file $RUN/capi.img id)
  os coe cluster template create $1 --coe kubernetes --image $id --external-network public --keypair key --flavor m1.medium --master-flavor m1.medium \
    --master-lb-enabled --dns-nameserver 8.8.8.8
}
releases() { timeout 60 $OS_CAPI_HELM__HELM_PROGRAM --kubeconfig $MANAGEMENT_KUBECONFIG list --all-namespaces --all --short; }
addresses() { os coe nodegroup show $GREEN $1 -f json -c node_addresses | jq '.node_addresses | length'; }
credentials() { os application credential list -f value -c ID; }

must "coe cluster template create (Cluster API)" capi_template $CAPI v1.33.4
must "coe cluster template create (Cluster API, a newer Kubernetes)" capi_template $LATER v1.34.1
must "coe cluster create (Cluster API)" os coe cluster create $GREEN --cluster-template $CAPI --node-count 1 --master-count 1
must "the cluster becomes CREATE_COMPLETE (Cluster API)" within 300 cluster_is $GREEN CREATE_COMPLETE
check "coe cluster list shows clusters of both drivers" count 2 "^($NAME|$GREEN)$" os coe cluster list -f value -c name
check "helm has one release" count 1 '^lab-green-' releases
check "Keystone has one application credential" count 1 . credentials
check "the cluster has an API address" has '^https://203\.0\.113\.[0-9]+:6443$' value coe cluster show $GREEN api_address
mkdir -p $RUN/green
check "coe cluster config (Cluster API)" os coe cluster config $GREEN --dir $RUN/green --output-certs
check "the signed certificate verifies against the cluster's CA" openssl verify -CAfile $RUN/green/ca.pem $RUN/green/cert.pem
check "coe cluster resize (Cluster API)" os coe cluster resize $GREEN 3
check "the resize ends in UPDATE_COMPLETE" within 300 cluster_is $GREEN UPDATE_COMPLETE
check "there are three workers" equals 3 addresses default-worker
check "coe cluster update (Cluster API)" os coe cluster update $GREEN replace node_count=2
check "the update ends in UPDATE_COMPLETE" within 300 cluster_is $GREEN UPDATE_COMPLETE
check "there are two workers" equals 2 addresses default-worker
check "coe nodegroup create (Cluster API)" os coe nodegroup create $GREEN big --node-count 1 --role gpu --flavor m1.medium
check "the nodegroup becomes CREATE_COMPLETE" within 300 group_is $GREEN big CREATE_COMPLETE
check "coe cluster resize --nodegroup" os coe cluster resize $GREEN 2 --nodegroup big
check "the nodegroup has two nodes" within 300 equals 2 addresses big
check "the cluster is at rest" within 300 cluster_is $GREEN UPDATE_COMPLETE
check "coe nodegroup update" os coe nodegroup update $GREEN big replace max_node_count=5
check "the nodegroup takes its bound" within 300 equals 5 value coe nodegroup show $GREEN big max_node_count
check "the cluster is at rest" within 300 cluster_is $GREEN UPDATE_COMPLETE
check "coe nodegroup delete (Cluster API)" os coe nodegroup delete $GREEN big
check "the nodegroup is gone" within 300 no_group $GREEN big
check "the cluster is at rest" within 300 cluster_is $GREEN UPDATE_COMPLETE
old=$(credentials)
# This client has no command for it.
rotate() { curl -sf -m 20 -o /dev/null -X PATCH -H "X-Auth-Token: $(value token issue id)" -H 'OpenStack-API-Version: container-infra 1.12' http://$IP:$MAGNUM_PORT/v1/credentials/$GREEN; }
check "a rotation of the credential" rotate
check "it ends in UPDATE_COMPLETE" within 300 cluster_is $GREEN UPDATE_COMPLETE
check "Keystone has one application credential, another one" bash -c "[ '$old' != '$(credentials)' ]"
check "it is the only one" count 1 . credentials
check "coe cluster upgrade (Cluster API)" os coe cluster upgrade $GREEN $LATER
check "the upgrade ends in UPDATE_COMPLETE" within 300 cluster_is $GREEN UPDATE_COMPLETE
check "the new version is shown" equals v1.34.1 value coe cluster show $GREEN coe_version
check "coe ca rotate is refused with its reason" refused 'controller_deployments' os coe ca rotate $GREEN
check "coe cluster delete (Cluster API)" os coe cluster delete $GREEN
check "the cluster is gone" within 300 no_cluster $GREEN
check "helm has no release" equals "" releases
check "Keystone has no application credential" equals "" credentials
for t in $CAPI $LATER; do
  check "coe cluster template delete" os coe cluster template delete $t
  check "image delete" os image delete $t
done
p=$(pid management); kill -TERM $p
check "the management cluster ends" within 20 bash -c "! kill -0 $p 2>/dev/null"
check "nothing was left on it" count 0 '^left:' cat $OSLAB/log/management.log
