//! What the smaller services know from the start.

use cloud_simulator::NewLoadBalancer;
use reqwest::Method;
use serde_json::json;

use crate::world::{World, text};

#[tokio::test]
async fn flavours_images_networks_and_types_are_found_by_name_and_id() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let (_, flavors) = world.get("/compute/v2.1/flavors/detail", &demo).await;
    let names: Vec<&str> = flavors["flavors"].as_array().expect("flavors").iter().filter_map(|flavor| flavor["name"].as_str()).collect();
    assert_eq!(names, ["m1.tiny", "m1.small", "m1.medium", "m1.nodisk"]);
    assert_eq!(world.get("/compute/v2.1/flavors/none", &demo).await.0, 404);

    let (_, twins) = world.get("/image/v2/images?name=twin", &demo).await;
    assert_eq!(twins["images"].as_array().map(Vec::len), Some(2));
    let (_, found) = world.get("/image/v2/images?name=fedora-coreos", &demo).await;
    let image = format!("/image/v2/images/{}", text(&found["images"][0]["id"]));
    assert_eq!(world.get(&image, &demo).await.1["os_distro"], "fedora-coreos");

    let (_, external) = world.get("/network/v2.0/networks?router:external=True", &demo).await;
    assert_eq!(external["networks"].as_array().map(Vec::len), Some(1));
    let (_, private) = world.get("/network/v2.0/subnets?name=private-subnet", &demo).await;
    assert_eq!(private["subnets"][0]["cidr"], "10.0.0.0/24");
    assert_eq!(world.get("/network/v2.0/networks/none", &demo).await.1["NeutronError"]["type"], "NetworkNotFound");

    let project = world.cloud.project_id("demo");
    let (_, types) = world.get(&format!("/volume/v3/{project}/types"), &demo).await;
    assert_eq!(types["volume_types"][0]["name"], "fake");
    assert_eq!(world.get("/key-manager/v1/containers", &demo).await.1["containers"], json!([]));
}

#[tokio::test]
async fn a_keypair_belongs_to_its_user() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let reader = world.cloud.token_for("reader", "demo");
    assert_eq!(world.get("/compute/v2.1/os-keypairs/key", &demo).await.0, 200);
    assert_eq!(world.get("/compute/v2.1/os-keypairs/key", &reader).await.0, 404);
    assert_eq!(world.get("/compute/v2.1/os-keypairs/other", &demo).await.0, 404);
}

#[tokio::test]
async fn a_load_balancer_beside_the_stack_is_left_over_until_it_is_deleted() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let project = world.cloud.project_id("demo");
    let id = world.cloud.add_load_balancer(NewLoadBalancer {
        project: project.clone(),
        name: "kube_service".to_owned(),
        description: "Kubernetes external service from cluster c0ffee".to_owned(),
        ..NewLoadBalancer::default()
    });
    let path = "/load-balancer/v2.0/lbaas/loadbalancers";
    assert_eq!(world.get(path, &demo).await.1["loadbalancers"][0]["id"], id.as_str());
    assert_eq!(world.cloud.leftovers(Some(&project)).len(), 1);
    let reader = world.cloud.token_for("reader", "demo");
    assert_eq!(world.get(path, &reader).await.0, 403);
    let address = world.cloud.add_floating_ip(&project, "for the service", Some(&id));
    let delete = async |path: String| world.send(Method::DELETE, &path, &demo, None).await.expect("an answer").status();
    assert_eq!(delete(format!("{path}/{id}")).await, 400);
    assert!(world.cloud.set_load_balancer_status(&id, "PENDING_UPDATE"));
    assert_eq!(delete(format!("{path}/{id}?cascade=true")).await, 409);
    assert!(world.cloud.set_load_balancer_status(&id, "ERROR"));
    assert_eq!(delete(format!("{path}/{id}?cascade=true")).await, 204);
    assert_eq!(world.get(path, &demo).await.1["loadbalancers"], json!([]));
    let addresses = world.get("/network/v2.0/floatingips", &demo).await.1;
    assert!(addresses["floatingips"][0]["port_id"].is_null(), "{addresses}");
    assert_eq!(delete(format!("/network/v2.0/floatingips/{address}")).await, 204);
    assert!(world.cloud.leftovers(None).is_empty());
}

#[tokio::test]
async fn a_volume_beside_the_stack_is_left_over_until_it_is_deleted() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let project = world.cloud.project_id("demo");
    let id = world.cloud.add_volume(&project, "pvc-1", json!({"key": "value"}), None);
    let path = format!("/volume/v3/{project}/volumes");
    let volumes = world.get(&format!("{path}/detail"), &demo).await.1;
    assert_eq!(volumes["volumes"][0]["metadata"]["key"], "value");
    let other = world.cloud.token_for("demo2", "demo2");
    assert_eq!(world.get(&format!("{path}/detail"), &other).await.1["volumes"], json!([]));
    let answer = world.send(Method::DELETE, &format!("{path}/{id}"), &demo, None).await.expect("an answer");
    assert_eq!(answer.status(), 202);
    assert!(world.cloud.leftovers(None).is_empty());
}
