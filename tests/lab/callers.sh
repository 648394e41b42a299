# Callers who came to their token by other ways than a password, and services that ask for others. Sourced by `run`, whose functions it uses.

as demo
# ---- application credentials
# new_credential NAME OPTION...: sets CREDENTIAL and SECRET
new_credential() { local name=$1; shift; SECRET=$(openssl rand -hex 16); CREDENTIAL=$(value application credential create $name --secret $SECRET "$@" id); }
by_credential() {
  env -u OS_USERNAME -u OS_PASSWORD -u OS_PROJECT_NAME -u OS_USER_DOMAIN_NAME -u OS_PROJECT_DOMAIN_NAME OS_AUTH_TYPE=v3applicationcredential \
    OS_APPLICATION_CREDENTIAL_ID=$CREDENTIAL OS_APPLICATION_CREDENTIAL_SECRET=$SECRET timeout 60 openstack "$@"
}
new_credential restricted
check "a restricted application credential shows clusters" has "$NAME" by_credential coe cluster list -f value -c name
check "none is made for it" refused 'restricted application credential' by_credential coe cluster create bad-$$ --cluster-template $TEMPLATE
check "application credential delete" os application credential delete $CREDENTIAL
# This Keystone makes no trust for the other kind either.
new_credential unrestricted --unrestricted
check "an unrestricted one shows clusters" has "$NAME" by_credential coe cluster list -f value -c name
check "none is made for it, and the reason is told" refused 'Keystone makes none with the token of an application' by_credential coe cluster create bad-$$ --cluster-template $TEMPLATE
check "application credential delete (unrestricted)" os application credential delete $CREDENTIAL

# ---- a trust that may not be handed on
as admin # who may look up what is named
giver=$(value user show demo id) taker=$(value user show demo2 id) role=$(value role show member id)
as demo
trust=$(value trust create --project $project --role $role --impersonate $giver $taker id)
through() { curl -s -m 20 -D - -o /dev/null -H 'Content-Type: application/json' $OS_AUTH_URL/auth/tokens -d '{"auth": {"scope": {"OS-TRUST:trust": {"id": "'$1'"}},
  "identity": {"methods": ["password"], "password": {"user": {"name": "demo2", "password": "demo2", "domain": {"name": "Default"}}}}}}' | tr -d '\r' | sed -n 's/^x-subject-token: //Ip'; }
delegated=$(through $trust)
by_trust() { curl -s -m 20 -H "X-Auth-Token: $delegated" -H 'Content-Type: application/json' "${@:2}" http://$IP:$MAGNUM_PORT/v1/$1; }
check "who acts by a trust sees its giver's cluster" equals $UUID bash -c "jq -r .uuid <<<'$(by_trust clusters/$NAME | jq -c "{uuid}")'"
check "none is made by a trust that may not be handed on" has 'may not be handed on' by_trust clusters -d '{"name": "bad", "cluster_template_id": "'$TEMPLATE'"}'
check "trust delete" os trust delete $trust

# ---- a service that asks in somebody's name
service=$(OS_USERNAME=magnum OS_PASSWORD=$SERVICE_PASS OS_PROJECT_NAME=service value token issue id) own=$(value token issue id)
asked() { equals $1 curl -s -m 20 -o /dev/null -w '%{http_code}' -H "X-Auth-Token: $own" -H "X-Service-Token: $2" http://$IP:$MAGNUM_PORT/v1/clusters/$UUID; }
check "a token beside a service's is good" asked 200 $service
check "beside a user's, who is no service, it is refused" asked 401 $own
check "beside nonsense it is refused" asked 401 nonsense
check "the project's clusters are as they were" count 1 . os coe cluster list -f value -c name
