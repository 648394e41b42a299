//! What single clients send and understand.

use provider_clients::{ErrorKind, LoadBalancerFilter, NeutronFilter, NewStack, NewTrust, Trust};
use serde_json::{Value, json};

use crate::server::{Reply, Server};
use crate::{new_stack, not_found, stack};

#[tokio::test]
async fn a_stack_is_found_through_heats_redirect_on_our_own_endpoint() {
    let server = Server::cloud(|_, asked, _| match asked.target.as_str() {
        // Another host: what Heat believes to be called.
        "/v1/p1/stacks/s" => Reply::json(302, json!({})).with("Location", "http://heat.invalid:8004/v1/p1/stacks/s/id1"),
        "/v1/p1/stacks/s/id1?resolve_outputs=False" => Reply::json(200, stack("CREATE_COMPLETE")),
        _ => not_found(),
    })
    .await;
    let heat = server.session().heat();
    let found = heat.find_stack("s").await.expect("an answer").expect("a stack");
    assert_eq!((found.id.as_str(), found.status.as_str()), ("id1", "CREATE_COMPLETE"));
    assert_eq!(heat.find_stack("other").await.expect("an answer"), None);
}

#[tokio::test]
async fn outputs_are_asked_for_one_by_one() {
    let server = Server::cloud(|_, asked, _| match asked.target.as_str() {
        "/v1/p1/stacks/s/id1/outputs/api_address" => {
            Reply::json(200, json!({"output": {"output_key": "api_address", "output_value": "10.0.0.1"}}))
        }
        "/v1/p1/stacks/s/id1/outputs/broken" => Reply::json(200, json!({"output": {"output_key": "broken", "output_error": "x"}})),
        _ => not_found(),
    })
    .await;
    let heat = server.session().heat();
    for (output, value) in [("api_address", Some(json!("10.0.0.1"))), ("broken", Some(Value::Null)), ("other", None)] {
        assert_eq!(heat.output("s", "id1", output).await.expect("an answer"), value, "{output}");
    }
}

#[tokio::test]
async fn many_things_are_asked_for_in_addresses_of_a_length_that_services_take() {
    let server = Server::cloud(|_, asked, _| {
        let ids = asked.target.split(['?', '&']).filter_map(|pair| pair.strip_prefix("id="));
        let ports: Vec<Value> = ids.map(|id| json!({"id": id, "fixed_ips": [{"ip_address": "10.0.0.1"}]})).collect();
        Reply::json(200, json!({"ports": ports}))
    })
    .await;
    let ids: Vec<String> = (0..230).map(|number| format!("port-{number}")).collect();
    let filter = NeutronFilter { ids: ids.clone(), ..NeutronFilter::default() };
    let ports = server.session().neutron().ports(&filter).await.expect("ports");
    assert_eq!(ports.into_iter().map(|port| port.id).collect::<Vec<_>>(), ids);
    for some in ids.chunks(40) {
        let asked = some.iter().map(|id| format!("id={id}&")).collect::<String>();
        assert_eq!(server.asked("GET", &format!("/v2.0/ports?{asked}limit=200")).len(), 1, "{} ids", some.len());
    }
}

#[tokio::test]
async fn a_stack_is_sent_whole() {
    let server = Server::cloud(|_, _, _| Reply::json(201, json!({"stack": {"id": "id1"}}))).await;
    let mut new = NewStack { tags: vec!["a".into(), "b".into()], disable_rollback: true, ..new_stack() };
    new.files.insert("kubemaster.yaml".into(), "text".into());
    new.parameters.insert("number_of_masters".into(), 3.into());
    server.session().heat().create_stack(&new).await.expect("made");
    let wanted = json!({"stack_name": "s", "template": "heat_template_version: queens", "files": {"kubemaster.yaml": "text"},
        "parameters": {"number_of_masters": 3}, "timeout_mins": 60, "disable_rollback": true, "tags": "a,b"});
    assert_eq!(server.asked("POST", "/v1/p1/stacks")[0].body, wanted);
}

#[tokio::test]
async fn deleting_what_is_not_there_is_no_error() {
    let server = Server::cloud(|_, asked, _| match asked.target.contains("gone") {
        true => not_found(),
        false => Reply::json(204, Value::Null),
    })
    .await;
    let session = server.session();
    assert!(session.heat().delete_stack("s", "id1").await.expect("deleted"));
    assert!(!session.heat().delete_stack("s", "gone").await.expect("deleted"));
    assert!(!session.keystone().delete_trust("gone").await.expect("deleted"));
    assert!(!session.octavia().delete_load_balancer("gone", true).await.expect("deleted"));
    assert_eq!(server.asked("DELETE", "/v2.0/lbaas/loadbalancers/gone?cascade=true").len(), 1);
    let error = session.keystone().delete_user("").await.expect_err("an empty id");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn members_of_a_pool_are_listed_and_those_that_are_known_to_be_down_are_told_from_others() {
    let member = |id: &str, status: Value| json!({"id": id, "operating_status": status, "protocol_port": 6443});
    let server = Server::cloud(move |_, asked, _| match asked.target.as_str() {
        "/v2.0/lbaas/pools/p/members?limit=200" => {
            let members =
                [("a", "ONLINE"), ("b", "NO_MONITOR"), ("c", "ERROR"), ("d", "OFFLINE")].map(|(id, status)| member(id, status.into()));
            let unsaid = member("e", Value::Null);
            Reply::json(200, json!({"members": members.into_iter().chain([unsaid]).collect::<Vec<_>>(), "members_links": []}))
        }
        _ => not_found(),
    })
    .await;
    let octavia = server.session().octavia();
    let members = octavia.pool_members("p").await.expect("members");
    let down: Vec<&str> = members.iter().filter(|member| member.is_down()).map(|member| member.id.as_str()).collect();
    assert_eq!((members.len(), down), (5, vec!["c", "d"]));
    assert!(octavia.pool_members("gone").await.expect("an answer").is_empty());
}

#[tokio::test]
async fn lists_are_followed_to_their_last_page() {
    let flavor = |n: usize| json!({"id": n.to_string(), "name": format!("f{n}"), "ram": 512, "vcpus": 1, "disk": 0});
    let server = Server::cloud(move |_, asked, _| match asked.target.as_str() {
        "/v2.1/flavors/detail?limit=200" => Reply::json(200, json!({"flavors": (0..200).map(flavor).collect::<Vec<_>>()})),
        // A server with a smaller limit of its own says that there is more.
        "/v2.1/flavors/detail?limit=200&marker=199" => {
            Reply::json(200, json!({"flavors": [flavor(200)], "flavors_links": [{"rel": "next", "href": "x"}]}))
        }
        "/v2.1/flavors/detail?limit=200&marker=200" => Reply::json(200, json!({"flavors": [flavor(201)]})),
        _ => not_found(),
    })
    .await;
    let flavors = server.session().nova().flavors().await.expect("flavours");
    assert_eq!(flavors.len(), 202);
    assert_eq!(flavors[201].name, "f201");
}

#[tokio::test]
async fn look_ups_ask_by_id_and_by_name_and_never_for_everything() {
    let server = Server::cloud(|_, asked, _| {
        let network = json!({"id": "n1", "name": "public", "router:external": true, "subnets": ["s1"]});
        match asked.target.as_str() {
            "/v2.0/networks?router%3Aexternal=True&name=public&limit=200" => Reply::json(200, json!({"networks": [network]})),
            "/v2.0/networks?router%3Aexternal=True&id=public&limit=200" => Reply::json(200, json!({"networks": []})),
            "/v2.0/floatingips?port_id=p&limit=200" => Reply::json(200, json!({"floatingips": [{"id": "f", "port_id": "p"}]})),
            "/v2.0/security-groups?tags=a%2Cb&limit=200" => Reply::json(200, json!({"security_groups": [{"id": "g"}]})),
            "/v2/images?name=fedora&limit=200" => Reply::json(
                200,
                json!({"images": [
                {"id": "i1", "name": "fedora", "status": "active", "os_distro": "fedora-coreos"}, {"id": "i2", "name": "other"}]}),
            ),
            "/v2/images/11111111-1111-4111-8111-111111111111" => Reply::json(403, json!({"message": "Not yours", "code": "403 Forbidden"})),
            "/v2.0/lbaas/loadbalancers?description=mine&limit=200" => {
                Reply::json(200, json!({"loadbalancers": [{"id": "l", "vip_port_id": "p"}]}))
            }
            "/v3/p1/types?limit=200" => Reply::json(200, json!({"volume_types": [{"id": "v", "name": "ssd"}]})),
            _ => not_found(),
        }
    })
    .await;
    let session = server.session();
    let networks = session.neutron().find_networks("public", Some(true)).await.expect("networks");
    assert_eq!((networks.len(), networks[0].external, networks[0].subnets.len()), (1, true, 1));
    let by_port = NeutronFilter { port_id: Some("p".into()), ..NeutronFilter::default() };
    assert_eq!(session.neutron().floating_ips(&by_port).await.expect("floating IPs").len(), 1);
    let by_tags = NeutronFilter { tags: vec!["a".into(), "b".into()], ..NeutronFilter::default() };
    assert_eq!(session.neutron().security_groups(&by_tags).await.expect("groups").len(), 1);
    let images = session.glance().find_images("fedora").await.expect("images");
    assert_eq!((images.len(), images[0].os_distro.as_deref()), (1, Some("fedora-coreos")));
    let error = session.glance().find_images("11111111-1111-4111-8111-111111111111").await.expect_err("forbidden");
    assert_eq!((error.status(), error.message()), (Some(403), "Not yours"));
    let filter = LoadBalancerFilter { description: Some("mine".into()), ..LoadBalancerFilter::default() };
    assert_eq!(session.octavia().load_balancers(&filter).await.expect("balancers")[0].vip_port_id.as_deref(), Some("p"));
    assert_eq!(session.cinder().volume_types().await.expect("types")[0].name, "ssd");
}

fn new_trust() -> NewTrust {
    NewTrust {
        trustor_user_id: "me".into(),
        trustee_user_id: "you".into(),
        project_id: "p".into(),
        roles: vec!["member".into()],
        impersonation: true,
        redelegation_count: 0,
        redelegated_from: None,
    }
}

/// As Keystone shows it; with what is given here in place of what is usual.
fn trust(id: &str, other: Value) -> Value {
    let mut trust = json!({
        "id": id, "trustor_user_id": "me", "trustee_user_id": "you", "project_id": "p", "impersonation": true, "expires_at": null,
        "remaining_uses": null, "redelegation_count": 0, "roles": [{"id": "r1", "name": "member", "links": {}}],
    });
    for (key, value) in other.as_object().expect("an object") {
        trust[key] = value.clone();
    }
    trust
}

#[tokio::test]
async fn how_often_a_trust_may_be_handed_on_is_said_where_keystone_takes_a_number() {
    let server = Server::cloud(|_, _, _| Reply::json(201, json!({"trust": trust("t1", json!({}))}))).await;
    let keystone = server.session().keystone();
    let parent: Trust = serde_json::from_value(trust("t0", json!({"redelegation_count": 2}))).expect("a trust");
    let handed_on = NewTrust { redelegated_from: Some(parent), ..new_trust() };
    for new in
        [new_trust(), NewTrust { redelegation_count: 1, ..new_trust() }, handed_on.clone(), NewTrust { redelegation_count: 1, ..handed_on }]
    {
        assert_eq!(keystone.create_trust(&new).await.expect("made").id, "t1");
    }
    let sent = server.asked("POST", "/v3/OS-TRUST/trusts");
    let said: Vec<_> =
        sent.iter().map(|asked| &asked.body["trust"]).map(|t| (&t["allow_redelegation"], &t["redelegation_count"])).collect();
    let (yes, no, one) = (json!(true), json!(false), json!(1));
    assert_eq!(said, [(&no, &Value::Null), (&yes, &one), (&no, &Value::Null), (&yes, &Value::Null)]);
    assert!(sent.iter().all(|asked| asked.body["trust"]["roles"] == json!([{"name": "member"}])), "{:?}", sent[0].body);
}

#[tokio::test]
async fn a_trust_is_found_among_others_if_it_is_what_is_asked_for() {
    let all = [
        trust("to-another", json!({"trustee_user_id": "other"})),
        trust("another-project", json!({"project_id": "q"})),
        trust("no-impersonation", json!({"impersonation": false})),
        trust("ends", json!({"expires_at": "2030-01-01T00:00:00.000000Z"})),
        trust("few-uses", json!({"remaining_uses": 3})),
        trust("may-be-handed-on", json!({"redelegation_count": 3})),
        trust("was-handed-on", json!({"redelegated_trust_id": "t0"})),
        trust("other-roles", json!({"roles": [{"id": "r2", "name": "reader"}]})),
        trust("more-roles", json!({"roles": [{"id": "r1", "name": "member"}, {"id": "r2", "name": "admin"}]})),
        trust("known", json!({})),
        trust("right", json!({})),
        trust("the-same", json!({})),
    ];
    let server = Server::cloud(move |_, asked, _| match asked.target.strip_prefix("/v3/OS-TRUST/trusts/") {
        Some(id) => all.iter().find(|trust| trust["id"] == id).map_or_else(not_found, |trust| Reply::json(200, json!({"trust": trust}))),
        // A list says nothing of roles.
        None => {
            let mut listed = all.to_vec();
            listed.iter_mut().filter_map(Value::as_object_mut).for_each(|trust| drop(trust.remove("roles")));
            Reply::json(200, json!({"trusts": listed, "links": {"next": null}}))
        }
    })
    .await;
    let keystone = server.session().keystone();
    let known = ["known".to_owned()];
    let (found, others) = keystone.find_trust(&new_trust(), &known).await.expect("an answer");
    assert_eq!(found.map(|trust| trust.id).as_deref(), Some("right"));
    let others: Vec<String> = others.into_iter().map(|trust| trust.id).collect();
    let wrong =
        ["another-project", "no-impersonation", "ends", "few-uses", "may-be-handed-on", "was-handed-on", "other-roles", "more-roles"];
    assert_eq!(others, wrong.into_iter().chain(["the-same"]).collect::<Vec<_>>());
    let nobodys = NewTrust { trustee_user_id: "nobody".into(), ..new_trust() };
    assert_eq!(keystone.find_trust(&nobodys, &[]).await.expect("an answer"), (None, vec![]));
    // What is handed on ends with what it was handed on from, and Keystone counts down by itself.
    let parent = json!({"redelegation_count": 2, "expires_at": "2030-01-01T00:00:00.000000Z"});
    let parent: Trust = serde_json::from_value(trust("t0", parent)).expect("a trust");
    let wanted = NewTrust { redelegation_count: 1, redelegated_from: Some(parent), ..new_trust() };
    let child = |more: Value| -> Trust { serde_json::from_value(trust("child", more)).expect("a trust") };
    let right = json!({"redelegated_trust_id": "t0", "redelegation_count": 1, "expires_at": "2030-01-01T00:00:00.000000Z"});
    assert!(wanted.is_met_by(&child(right.clone())));
    for (key, value) in [("redelegated_trust_id", Value::Null), ("redelegation_count", json!(2)), ("expires_at", Value::Null)] {
        let mut wrong = right.clone();
        wrong[key] = value;
        assert!(!wanted.is_met_by(&child(wrong)), "{key}");
    }
}
