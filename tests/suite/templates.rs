//! Cluster templates: all verbs.

use anyhow::{Result, ensure};
use rstest::rstest;
use serde_json::json;
use tests::client::{self, text};
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
    demo.wait_gone(&cluster, tests::wait::PATIENCE).await?;
    demo.delete(&path).await?.expect(204)?;
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
    let replace = |field: &str, value: serde_json::Value| json!([{"op": "replace", "path": field, "value": value}]);
    let patched = demo.patch(&path, &replace("/flavor_id", json!("m1.medium"))).await?.expect(200)?.body;
    ensure!(patched["flavor_id"] == "m1.medium" && patched["dns_nameserver"] == "ns1.example.org", "{patched}");
    demo.patch(&path, &replace("/docker_volume_size", json!(2))).await?.expect_error(400, "docker_volume_size")?;
    demo.patch(&path, &replace("/dns_nameserver", json!("ns2.example.org"))).await?.expect_error(400, "ns2.example.org")?;
    demo.patch(&path, &replace("/docker_volume_size", json!(3))).await?.expect(200)?;
    world.finish().await
}
