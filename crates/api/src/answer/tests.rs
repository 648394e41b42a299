use actix_web::body::MessageBody;
use serde_json::{Value, json};

use super::*;
use crate::microversion;

fn at(accept: Accept) -> Failed<'static> {
    Failed { request_id: "req-1", accept, version: Some(MIN), is_head: false, www_authenticate_uri: "http://keystone/v3" }
}

fn body(response: HttpResponse) -> Value {
    let bytes = response.into_body().try_into_bytes().expect("the body is in memory");
    serde_json::from_slice(&bytes).expect("the body is JSON")
}

/// The body that the real Magnum answered, out of a recorded exchange.
fn recorded(text: &str) -> Value {
    let all: Value = serde_json::from_str(text).expect("recorded JSON");
    all[0]["response"]["body"].clone()
}

#[test]
fn a_missing_template_is_told_as_upstream_tells_it() {
    let error = ApiError::NotFound { what: "ClusterTemplate", key: "rec-tpl".into() };
    let response = failed(&error, &at(Accept::NamesJson));
    assert_eq!(response.status(), 404);
    assert_eq!(response.headers().get("openstack-api-version").expect("header"), "container-infrastructure-management 1.1");
    assert_eq!(response.headers().get("vary").expect("header"), "OpenStack-API-Version");
    assert_eq!(
        body(response),
        recorded(include_str!("../../../../tests/recorded/exchanges/20.0.2-032-cli-template-show-other-project.json"))
    );
}

#[test]
fn the_title_ends_at_the_first_full_stop() {
    let error = ApiError::NotFound { what: "Cluster", key: "a.b".into() };
    let told = body(failed(&error, &at(Accept::Any)));
    assert_eq!(told["errors"][0]["title"], "Cluster a");
    assert_eq!(told["errors"][0]["detail"], "Cluster a.b could not be found.");
}

#[test]
fn framework_errors_speak_only_to_clients_that_ask_for_json() {
    let error = ApiError::NoRoute;
    let named = failed(&error, &at(Accept::NamesJson));
    assert!(named.headers().get("openstack-api-version").is_none());
    assert_eq!(body(named), recorded(include_str!("../../../../tests/recorded/exchanges/20.0.2-008-raw-unknown-path.json")));
    let told = body(failed(&ApiError::NotAcceptable("x".into()), &at(Accept::Refuses)));
    assert_eq!(told, recorded(include_str!("../../../../tests/recorded/exchanges/20.0.2-023-raw-accept-html.json")));
}

#[test]
fn bytes_that_are_no_text_are_told_as_the_framework_tells_it() {
    let response = failed(&ApiError::NotText, &at(Accept::NamesJson));
    assert_eq!(response.status(), 400);
    assert!(response.headers().get("openstack-api-version").is_none());
    let told = &body(response)["errors"][0];
    assert_eq!((&told["code"], &told["title"], &told["status"]), (&json!(""), &json!("Bad Request"), &json!(400)));
    assert_eq!(body(failed(&ApiError::NotText, &at(Accept::Any)))["errors"][0]["detail"], "");
}

#[test]
fn a_method_that_is_not_there_names_those_that_are() {
    let error = ApiError::Method { allow: "DELETE, GET, PATCH, POST" };
    let response = failed(&error, &at(Accept::NamesJson));
    assert_eq!(response.headers().get("allow").expect("header"), "DELETE, GET, PATCH, POST");
    assert_eq!(body(response), recorded(include_str!("../../../../tests/recorded/exchanges/20.0.2-022-raw-method-not-allowed.json")));
    let head = failed(&error, &Failed { is_head: true, ..at(Accept::Any) });
    assert_eq!(head.status(), 405);
    assert!(head.into_body().try_into_bytes().expect("in memory").is_empty());
}

#[test]
fn a_version_out_of_range_is_told_in_its_own_form() {
    let error = microversion::parse(Some("container-infra 1.0")).map(|_| ()).map_err(ApiError::from).expect_err("refused");
    let response = failed(&error, &Failed { version: None, ..at(Accept::NamesJson) });
    assert_eq!(response.status(), 406);
    assert_eq!(response.headers().get("openstack-api-version").expect("header"), "container-infrastructure-management 1.0");
    let mut expected = recorded(include_str!("../../../../tests/recorded/exchanges/20.0.2-010-raw-microversion-1.0.json"));
    // Ours ends at 1.14.
    expected["errors"][0]["max_version"] = json!("1.14");
    let told = body(response);
    expected["errors"][0]["description"] = told["errors"][0]["description"].clone();
    assert!(told["errors"][0]["description"].as_str().expect("text").contains("1.1, container-infrastructure-management 1.14]"));
    assert_eq!(told, expected);
    let silent = body(failed(&error, &at(Accept::Any)));
    assert!(silent["errors"][0].get("description").is_none());
}

#[test]
fn a_refused_token_names_keystone() {
    let response = failed(&ApiError::Unauthenticated, &at(Accept::Any));
    assert_eq!(response.status(), 401);
    assert_eq!(response.headers().get("www-authenticate").expect("header"), "Keystone uri=\"http://keystone/v3\"");
    assert_eq!(
        body(response),
        json!({"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}})
    );
}

#[test]
fn faults_say_outside_only_which_request_to_look_for() {
    let error = ApiError::Internal("secret table broke".into());
    let told = body(failed(&error, &at(Accept::Any)));
    assert_eq!(told["errors"][0]["code"], "server");
    let detail = told["errors"][0]["detail"].as_str().expect("text");
    assert!(detail.contains("req-1") && !detail.contains("secret"));
    let down = failed(&ApiError::KeystoneDown("connection refused".into()), &at(Accept::Any));
    assert_eq!(down.status().as_u16(), 503);
    assert_eq!(down.headers().get("content-type").and_then(|v| v.to_str().ok()), Some("text/plain; charset=UTF-8"));
}
