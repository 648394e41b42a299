//! States that upstream never left: each has an exit, by itself or by whoever asks for the deletion.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT_ENCODING, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rstest::rstest;
use serde_json::json;
use tests::client::{self, Client, text};
use tests::database::copy;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Statuses in which something is being done.
const IN_PROGRESS: [&str; 4] = ["CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS", "ROLLBACK_IN_PROGRESS"];

/// What was written then is nobody's any more.
const AN_HOUR_AGO: &str = "UTC_TIMESTAMP() - INTERVAL 1 HOUR";

/// A cluster as another service left it when it was stopped before it had made anything: rows in this status, without stack and trust, else
/// like those of another cluster.
async fn cut_off(world: &World, pattern: &str, status: &str) -> Result<String> {
    let cut = uuid::Uuid::new_v4().to_string();
    let (named, word) = (format!("'{cut}'"), format!("'{status}'"));
    let mut conn = world.database()?.open().await?;
    let left = [
        ("created_at", AN_HOUR_AGO),
        ("updated_at", AN_HOUR_AGO),
        ("status", word.as_str()),
        ("status_reason", "NULL"),
        ("stack_id", "NULL"),
    ];
    let of_group = [("uuid", "UUID()"), ("cluster_id", named.as_str()), ("node_addresses", "'[]'")];
    let set: Vec<(&str, &str)> = left.into_iter().chain(of_group).collect();
    copy(&mut conn, "nodegroup", &set, &format!("(SELECT 1) AS once WHERE original.cluster_id = '{pattern}'")).await?;
    let nothing = [
        "trust_id",
        "trustee_username",
        "trustee_user_id",
        "trustee_password",
        "api_address",
        "coe_version",
        "ca_cert_ref",
        "magnum_cert_ref",
        "etcd_ca_cert_ref",
        "front_proxy_ca_cert_ref",
    ];
    let of_cluster = [("uuid", named.as_str()), ("name", "'cut'")].into_iter().chain(nothing.map(|column| (column, "NULL")));
    let set: Vec<(&str, &str)> = left.into_iter().chain(of_cluster).collect();
    copy(&mut conn, "cluster", &set, &format!("(SELECT 1) AS once WHERE original.uuid = '{pattern}'")).await?;
    conn.disconnect().await?;
    Ok(cut)
}

/// A poll looked at no cluster without a stack, and no request was sent to one in progress: such a row stayed as it was for ever.
#[tokio::test]
async fn w10_a_cluster_in_progress_without_a_stack_can_be_deleted() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let pattern = world.complete_cluster(&demo).await?;
    let asked = world.cloud.calls("heat.stack_create");
    // The last one is a word that none of the service's own is.
    for status in IN_PROGRESS.into_iter().chain(["SUSPEND_IN_PROGRESS"]) {
        let cut = cut_off(&world, &pattern, status).await?;
        demo.delete_cluster(&cut).await.with_context(|| status.to_owned())?;
        demo.wait_gone(&cut, PATIENCE).await.with_context(|| status.to_owned())?;
    }
    ensure!(world.cloud.calls("heat.stack_create") == asked && world.cloud.calls("heat.stack_delete") == 0);
    ensure!(demo.cluster(&pattern).await?["status"] == "CREATE_COMPLETE");
    world.finish().await
}

/// Nor did it ever come to an end by itself: nothing timed out.
#[tokio::test]
async fn w10_a_cluster_in_progress_without_a_stack_is_taken_up_and_comes_to_an_end_with_a_reason() -> Result<()> {
    let world = World::start(Mix::Distributed, Options::sweeping()).await?;
    let demo = world.demo();
    let pattern = world.complete_cluster(&demo).await?;
    for status in IN_PROGRESS {
        let cut = cut_off(&world, &pattern, status).await?;
        let ended = wait::until(&format!("the end of {status}"), PATIENCE, async || {
            let answer = demo.get(&format!("/v1/clusters/{cut}")).await?;
            if answer.status == 404 {
                return Ok(Seen::Yes(None));
            }
            let shown = answer.expect(200)?.body;
            let is_over = text(&shown, "status").ends_with("_FAILED");
            Ok(if is_over { Seen::Yes(Some(shown)) } else { Seen::Instead(shown.to_string()) })
        })
        .await?;
        ensure!(ended.is_none() == (status == "DELETE_IN_PROGRESS"), "{status} ended as {ended:?}");
        if let Some(failed) = ended {
            ensure!(!text(&failed, "status_reason").is_empty(), "{status} failed for no reason: {failed}");
            demo.delete_cluster(&cut).await?;
            demo.wait_gone(&cut, PATIENCE).await?;
        }
    }
    world.finish().await
}

/// Keystone lets the service give no roles: clusters depend on their trusts.
fn keep_roles(world: &World) {
    let how = How::Status(403, "You are not authorized to perform the requested action: identity:create_grant.".to_owned());
    world.cloud.inject(Fault { at: "keystone.role_grant".to_owned(), nth: 0, how });
}

async fn trust(world: &World, cluster: &str) -> Result<String> {
    let found: Vec<String> = world.database()?.rows(&format!("SELECT trust_id FROM cluster WHERE uuid = '{cluster}'")).await?;
    found.into_iter().next().context("a trust")
}

/// How a trust stops to work; Keystone has other words for each.
#[derive(Clone, Copy, Debug)]
enum Broken {
    Removed,
    RoleTaken,
    PasswordUnknown,
}

/// A poll knew one text of an error for a trust that was broken; with any other the cluster stayed in progress.
#[rstest]
#[tokio::test]
async fn w10_a_trust_that_breaks_ends_the_operation_with_a_reason_and_does_not_keep_the_cluster(
    #[values(Broken::Removed, Broken::RoleTaken, Broken::PasswordUnknown)] broken: Broken,
) -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    keep_roles(&world);
    let cluster = world.complete_cluster(&world.demo()).await?;
    let stack = world.only_stack().await?;
    world.cloud.hold_stacks(true);
    let token = world.token("demo", "demo");
    world.client(Some(&token)).resize(&cluster, 3).await?;
    let colleague = world.user("member2", "demo");
    world.progress_is_told(&colleague, &cluster).await?;
    let was_there = match broken {
        Broken::Removed => world.cloud.remove_trust(&trust(&world, &cluster).await?),
        Broken::RoleTaken => world.cloud.take_role("demo", "demo", "creator"),
        Broken::PasswordUnknown => {
            let of_trustees = format!("_{}", world.cloud.project_id("demo"));
            world.cloud.change_passwords(&of_trustees, "nobody knows it") == 1
        }
    };
    ensure!(was_there, "nothing was broken");
    // Nor is there anybody else in whose name it could go on.
    world.cloud.revoke_token(&token);
    ensure!(world.cloud.complete_stack(&stack));
    world.cloud.hold_stacks(false);
    let failed = colleague.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("ask again"), "{failed}");
    world.keep_secrets_of_stacks();
    colleague.delete_cluster(&cluster).await?;
    colleague.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// Who asks for the deletion once more, or nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Again,
    ByNobody,
}

/// With the stack of the default groups went the trust; that of another group was reached by nobody then, and the deletion never ended.
#[rstest]
#[tokio::test]
async fn w10_a_groups_stack_that_is_left_without_trust_goes_with_its_cluster(
    #[values(Asked::Again, Asked::ByNobody)] asked: Asked,
) -> Result<()> {
    let options = if asked == Asked::Again { Options::default() } else { Options::sweeping() };
    let world = World::start(Mix::Distributed, options).await?;
    keep_roles(&world);
    let demo = world.demo().at("1.10");
    let cluster = world.complete_cluster(&demo).await?;
    let own = world.only_stack().await?;
    demo.post(&format!("/v1/clusters/{cluster}/nodegroups"), &json!({"name": "more", "node_count": 1})).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    ensure!(world.cloud.remove_trust(&trust(&world, &cluster).await?) && world.cloud.remove_stack(&own));
    ensure!(world.cloud.stacks().len() == 1, "{:?}", world.cloud.stacks());
    let left = format!("status = 'DELETE_IN_PROGRESS', updated_at = {AN_HOUR_AGO}");
    for sql in [
        format!("UPDATE nodegroup SET {left} WHERE cluster_id = '{cluster}'"),
        format!("UPDATE cluster SET trust_id = NULL, status_reason = NULL, {left} WHERE uuid = '{cluster}'"),
    ] {
        world.database()?.execute(&sql, Vec::new()).await?;
    }
    if asked == Asked::Again {
        demo.delete_cluster(&cluster).await?;
    }
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(world.cloud.stacks().is_empty(), "{:?}", world.cloud.stacks());
    world.finish().await
}

/// Stands before the cloud, and may have another word for the status of each stack that is not being deleted.
struct Translator {
    address: String,
    place: Arc<Place>,
    serving: JoinHandle<()>,
}

struct Place {
    http: reqwest::Client,
    /// Where the cloud is, and where it is said to be.
    cloud: String,
    address: String,
    word: Mutex<Option<&'static str>>,
}

impl Translator {
    async fn start(cloud: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listen")?;
        let address = format!("http://{}", listener.local_addr()?);
        let place = Arc::new(Place { http: client::http()?, cloud: cloud.to_owned(), address: address.clone(), word: Mutex::default() });
        let shared = place.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = shared.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| carry(shared.clone(), request));
                    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(Self { address, place, serving })
    }

    /// From now on stacks have this status; none: their own.
    fn say(&self, word: Option<&'static str>) {
        *self.place.word.lock().unwrap_or_else(PoisonError::into_inner) = word;
    }
}

impl Drop for Translator {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// One request to the cloud and its answer.
async fn carry(place: Arc<Place>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().context("a path")?.as_str();
    let mut asked = place.http.request(parts.method, format!("{}{path}", place.cloud)).body(body.collect().await?.to_bytes());
    for (name, value) in parts.headers.iter().filter(|(name, _)| ![HOST, CONTENT_LENGTH, ACCEPT_ENCODING].contains(name)) {
        asked = asked.header(name, value);
    }
    let answer = asked.send().await?;
    let mut told = Response::builder().status(answer.status());
    for (name, value) in answer.headers().iter().filter(|(name, _)| ![CONTENT_LENGTH, TRANSFER_ENCODING].contains(name)) {
        told = told.header(name, value);
    }
    let text = answer.text().await?.replace(&place.cloud, &place.address);
    let word = *place.word.lock().unwrap_or_else(PoisonError::into_inner);
    let text = match word {
        Some(word) => translated(&text, word),
        None => text,
    };
    Ok(told.body(Full::from(text))?)
}

fn translated(text: &str, word: &str) -> String {
    const KEY: &str = "\"stack_status\":\"";
    let mut parts = text.split(KEY);
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (status, rest) = part.split_once('"').unwrap_or((part, ""));
        let status = if status.starts_with("DELETE_") { status } else { word };
        for piece in [KEY, status, "\"", rest] {
            all.push_str(piece);
        }
    }
    all
}

/// A world whose one conductor reaches the cloud through a translator.
async fn translating() -> Result<(World, Client, Translator)> {
    let mut world = World::start(Mix::Distributed, Options { conductors: 0, ..Options::default() }).await?;
    let translator = Translator::start(world.auth_url.strip_suffix("/identity/v3").context("the address of the cloud")?).await?;
    world.set_conductor_settings(&format!("[keystone_auth]\nauth_url = {}/identity/v3\n", translator.address));
    world.start_conductor()?;
    let demo = world.demo();
    Ok((world, demo, translator))
}

/// A word outside upstream's enumeration could not be stored: the cluster stayed in progress.
#[rstest]
#[case::of_heats_that_upstream_does_not_know("SUSPEND_FAILED")]
#[case::of_one_that_somebody_suspended("SUSPEND_COMPLETE")]
#[case::in_heats_form("OUT_OF_ORDER")]
#[case::of_no_form("STRANGE")]
#[tokio::test]
async fn w10_a_stack_in_a_status_that_nobody_knows_fails_its_cluster_which_can_be_deleted(#[case] word: &'static str) -> Result<()> {
    let (world, demo, translator) = translating().await?;
    translator.say(Some(word));
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    let failed = demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains(word), "{failed}");
    world.keep_secrets_of_stacks();
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(world.cloud.calls("heat.stack_create") == 1 && world.cloud.stacks().is_empty(), "{:?}", world.cloud.stacks());
    world.finish().await
}

/// The same of a stack that was at work: it came to its end, and nobody heard of it.
#[tokio::test]
async fn w10_a_stack_at_work_under_a_word_that_upstream_does_not_know_is_followed_to_its_end() -> Result<()> {
    let (world, demo, translator) = translating().await?;
    translator.say(Some("CHECK_IN_PROGRESS"));
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    world.progress_is_told(&demo, &cluster).await?;
    translator.say(None);
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    world.finish().await
}

/// Heat may have forgotten a deletion that was under way, as when the engine that was at it died: whoever deletes the cluster asks for it himself.
#[tokio::test]
async fn a_stack_that_is_being_deleted_is_asked_to_go_by_each_deletion() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let (demo, admin) = (world.demo(), world.user("admin", "admin"));
    let cluster = world.complete_cluster(&demo).await?;
    world.cloud.hold_stacks(true);
    let asked = async |times: usize| {
        wait::until("requests to delete the stack", PATIENCE, async || {
            let calls = world.cloud.calls("heat.stack_delete");
            Ok(Seen::when(calls == times, || format!("{calls} calls")))
        })
        .await
    };
    demo.delete_cluster(&cluster).await?;
    asked(1).await?;
    admin.post(&format!("/v1/clusters/{cluster}/actions/force-delete"), &json!({})).await?.expect(202)?;
    asked(2).await?;
    world.cloud.hold_stacks(false);
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(world.cloud.calls("heat.stack_delete") == 2, "once by each");
    world.finish().await
}
