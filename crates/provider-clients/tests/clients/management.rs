//! The management cluster's client: what it asks for where something is only to be there.

use std::time::Duration;

use provider_clients::{CloudError, KubeKind, Kubeconfig, Management, Watchers};
use serde_json::{Value, json};

use crate::server::{Asked, Reply, Server};

const LABELS: &str = "owner=helm,name=r";
const FIRST: &str = "/api/v1/namespaces/n/secrets?limit=1&labelSelector=owner%3Dhelm%2Cname%3Dr";
const SECOND: &str = "/api/v1/namespaces/n/secrets?limit=1&labelSelector=owner%3Dhelm%2Cname%3Dr&continue=more";

fn client(server: &Server) -> Management {
    let config = json!({"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server.url}}], "users": [{"name": "u", "user": {"token": "t"}}]});
    let unread = |_: &str| Err(std::io::Error::other("no files"));
    let config = Kubeconfig::parse(&config.to_string(), &unread).expect("a kubeconfig");
    let time = Duration::from_secs(10);
    Management::new(&config, time, time, Watchers::default()).expect("a client")
}

async fn has_any(server: &Server) -> Result<bool, CloudError> {
    client(server).has_any("secret_list", &KubeKind::new("v1", "Secret", "secrets"), Some("n"), LABELS).await
}

fn page(items: Value, next: &str) -> Reply {
    Reply::json(200, json!({"kind": "PartialObjectMetadataList", "metadata": {"continue": next}, "items": items}))
}

#[tokio::test]
async fn whether_there_is_any_is_asked_without_the_objects_themselves() {
    let server = Server::start(|_, _, _| page(json!([{"metadata": {"name": "s"}}]), "more")).await;
    assert!(has_any(&server).await.expect("an answer"));
    let [asked] = &server.asked("GET", FIRST)[..] else { panic!("it was not asked once") };
    assert!(asked.header("accept").is_some_and(|accept| accept.starts_with("application/json;as=PartialObjectMetadataList;")), "{asked:?}");
    assert!(server.asked("GET", SECOND).is_empty());
}

#[tokio::test]
async fn a_page_without_objects_is_not_the_end() {
    let answer = |more: Value| {
        move |_: &str, asked: &Asked, before: usize| match (asked.target.as_str(), before) {
            (FIRST, _) => page(json!([]), "more"),
            // What it goes on from is forgotten once.
            (_, 0) => Reply::json(410, json!({"kind": "Status", "message": "The provided continue parameter is too old"})),
            _ => page(more.clone(), ""),
        }
    };
    let server = Server::start(answer(json!([{"metadata": {"name": "s"}}]))).await;
    assert!(has_any(&server).await.expect("an answer"));
    assert_eq!([server.asked("GET", FIRST).len(), server.asked("GET", SECOND).len()], [2, 2]);
    let server = Server::start(answer(json!([]))).await;
    assert!(!has_any(&server).await.expect("an answer"));
}

#[tokio::test]
async fn where_there_is_no_such_kind_nothing_is_known() {
    let server = Server::start(|_, _, _| Reply::json(404, json!({"message": "page not found"}))).await;
    let error = has_any(&server).await.expect_err("no secrets");
    assert!(error.retry_may_help() && error.message().contains("does not serve secrets of v1"), "{error}");
}
