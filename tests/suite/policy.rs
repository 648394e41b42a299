//! Who may do what, asked of the whole product over HTTP: every route, every kind of caller; and policy files that change while it runs.

use anyhow::{Result, ensure};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, Client, text};
use tests::kubeconfig;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

/// Nobody but the owner, the colleague and an admin, and he on whose behalf a check passes, changes anything: those that may are asked about
/// reads only.
const MAY: u16 = 0;

/// A route, and what each caller is answered: one without a role that counts, a reader, a colleague of the owner, a stranger.
type Line<'a> = (&'a str, &'a str, Value, [u16; 4]);

#[rstest]
#[tokio::test]
async fn every_route_answers_each_kind_of_caller_as_its_policy_says(#[values(Mix::Embedded)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let (_, csr) = kubeconfig::request()?;
    let rename = json!([{"op": "replace", "path": "/name", "value": "other"}]);
    let grow = json!([{"op": "replace", "path": "/node_count", "value": 3}]);
    let group = json!({"name": "more", "node_count": 1});
    let quota = json!({"project_id": world.cloud.project_id("demo"), "resource": "Cluster", "hard_limit": 5});
    let own_quota = format!("/v1/quotas/{}/Cluster", world.cloud.project_id("demo"));
    let path = |start: &str, end: &str| format!("/v1/{start}/{cluster}{end}");
    let (one, groups, templates) = (path("clusters", ""), path("clusters", "/nodegroups"), format!("/v1/clustertemplates/{template}"));
    let worker = format!("{groups}/default-worker");
    let (resize, upgrade) = (path("clusters", "/actions/resize"), path("clusters", "/actions/upgrade"));
    let (certificate, credential) = (path("certificates", ""), path("credentials", ""));
    let none = Value::Null;
    let lines: &[Line<'_>] = &[
        ("GET", "/v1/clusters", none.clone(), [403, 200, 200, 200]),
        ("GET", "/v1/clusters/detail", none.clone(), [403, 200, 200, 200]),
        ("POST", "/v1/clusters", client::cluster("red", &template), [403, 403, MAY, 404]),
        ("GET", &one, none.clone(), [403, 200, 200, 404]),
        ("PATCH", &one, grow.clone(), [403, 403, MAY, 404]),
        ("DELETE", &one, none.clone(), [403, 403, MAY, 404]),
        ("POST", &resize, json!({"node_count": 3}), [403, 403, MAY, 404]),
        ("POST", &upgrade, json!({"cluster_template": template}), [403, 403, MAY, 404]),
        ("POST", &path("clusters", "/actions/cancel"), none.clone(), [403, 403, MAY, 404]),
        ("POST", &path("clusters", "/actions/retry"), none.clone(), [403, 403, MAY, 404]),
        ("POST", &path("clusters", "/actions/force-delete"), none.clone(), [403, 403, 403, 404]),
        ("POST", &path("clusters", "/actions/abandon"), none.clone(), [403, 403, 403, 404]),
        ("GET", "/v1/operations", none.clone(), [403, 200, 200, 200]),
        ("GET", &path("clusters", "/operations"), none.clone(), [403, 200, 200, 404]),
        ("GET", &path("clusters", "/events"), none.clone(), [403, 200, 200, 404]),
        ("GET", &groups, none.clone(), [403, 200, 200, 404]),
        ("POST", &groups, group, [403, 403, MAY, 404]),
        ("GET", &worker, none.clone(), [403, 200, 200, 404]),
        ("PATCH", &worker, json!([{"op": "replace", "path": "/max_node_count", "value": 9}]), [403, 403, MAY, 404]),
        ("DELETE", &worker, none.clone(), [403, 403, MAY, 404]),
        ("GET", "/v1/clustertemplates", none.clone(), [403, 200, 200, 200]),
        ("GET", "/v1/clustertemplates/detail", none.clone(), [403, 200, 200, 200]),
        ("POST", "/v1/clustertemplates", client::template("tall"), [403, 403, MAY, MAY]),
        ("GET", &templates, none.clone(), [403, 200, 200, 404]),
        ("PATCH", &templates, rename, [403, 403, MAY, 404]),
        ("DELETE", &templates, none.clone(), [403, 403, MAY, 404]),
        ("GET", &certificate, none.clone(), [403, 403, 403, 404]),
        ("POST", "/v1/certificates", json!({"cluster_uuid": cluster, "csr": csr}), [403, 403, 403, 400]),
        ("PATCH", &certificate, none.clone(), [403, 403, MAY, 404]),
        ("PATCH", &credential, none.clone(), [403, 403, MAY, 404]),
        ("GET", "/v1/mservices", none.clone(), [403, 403, 403, 403]),
        ("GET", "/v1/quotas", none.clone(), [403, 403, 403, 403]),
        ("POST", "/v1/quotas", quota.clone(), [403, 403, 403, 403]),
        ("GET", &own_quota, none.clone(), [403, 200, 200, 403]),
        ("PATCH", &own_quota, quota, [403, 403, 403, 403]),
        ("DELETE", &own_quota, none.clone(), [403, 403, 403, 403]),
        ("GET", "/v1/stats", none.clone(), [403, 200, 200, 200]),
        ("GET", "/v1/federations", none.clone(), [403, 200, 200, 200]),
        ("GET", "/v1/federations/detail", none.clone(), [403, 200, 200, 200]),
    ];
    let callers = [("nobody", "demo"), ("reader", "demo"), ("member2", "demo"), ("demo2", "demo2")];
    for (column, (user, project)) in callers.into_iter().enumerate() {
        let caller = world.user(user, project);
        for (method, path, body, expected) in lines {
            if expected[column] != MAY {
                let found = ask(&caller, method, path, body).await?;
                ensure!(found == expected[column], "{method} {path} by {user}: {found}, not {}", expected[column]);
            }
        }
        for open in ["/", "/v1", "/healthcheck"] {
            caller.get(open).await?.expect(200)?;
        }
    }
    // An admin of another project sees what is read across projects; nothing above has changed anything.
    let admin = world.user("admin", "admin");
    for path in [&one, &groups, &worker, &templates] {
        ensure!(ask(&admin, "GET", path, &none).await? == 200, "{path}");
    }
    ensure!(text(&demo.cluster(&cluster).await?, "name") == "blue", "the cluster was renamed");
    world.finish().await
}

async fn ask(caller: &Client, method: &str, path: &str, body: &Value) -> Result<u16> {
    let caller = caller.at("latest");
    let body = (!body.is_null()).then(|| body.to_string());
    Ok(caller.send(method.parse()?, path, body).await?.status)
}

#[rstest]
#[tokio::test]
async fn changed_policy_files_are_in_force_without_restart_and_bad_ones_are_not() -> Result<()> {
    let world = World::start(Mix::Distributed, Options { conductors: 1, ..Options::default() }).await?;
    let reader = world.user("reader", "demo");
    let is_refused = async |wanted: bool| {
        wait::until("the policy to be in force in both processes", PATIENCE, async || {
            let answers = [reader.get("/v1/clusters").await?, reader.get("/v1/clusters").await?];
            let refused = answers.iter().filter(|answer| answer.status == 403).count();
            Ok(Seen::when(refused == if wanted { 2 } else { 0 }, || format!("{refused} of 2 refuse")))
        })
        .await
    };
    is_refused(false).await?;
    world.put("policy.yaml", "\"cluster:get_all\": \"role:member\"\n")?;
    is_refused(true).await?;
    reader.get("/v1/clusters").await?.expect_error(403, "Policy doesn't allow cluster:get_all to be performed")?;
    world.put("policy.d/10-open.yaml", "\"cluster:get_all\": \"rule:everybody\"\n\"everybody\": \"@\"\n")?;
    is_refused(false).await?;
    // A file that cannot be read changes nothing; that it was looked at is in the log.
    world.put("policy.d/20-bad.yaml", "\"cluster:get_all\": \"role:member and\"\n")?;
    wait::until("both processes to have refused the file", PATIENCE, async || {
        let complaints = world.logs("api").iter().filter(|log| log.contains("20-bad.yaml: rule cluster:get_all")).count();
        Ok(Seen::when(complaints == 2, || format!("{complaints} of 2")))
    })
    .await?;
    is_refused(false).await?;
    world.put("policy.d/20-bad.yaml", "\"cluster:get_all\": \"!\"\n")?;
    is_refused(true).await?;
    world.finish().await
}
