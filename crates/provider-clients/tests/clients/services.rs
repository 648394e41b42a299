//! What single clients send and understand.

use provider_clients::{ErrorKind, LoadBalancerFilter, NeutronFilter, NewStack, NewTrust};
use serde_json::{Value, json};

use crate::server::{Reply, Server};
use crate::{new_stack, not_found, stack};

#[tokio::test]
async fn a_stack_is_found_through_heats_redirect_on_our_own_endpoint() {
    let server = Server::cloud(|_, asked, _| match asked.target.as_str() {
        // Another host: what Heat believes to be called.
        "/v1/p1/stacks/s" => Reply::json(302, json!({})).with("Location", "http://heat.invalid:8004/v1/p1/stacks/s/id1"),
        "/v1/p1/stacks/s/id1" => Reply::json(200, stack("CREATE_COMPLETE")),
        _ => not_found(),
    })
    .await;
    let heat = server.session().heat();
    let found = heat.find_stack("s").await.expect("an answer").expect("a stack");
    assert_eq!((found.id.as_str(), found.status.as_str()), ("id1", "CREATE_COMPLETE"));
    assert_eq!(heat.find_stack("other").await.expect("an answer"), None);
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

#[tokio::test]
async fn a_trust_is_made_and_found_among_others() {
    let trust = |id: &str, trustee: &str| json!({"id": id, "trustor_user_id": "me", "trustee_user_id": trustee, "project_id": "p", "impersonation": true});
    let server = Server::cloud(move |_, asked, _| match asked.method.as_str() {
        "POST" => Reply::json(201, json!({"trust": trust("t1", "you")})),
        _ => Reply::json(200, json!({"trusts": [trust("t0", "other"), trust("t1", "you")], "links": {"next": null}})),
    })
    .await;
    let keystone = server.session().keystone();
    let new = NewTrust {
        trustor_user_id: "me".into(),
        trustee_user_id: "you".into(),
        project_id: "p".into(),
        roles: vec!["member".into()],
        impersonation: true,
        allow_redelegation: true,
    };
    assert_eq!(keystone.create_trust(&new).await.expect("made").id, "t1");
    let sent = &server.asked("POST", "/v3/OS-TRUST/trusts")[0].body["trust"];
    assert_eq!((&sent["roles"], &sent["allow_redelegation"]), (&json!([{"name": "member"}]), &json!(true)));
    assert_eq!(keystone.find_trust("me", "you", None).await.expect("an answer").map(|t| t.id).as_deref(), Some("t1"));
    assert_eq!(keystone.find_trust("me", "you", Some("t1")).await.expect("an answer"), None);
    assert_eq!(keystone.find_trust("me", "nobody", None).await.expect("an answer"), None);
}
