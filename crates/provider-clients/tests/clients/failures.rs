//! What is sent again and what is not, and what errors say and hide.

use std::time::Duration;

use provider_clients::{Cloud, CloudError, CloudOptions, ErrorKind, NewStack, StackUpdate, TlsTrust};
use serde_json::json;

use crate::server::{Reply, Server, password, token};
use crate::{new_stack, stack};

#[tokio::test]
async fn a_503_is_asked_again_for_reads_and_never_for_writes() {
    let server = Server::cloud(|_, asked, before| match (asked.method.as_str(), before) {
        ("GET", 0) => Reply::json(503, json!({})),
        ("GET", 1) => Reply::Lose,
        ("GET", _) => Reply::json(200, stack("CREATE_COMPLETE")),
        _ => Reply::json(503, json!({})),
    })
    .await;
    let heat = server.session().heat();
    assert!(heat.stack("s", "id1").await.expect("the third answer").is_some());
    assert_eq!(server.asked("GET", "/v1/p1/stacks/s/id1?resolve_outputs=False").len(), 3);
    let error = heat.create_stack(&new_stack()).await.expect_err("refused");
    assert!(error.retry_may_help() && error.status() == Some(503) && error.may_have_made());
    assert_eq!(server.asked("POST", "/v1/p1/stacks").len(), 1);
}

#[tokio::test]
async fn a_408_for_a_connection_that_was_idle_fails_no_read() {
    let server = Server::cloud(|_, _, before| match before {
        0 => Reply::json(408, json!({})),
        _ => Reply::json(200, stack("CREATE_COMPLETE")),
    })
    .await;
    let heat = server.session().heat();
    assert!(heat.stack("s", "id1").await.expect("the second answer").is_some());
    let error = heat.create_stack(&new_stack()).await.expect_err("refused");
    assert!(error.retry_may_help() && error.status() == Some(408) && error.may_have_made());
    assert_eq!(server.asked("POST", "/v1/p1/stacks").len(), 1);
}

#[tokio::test]
async fn reads_stop_after_three_tries() {
    let server = Server::cloud(|_, _, _| Reply::json(502, json!({}))).await;
    let error = server.session().nova().keypair("k").await.expect_err("refused");
    assert_eq!(error.status(), Some(502));
    assert_eq!(server.asked("GET", "/v2.1/os-keypairs/k").len(), 3);
}

#[tokio::test]
async fn a_write_without_an_answer_may_have_been_carried_out() {
    for lost in [false, true] {
        let server = Server::cloud(move |_, _, _| if lost { Reply::Lose } else { Reply::Hang }).await;
        let options = CloudOptions { timeout: Duration::from_millis(300), ..server.options() };
        let session = Cloud::new(options).expect("good options").session(password());
        let error = session.heat().create_stack(&new_stack()).await.expect_err("no answer");
        assert_eq!((error.kind(), error.status()), (ErrorKind::Unreachable, None));
        assert!(error.may_have_made() && error.retry_may_help(), "{error}");
        assert_eq!(server.asked("POST", "/v1/p1/stacks").len(), 1);
    }
}

#[tokio::test]
async fn a_write_that_was_never_sent_was_not_carried_out() {
    let server = Server::start(|_, _, _| {
        // Port 1 of loopback: nobody listens.
        Reply::json(201, token("http://127.0.0.1:1")).with("X-Subject-Token", "t")
    })
    .await;
    let error = server.session().heat().create_stack(&new_stack()).await.expect_err("no connection");
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(!error.may_have_made() && error.retry_may_help(), "{error}");
}

#[tokio::test]
async fn of_a_name_that_cannot_be_resolved_the_resolvers_words_are_not_told() {
    // A label of 64 letters: no resolver asks anybody about it.
    let options = CloudOptions::new(format!("http://{}.example/v3", "a".repeat(64)));
    let session = Cloud::new(options).expect("good options").session(password());
    let error = session.info().await.expect_err("no connection");
    assert_eq!((error.kind(), error.message()), (ErrorKind::Unreachable, "no connection: its name cannot be resolved"));
    assert!(error.retry_may_help() && !error.may_have_made(), "{error}");
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_malformed_and_not_repeated_in_the_error() {
    let server = Server::cloud(|_, _, _| Reply::json(201, json!({"stack": {"id": ["top-secret"]}}))).await;
    let error = server.session().heat().create_stack(&new_stack()).await.expect_err("unreadable");
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert!(error.may_have_made());
    assert!(!format!("{error} {error:?}").contains("top-secret"));
}

#[tokio::test]
async fn errors_carry_the_services_own_words_and_request_id() {
    let heat = json!({"explanation": "There was a conflict.", "code": 409, "title": "Conflict",
        "error": {"message": "The Stack (x) already exists.", "traceback": null, "type": "StackExists"}});
    let server = Server::cloud(move |_, asked, _| match asked.target.as_str() {
        "/v1/p1/stacks" => Reply::json(409, heat.clone()).with("X-Openstack-Request-Id", "req-7"),
        "/v2.1/os-keypairs/k" => {
            Reply::json(400, json!({"badRequest": {"code": 400, "message": "Bad name"}})).with("x-compute-request-id", "req-8")
        }
        "/v3/projects/p" => Reply::json(403, json!({"error": {"code": 403, "title": "Forbidden", "message": "You are not authorized"}})),
        _ => Reply::json(500, json!({"NeutronError": {"type": "X", "message": "Request Failed", "detail": ""}})),
    })
    .await;
    let session = server.session();
    let error = session.heat().create_stack(&new_stack()).await.expect_err("conflict");
    assert!(error.is_conflict() && !error.retry_may_help() && error.may_have_made());
    assert_eq!(error.to_string(), "heat stack_create: 409 Conflict: The Stack (x) already exists. (req-7)");
    assert_eq!((error.operation(), error.request_id()), ("stack_create", Some("req-7")));
    let text = |error: CloudError| error.to_string();
    let error = session.nova().keypair("k").await.expect_err("bad request");
    assert_eq!(text(error), "nova keypair_show: 400 Bad Request: Bad name (req-8)");
    let error = session.keystone().project("p").await.expect_err("forbidden");
    assert_eq!(text(error), "keystone project_show: 403 Forbidden: You are not authorized");
    let error = session.neutron().network("n").await.expect_err("broken");
    assert_eq!(text(error), "neutron network_show: 500 Internal Server Error: Request Failed");
}

#[tokio::test]
async fn no_secret_is_shown_even_when_a_service_repeats_it() {
    let server = Server::cloud(|_, _, _| Reply::json(400, json!({"error": {"message": "bad: token-1 and trustee-secret"}}))).await;
    let session = server.session();
    let error = session.keystone().create_user("n", "d", &"trustee-secret".into()).await.expect_err("refused");
    assert_eq!(error.message(), "bad: *** and ***");
    let all = format!("{error:?} {session:?} {:?} {:?}", session.info().await.expect("facts"), session.heat());
    for secret in ["hunter2-secret", "token-1", "trustee-secret"] {
        assert!(!all.contains(secret), "{secret} in {all}");
    }
}

#[tokio::test]
async fn what_a_stack_is_given_in_hidden_parameters_is_not_shown_whole_or_cut_off() {
    let server = Server::cloud(|_, asked, _| {
        let given = asked.body["parameters"]["master_user_data"].as_str().unwrap_or_default();
        let repeated = if asked.method == "POST" { given } else { &given[..900] };
        Reply::json(400, json!({"error": {"message": format!("Parameter master_user_data is invalid: {repeated} (m1.small)")}}))
    })
    .await;
    let heat = server.session().heat();
    let mut new = NewStack { hidden: &["master_user_data", "not_given"], ..new_stack() };
    // Longer than any message is told.
    new.parameters.insert("master_user_data".into(), format!("#cloud-config\n{}", "<c2VjcmV0>\n".repeat(200)).into());
    new.parameters.insert("master_flavor".into(), "m1.small".into());
    let refused = heat.create_stack(&new).await.expect_err("refused");
    assert_eq!(refused.message(), "Parameter master_user_data is invalid: *** (m1.small)");
    let update = StackUpdate { parameters: new.parameters, hidden: new.hidden, ..StackUpdate::default() };
    let refused = heat.update_stack("s", "id1", &update).await.expect_err("refused");
    assert_eq!(refused.message(), "Parameter master_user_data is invalid: *** (m1.small)");
}

#[tokio::test]
async fn a_trust_that_is_gone_is_a_login_failure_and_not_a_missing_stack() {
    let server = Server::start(|_, _, _| Reply::json(404, json!({"error": {"message": "Could not find trust: t."}}))).await;
    let error = server.session().heat().find_stack("s").await.expect_err("no login");
    assert_eq!((error.kind(), error.status()), (ErrorKind::Auth, Some(404)));
    assert!(!error.is_not_found() && error.is_unauthorized() && error.message().contains("Could not find trust"));
}

#[test]
fn options_that_cannot_work_are_refused_at_once() {
    let bad = [
        CloudOptions::new("not a url"),
        CloudOptions::new("ftp://h"),
        CloudOptions { trust: TlsTrust { ca: Some(b"no certificate".to_vec()), ..TlsTrust::default() }, ..CloudOptions::new("https://h") },
    ];
    for options in bad {
        assert_eq!(Cloud::new(options).expect_err("bad options").kind(), ErrorKind::Invalid);
    }
}
