//! What the API has found in the cloud lately, it does not look up again.

use anyhow::{Result, ensure};
use tests::client;
use tests::wait::PATIENCE;
use tests::world::{CLOUD_CHECK_CACHE, Mix, Options, World};

/// What a request for a cluster is checked against.
const LOOKED_UP: [&str; 4] = ["nova.flavor_list", "nova.keypair_show", "glance.image_list", "neutron.network_list"];

#[tokio::test]
async fn what_was_found_for_a_user_is_not_looked_up_for_him_again() -> Result<()> {
    let environment = [(CLOUD_CHECK_CACHE.to_owned(), "300".to_owned())].into();
    // Without a conductor: it asks, too.
    let mut world = World::start(Mix::Distributed, Options { apis: 1, conductors: 0, environment, ..Options::default() }).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let first = demo.create_cluster("one", &template).await?;
    let before = LOOKED_UP.map(|at| world.cloud.calls(at));
    ensure!(before.iter().all(|count| *count > 0), "{before:?} calls of {LOOKED_UP:?}");
    let second = demo.create_cluster("two", &template).await?;
    let after = LOOKED_UP.map(|at| world.cloud.calls(at));
    ensure!(after == before, "{before:?}, then {after:?} calls of {LOOKED_UP:?}");

    // What is missing may come: it is looked for each time.
    for nth in 1..3 {
        let mut missing = client::cluster("three", &template);
        missing["keypair"] = "later".into();
        demo.post("/v1/clusters", &missing).await?.expect_error(404, "keypair later")?;
        ensure!(world.cloud.calls("nova.keypair_show") == before[1] + nth);
        missing = client::template("large");
        missing["flavor_id"] = "m1.later".into();
        demo.post("/v1/clustertemplates", &missing).await?.expect_error(400, "flavor m1.later")?;
        ensure!(world.cloud.calls("nova.flavor_list") == before[0] + nth);
    }

    // Somebody else may see other things.
    world.user("demo2", "demo2").create_template("small").await?;
    ensure!(world.cloud.calls("nova.flavor_list") == before[0] + 3 && world.cloud.calls("glance.image_list") == before[2] + 1);

    world.start_conductor()?;
    for cluster in [&first, &second] {
        demo.delete_cluster(cluster).await?;
        demo.wait_gone(cluster, PATIENCE).await?;
    }
    world.finish().await
}
