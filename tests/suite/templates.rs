//! Cluster templates: all verbs.

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How, TokenScope};
use futures::future;
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, text};
use tests::nodes;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

#[rstest]
#[tokio::test]
async fn a_template_is_created_read_changed_and_deleted(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let created = demo.post("/v1/clustertemplates", &client::template("small")).await?.expect(201)?;
    let uuid = text(&created.body, "uuid");
    ensure!(created.header("location").ends_with(&format!("/v1/clustertemplates/{uuid}")), "{:?}", created.headers);
    ensure!(created.body["cluster_distro"] == "fedora-coreos", "{}", created.text);

    let path = format!("/v1/clustertemplates/{uuid}");
    let shown = demo.get(&path).await?.expect(200)?.body;
    ensure!(shown["name"] == "small" && shown["network_driver"] == "flannel" && shown["public"] == false, "{shown}");
    let by_name = demo.get("/v1/clustertemplates/small").await?.expect(200)?.body;
    ensure!(by_name["uuid"] == uuid.as_str(), "{by_name}");
    let list = demo.get("/v1/clustertemplates").await?.expect(200)?.body;
    ensure!(list["clustertemplates"][0]["uuid"] == uuid.as_str(), "{list}");

    let patch =
        json!([{"op": "replace", "path": "/name", "value": "larger"}, {"op": "replace", "path": "/flavor_id", "value": "m1.medium"}]);
    let patched = demo.patch(&path, &patch).await?.expect(200)?.body;
    ensure!(patched["name"] == "larger" && patched["flavor_id"] == "m1.medium", "{patched}");
    ensure!(demo.get(&path).await?.body["name"] == "larger");

    let stranger = world.user("demo2", "demo2");
    stranger.get(&path).await?.expect_error(404, &uuid)?;
    stranger.patch(&path, &patch).await?.expect_error(404, &uuid)?;
    stranger.delete(&path).await?.expect_error(404, &uuid)?;
    let public = json!([{"op": "replace", "path": "/public", "value": true}]);
    demo.patch(&path, &public).await?.expect_error(403, "publish")?;
    world.user("admin", "admin").delete(&path).await?.expect(204)?;
    demo.get(&path).await?.expect_error(404, &uuid)?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_template_in_use_can_not_be_deleted(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    let path = format!("/v1/clustertemplates/{template}");
    demo.delete(&path).await?.expect_error(400, &template)?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    demo.delete(&path).await?.expect(204)?;
    world.finish().await
}

/// Old databases have clusters whose template's row is gone: whoever makes one of that uuid would say what their nodes are made of.
#[tokio::test]
async fn no_template_is_made_under_a_uuid_that_a_cluster_refers_to() -> Result<()> {
    let world = World::start(Mix::Distributed, Options { apis: 1, conductors: 1, ..Options::default() }).await?;
    let (demo, stranger) = (world.demo(), world.user("demo2", "demo2"));
    let (there, gone) = (demo.create_template("there").await?, demo.create_template("gone").await?);
    let cluster = demo.create_cluster("blue", &gone).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let aside = "00000000-0000-4000-8000-000000000001";
    let rename = |from: &str, to: &str| format!("UPDATE cluster_template SET uuid = '{to}' WHERE uuid = '{from}'");
    world.database()?.execute(&rename(&gone, aside), Vec::new()).await?;
    let under = |uuid: &str| {
        let mut body = client::template("mine");
        body["uuid"] = json!(uuid);
        body
    };
    for caller in [&demo, &stranger] {
        let taken = caller.post("/v1/clustertemplates", &under(&there)).await?.expect_error(409, &there)?;
        let refused = caller.post("/v1/clustertemplates", &under(&gone)).await?.expect_error(409, &gone)?;
        ensure!(refused.text == taken.text.replace(&there, &gone), "{} is not {}", refused.text, taken.text);
    }
    world.database()?.execute(&rename(aside, &gone), Vec::new()).await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    demo.delete(&format!("/v1/clustertemplates/{gone}")).await?.expect(204)?;
    // Now nobody refers to it.
    let made = stranger.post("/v1/clustertemplates", &under(&gone)).await?.expect(201)?;
    ensure!(made.uuid()? == gone, "{}", made.text);
    world.finish().await
}

#[tokio::test]
async fn the_configured_driver_serves_what_names_none() -> Result<()> {
    let configured = |api: &str| Options { apis: 1, conductors: 1, api: api.to_owned(), ..Options::default() };
    let absent = World::start(Mix::Distributed, configured("[drivers]\ndefault_driver = nosuch\n")).await?;
    let mut body = client::template("small");
    absent.demo().post("/v1/clustertemplates", &body).await?.expect_error(400, "Driver nosuch is not installed.")?;
    body["driver"] = json!("k8s_fedora_coreos_v1");
    absent.demo().post("/v1/clustertemplates", &body).await?.expect(201)?;
    absent.finish().await?;

    // Without it the triple decides. No driver serves this one: the first takes the template, and makes no cluster of it.
    let usual = World::start(Mix::Distributed, configured("")).await?;
    let mut body = client::template("small");
    body["server_type"] = json!("bm");
    let made = usual.demo().post("/v1/clustertemplates", &body).await?.expect(201)?.body;
    ensure!(made["driver"] == "k8s_fedora_coreos_v1" && made["server_type"] == "bm", "{made}");
    let cluster = client::cluster("blue", &text(&made, "uuid"));
    usual.demo().post("/v1/clusters", &cluster).await?.expect_error(400, "(bm, fedora-coreos, kubernetes) not supported")?;
    // Whoever may be disabled: without any driver there are no templates.
    let none = configured("[drivers]\ndisabled_drivers = k8s_fedora_coreos_v1\n");
    let none = World::start(Mix::Distributed, none).await?;
    none.demo().post("/v1/clustertemplates", &body).await?.expect_error(400, "(bm, fedora-coreos, kubernetes) not supported")?;
    none.finish().await?;
    usual.finish().await?;
    let there = World::start(Mix::Distributed, configured("[drivers]\ndefault_driver = k8s_fedora_coreos_v1\n")).await?;
    let made = there.demo().post("/v1/clustertemplates", &body).await?.expect(201)?.body;
    ensure!(made["driver"] == "k8s_fedora_coreos_v1", "{made}");
    there.finish().await
}

#[tokio::test]
async fn an_image_of_flatcar_makes_a_cluster_of_the_heat_driver() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo();
    let mut body = client::template("flat");
    body["image_id"] = json!("flatcar");
    let made = demo.post("/v1/clustertemplates", &body).await?.expect(201)?.body;
    ensure!(made["driver"] == "k8s_fedora_coreos_v1" && made["cluster_distro"] == "flatcar", "{made}");
    let cluster = demo.create_cluster("blue", &text(&made, "uuid")).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let masters = nodes::masters(&world)?;
    let settings = nodes::file(&masters, "/etc/kubernetes-bootstrap/node.env")?;
    ensure!(settings.contains("PROGRAMS='/opt/bin'\n"), "{settings}");
    ensure!(nodes::file(&masters, "/etc/flatcar/update.conf")?.contains("SERVER=disabled\n"), "nodes update themselves");
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn the_distribution_is_the_images_unless_a_patch_says_another(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let mut body = client::template("small");
    body["cluster_distro"] = json!("flatcar");
    let made = demo.post("/v1/clustertemplates", &body).await?.expect(201)?.body;
    ensure!(made["cluster_distro"] == "fedora-coreos", "{made}");
    let path = format!("/v1/clustertemplates/{}", text(&made, "uuid"));
    let replace = |field: &str, value: &str| json!({"op": "replace", "path": field, "value": value});
    let named = replace("/cluster_distro", "flatcar");
    for (patch, distro) in [
        (json!([named]), "flatcar"),
        (json!([replace("/flavor_id", "m1.medium")]), "flatcar"),
        (json!([replace("/image_id", "ubuntu-capi")]), "ubuntu"),
        (json!([replace("/image_id", "fedora-coreos"), named]), "flatcar"),
    ] {
        let patched = demo.patch(&path, &patch).await?.expect(200)?.body;
        ensure!(patched["cluster_distro"] == distro, "{patch}: {patched}");
        let shown = demo.get(&path).await?.expect(200)?.body;
        ensure!(shown["cluster_distro"] == distro, "{patch}: {shown}");
    }
    world.finish().await
}

#[tokio::test]
async fn what_came_under_other_rules_stands_in_the_way_of_no_other_change() -> Result<()> {
    let world = World::start(Mix::Distributed, Options { apis: 1, conductors: 1, ..Options::default() }).await?;
    let demo = world.demo();
    let uuid = demo.create_template("small").await?;
    let odd = "UPDATE cluster_template SET docker_storage_driver = 'devicemapper', dns_nameserver = 'ns1.example.org'";
    world.database()?.execute(odd, Vec::new()).await?;
    let path = format!("/v1/clustertemplates/{uuid}");
    let replace = |field: &str, value: Value| json!([{"op": "replace", "path": field, "value": value}]);
    let patched = demo.patch(&path, &replace("/flavor_id", json!("m1.medium"))).await?.expect(200)?.body;
    ensure!(patched["flavor_id"] == "m1.medium" && patched["dns_nameserver"] == "ns1.example.org", "{patched}");
    demo.patch(&path, &replace("/docker_volume_size", json!(2))).await?.expect_error(400, "docker_volume_size")?;
    demo.patch(&path, &replace("/dns_nameserver", json!("ns2.example.org"))).await?.expect_error(400, "ns2.example.org")?;
    demo.patch(&path, &replace("/docker_volume_size", json!(3))).await?.expect(200)?;
    world.finish().await
}

#[tokio::test]
async fn a_label_that_came_under_other_rules_stands_in_the_way_of_no_other_label() -> Result<()> {
    let world = World::start(Mix::Distributed, Options { apis: 1, conductors: 1, ..Options::default() }).await?;
    let demo = world.demo();
    let uuid = demo.create_template("small").await?;
    let odd = r#"UPDATE cluster_template SET labels = '{"ingress_controller": "traefik"}'"#;
    world.database()?.execute(odd, Vec::new()).await?;
    let path = format!("/v1/clustertemplates/{uuid}");
    let patch = |op: &str, path: &str, value: &str| json!([{"op": op, "path": path, "value": value}]);
    let whole = "{'ingress_controller': 'traefik', 'kube_tag': 'v1.33.5'}";
    for (patch, labels) in [
        (patch("add", "/labels/flannel_backend", "host-gw"), json!({"ingress_controller": "traefik", "flannel_backend": "host-gw"})),
        (patch("replace", "/labels", whole), json!({"ingress_controller": "traefik", "kube_tag": "v1.33.5"})),
    ] {
        let patched = demo.patch(&path, &patch).await?.expect(200)?.body;
        ensure!(patched["labels"] == labels, "{patch}: {patched}");
    }
    for (patch, word) in [
        (patch("add", "/labels/flannel_backend", "ipsec"), "labels[flannel_backend]"),
        (patch("replace", "/labels/ingress_controller", "haproxy"), "labels[ingress_controller]"),
        (patch("replace", "/labels", "{'ingress_controller': 'traefik', 'boot_volume_size': 'ten'}"), "labels[boot_volume_size]"),
    ] {
        demo.patch(&path, &patch).await?.expect_error(400, word)?;
    }
    let shown = demo.get(&path).await?.expect(200)?.body;
    ensure!(shown["labels"] == json!({"ingress_controller": "traefik", "kube_tag": "v1.33.5"}), "{shown}");
    // What has been put right cannot be made wrong again.
    demo.patch(&path, &patch("replace", "/labels/ingress_controller", "nginx")).await?.expect(200)?;
    demo.patch(&path, &patch("replace", "/labels/ingress_controller", "traefik")).await?.expect_error(400, "labels[ingress_controller]")?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn of_patches_at_once_none_that_was_taken_is_lost(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let path = format!("/v1/clustertemplates/{}", demo.create_template("small").await?);
    let mut expected = demo.get(&path).await?.expect(200)?.body;
    // Many in a second, so that the times of changes do not tell them apart.
    for round in 0..20 {
        let changes = [("http_proxy", format!("http://proxy-{round}.example.org")), ("no_proxy", format!("host-{round}.example.org"))];
        // Each has read the template when the other writes it.
        world.cloud.inject(Fault { at: "nova.flavor_list".to_owned(), nth: 0, how: How::Hold });
        let both = future::try_join_all(changes.iter().map(|(field, value)| {
            let (demo, path) = (&demo, &path);
            let patch = json!([{"op": "replace", "path": format!("/{field}"), "value": value}]);
            async move { demo.patch(path, &patch).await }
        }));
        let released = async {
            let held = async || Ok(Seen::when(world.cloud.held() == 2, || format!("{} held", world.cloud.held())));
            wait::until("both to ask the cloud", PATIENCE, held).await?;
            world.cloud.clear_faults();
            world.cloud.let_go();
            anyhow::Ok(())
        };
        let (answers, ()) = tokio::try_join!(both, released)?;
        ensure!(answers.iter().any(|answer| answer.status == 200), "round {round}: none was taken: {answers:?}");
        for ((field, value), answer) in changes.into_iter().zip(answers) {
            if answer.status == 200 {
                expected[field] = json!(value);
            } else {
                answer.expect_error(409, "template")?;
            }
        }
        let shown = demo.get(&path).await?.expect(200)?.body;
        for field in ["http_proxy", "no_proxy"] {
            ensure!(shown[field] == expected[field], "round {round}: {field} is {}, not {}", shown[field], expected[field]);
        }
    }
    world.finish().await
}

/// Name, whether it is public, whether it is hidden; and what a member of its project, one of another project and an admin of a third are
/// answered who ask for it, make a cluster of it and change it (rest-api.md 7.3).
const VISIBILITY: [(&str, bool, bool, [[u16; 3]; 3]); 4] = [
    ("private", false, false, [[200, 200, 200], [404, 404, 404], [200, 404, 404]]),
    ("public", true, false, [[200, 200, 200], [200, 200, 403], [200, 200, 200]]),
    ("hidden", false, true, [[200, 403, 200], [404, 404, 404], [200, 404, 404]]),
    ("hidden-public", true, true, [[200, 403, 200], [404, 404, 404], [200, 200, 200]]),
];

#[rstest]
#[tokio::test]
async fn public_and_hidden_templates_are_shown_used_and_changed_as_agreed(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let [owner, other, admin] = [world.demo(), world.user("demo2", "demo2"), world.user("admin", "admin")].map(|client| client.at("1.10"));
    // Only an admin publishes and hides; what he makes is his project's.
    let token = world.cloud.token_with("demo", TokenScope::Project("demo"), &["admin"]);
    world.keep_secret(&token, "a caller's token");
    let publisher = world.client(Some(&token));
    let mut wrong = Vec::new();
    for (name, is_public, is_hidden, expected) in VISIBILITY {
        let mut body = client::template(name);
        (body["public"], body["hidden"]) = (json!(is_public), json!(is_hidden));
        let uuid = publisher.post("/v1/clustertemplates", &body).await?.expect(201)?.uuid()?;
        let path = format!("/v1/clustertemplates/{uuid}");
        for ((who, caller), [shown, used, changed]) in [("owner", &owner), ("other", &other), ("admin", &admin)].into_iter().zip(expected) {
            let change = json!([{"op": "replace", "path": "/tags", "value": who}]);
            let mut found = vec![
                ("shown", caller.get(&path).await?.status, shown),
                ("shown by name", caller.get(&format!("/v1/clustertemplates/{name}")).await?.status, shown),
                ("used", caller.post("/v1/clusters?dry_run=true", &client::cluster("blue", &uuid)).await?.status, used),
                ("changed", caller.patch(&path, &change).await?.status, changed),
            ];
            if who == "other" {
                found.push(("removed", caller.delete(&path).await?.status, changed));
            }
            for list in ["clustertemplates", "clustertemplates/detail"] {
                let body = caller.get(&format!("/v1/{list}")).await?.expect(200)?.body;
                let listed =
                    body["clustertemplates"].as_array().context("a list")?.iter().any(|template| template["uuid"] == uuid.as_str());
                found.push((list, if listed { 200 } else { 404 }, shown));
            }
            let differs = found.into_iter().filter(|(_, found, wanted)| found != wanted);
            wrong.extend(differs.map(|(what, found, wanted)| format!("{name}, {what} by {who}: {found}, not {wanted}")));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));

    // What is hidden says so to its own project, and to nobody else.
    owner.post("/v1/clusters", &client::cluster("blue", "hidden")).await?.expect_error(403, "is hidden")?;
    other.post("/v1/clusters", &client::cluster("blue", "hidden-public")).await?.expect_error(404, "hidden-public")?;
    // A cluster of another project is made of what is public, and keeps it from going.
    let cluster = other.create_cluster("red", "public").await?;
    other.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    owner.delete("/v1/clustertemplates/public").await?.expect_error(400, "referenced")?;
    for name in ["private", "hidden-public"] {
        admin.delete(&format!("/v1/clustertemplates/{name}")).await?.expect(204)?;
    }
    world.finish().await
}

/// Its groups would be of one, and its nodes of the other.
#[tokio::test]
async fn no_cluster_is_made_of_two_versions_of_its_template() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    world.cloud.inject(Fault { at: "nova.flavor_list".to_owned(), nth: 1, how: How::Hold });
    let body = client::cluster("blue", &template);
    let change = async {
        let held = async || Ok(Seen::when(world.cloud.held() > 0, || "not yet".to_owned()));
        wait::until("the flavors to be asked for", PATIENCE, held).await?;
        let patch = json!([{"op": "replace", "path": "/dns_nameserver", "value": "192.0.2.54"}]);
        demo.patch(&format!("/v1/clustertemplates/{template}"), &patch).await?.expect(200)?;
        world.cloud.let_go();
        anyhow::Ok(())
    };
    let (created, changed) = future::join(demo.post("/v1/clusters", &body), change).await;
    changed?;
    created?.expect_error(409, "was changed by another request")?;
    let cluster = demo.create_cluster("blue", &template).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.finish().await
}
