# What somebody has who knows the login that the masters of the cluster $NAME hold, before and after new credentials. Sourced by `replacements`, whose functions
# it uses.

# held: the trustee, his password and the trust of the cluster
held() { sql -N $DATABASE -e "select trustee_user_id, trustee_password, trust_id from cluster where name = '$NAME'"; }
# token_by USER PASSWORD TRUST: a token of the user's through a trust; nothing when Keystone refuses
token_by() {
  curl -s -m 20 -D - -o /dev/null -H 'Content-Type: application/json' $OS_AUTH_URL/auth/tokens -d '{"auth": {"scope": {"OS-TRUST:trust": {"id": "'$3'"}},
    "identity": {"methods": ["password"], "password": {"user": {"id": "'$1'", "password": "'$2'"}}}}}' | tr -d '\r' | sed -n 's/^x-subject-token: //Ip'
}
# hand_on TOKEN TRUST USER: what Keystone says to the one who asks, by a token through a trust, for another one from that for a user
hand_on() {
  curl -s -m 20 -H "X-Auth-Token: $1" $OS_AUTH_URL/OS-TRUST/trusts/$2 | jq --arg taker $3 '{trust: {trustor_user_id: .trust.trustor_user_id,
    trustee_user_id: $taker, project_id: .trust.project_id, impersonation: true, allow_redelegation: true, roles: [.trust.roles[] | {id}]}}' |
    curl -s -m 20 -H "X-Auth-Token: $1" -H 'Content-Type: application/json' -d @- $OS_AUTH_URL/OS-TRUST/trusts
}
# shown TOKEN TRUST FIELD: what a trust says to who has this token
shown() { curl -s -m 20 -H "X-Auth-Token: $1" $OS_AUTH_URL/OS-TRUST/trusts/$2 | jq ".trust.$3"; }
# known TOKEN: the status with which Keystone answers a service that asks whose it is. (To whoever asks with one whose trust is gone it says that there is no
# such trust, not that he is nobody.)
known() { curl -s -m 20 -o /dev/null -w '%{http_code}' -H "X-Auth-Token: $service" -H "X-Subject-Token: $1" $OS_AUTH_URL/auth/tokens; }
# given: the trusts that the trustee was given, by their ids
given() { sql -N keystone -e "select id from trust where trustee_user_id = '$trustee' and deleted_at is null"; }

as admin # who may look up what is named
stranger=$(value user show demo2 id)
as demo
service=$(OS_USERNAME=magnum OS_PASSWORD=$SERVICE_PASS OS_PROJECT_NAME=service value token issue id)
read -r trustee password trust <<<"$(held)"
token=$(token_by $trustee $password $trust)
check "the trust of a cluster whose stacks have an owner may not be handed on" equals 0 shown $token $trust redelegation_count
# Why a trust is not handed on it tells with insecure_debug only; of what somebody may not do otherwise it names the action.
check "Keystone refuses who tries" has '"You are not authorized to perform the requested action\."' hand_on $token $trust $stranger
# As an earlier release made it.
check "Keystone: the trust may be handed on" sql keystone -e "update trust set redelegation_count = 3 where id = '$trust'"
token=$(token_by $trustee $password $trust)
child=$(hand_on $token $trust $stranger | jq -r .trust.id)
stolen=$(token_by $stranger demo2 $child)
check "a user of another project has it handed on to him" equals 200 known $stolen
grandchild=$(hand_on $stolen $child $stranger | jq -r .trust.id)
check "and hands it on" equals 200 known $(token_by $stranger demo2 $grandchild)
# What is new since is what the credentials of then have left.
shut_out() {
  check "new credentials: his token is of no use" equals 404 known $stolen
  check "new credentials: Keystone does not let him in" equals "" token_by $stranger demo2 $child
  check "new credentials: nor by what was made from that" equals "" token_by $stranger demo2 $grandchild
  check "new credentials: the trustee's former password is of no use" equals "" token_by $trustee $password $trust
  local before=$trust
  read -r trustee password trust <<<"$(held)"
  check "new credentials: the trust is another one" test $before != $trust
  check "new credentials: the trustee has no other" equals $trust given
  token=$(token_by $trustee $password $trust)
  check "new credentials: one can log in by it" equals 200 known $token
  check "new credentials: it may not be handed on" equals 0 shown $token $trust redelegation_count
}
