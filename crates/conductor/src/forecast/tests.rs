use std::collections::HashMap;

use model::forecast::{Amount, Replacement, Thing};
use model::operation::{CloudFault, Payload};
use model::resource::{CloudResource, OnDelete, ResourceKind, UNSEEN_VOLUMES};
use model::template::ClusterTemplate;

use super::*;
use crate::driver::capi_helm::tests as rows;

/// About a cluster of one master and three workers.
fn intent(kind: OperationKind, driver: DriverName) -> Intent {
    let cluster = model::cluster::Cluster { stack_id: Some("5f1d".into()), ..rows::cluster() };
    Intent {
        kind,
        payload: Payload::default(),
        cluster,
        groups: vec![rows::group("default-master", "master", 1, true), rows::group("default-worker", "worker", 3, true)],
        nodes: HashMap::new(),
        template: Some(ClusterTemplate { driver: Some(driver.as_str().into()), ..rows::template() }),
        wanted: None,
        recorded: Vec::new(),
    }
}

fn forecaster() -> Forecaster {
    let settings = Settings {
        host: String::new(),
        max_running: 1,
        max_held: 1,
        heat_requests_per_second: 1.0,
        max_heat_requests_per_second: 1.0,
        timing: crate::Timing::default(),
        retention: std::time::Duration::ZERO,
        deadlines: model::operation::Deadlines::default(),
        step_limits: model::operation::StepLimits::default(),
        load_balancer_timeout: std::time::Duration::ZERO,
        validity_days: 1,
        rsa_bits: 2048,
        keys_ahead: 0,
        trustee_domain_id: None,
        trust_roles: Vec::new(),
        cluster_user_trust: false,
        heat_templates: crate::SHIPPED_TEMPLATES.clone(),
        openstack_ca: String::new(),
        verify_ca: true,
        keystone_auth: true,
        encrypt_secrets: true,
        keystone_policy: None,
        post_install_manifest: None,
        downloads_mirror: None,
        health_denied_networks: provider_clients::Networks::default(),
        region: None,
        nodes_affinity_policy: "soft-anti-affinity".into(),
        default_volumes: crate::context::DefaultVolumes::default(),
    };
    Forecaster::new(settings, BTreeMap::new())
}

async fn told(intent: &Intent) -> Forecast {
    forecaster().forecast(intent, None).await.expect("nobody is asked")
}

fn record(kind: ResourceKind, name: &str, on_delete: OnDelete) -> CloudResource {
    CloudResource {
        id: 1,
        cluster_uuid: "c".into(),
        kind: kind.as_str().into(),
        name: name.into(),
        resource_id: Some(format!("id-of-{name}")),
        on_delete: on_delete.as_str().into(),
        created_ms: 0,
        updated_ms: 0,
    }
}

fn amounts(all: &[(Thing, u64)]) -> Vec<Amount> {
    all.iter().map(|(thing, count)| Amount { thing: *thing, count: *count }).collect()
}

#[tokio::test]
async fn a_deletion_takes_what_is_recorded_and_what_rows_know() {
    let mut intent = intent(OperationKind::ClusterDelete, DriverName::K8sFedoraCoreosV1);
    intent.recorded = vec![
        record(ResourceKind::Stack, "group", OnDelete::Remove),
        record(ResourceKind::Trustee, "trustee", OnDelete::Remove),
        record(ResourceKind::StackOwner, "owner", OnDelete::Remove),
        record(ResourceKind::KeyPair, "owner/key", OnDelete::Remove),
        record(ResourceKind::Trust, "trust", OnDelete::Remove),
        record(ResourceKind::Volume, "data", OnDelete::Remove),
        record(ResourceKind::Volume, "kept", OnDelete::Keep),
        // How many there are, nobody knows.
        CloudResource { resource_id: None, ..record(ResourceKind::Volume, UNSEEN_VOLUMES, OnDelete::Remove) },
        // What it is, a later release knows.
        CloudResource { kind: "of_a_later_release".into(), ..record(ResourceKind::Volume, "thing", OnDelete::Remove) },
    ];
    let forecast = told(&intent).await;
    // The cluster's own stack is known by its row.
    let want = [(Thing::Server, 4), (Thing::Stack, 2), (Thing::Volume, 1), (Thing::User, 2), (Thing::KeyPair, 1), (Thing::Trust, 1)];
    assert_eq!(forecast.removed, amounts(&want));
    assert_eq!(forecast.notes[0], "1 of volumes stay where they are");
    assert_eq!(forecast.is_possible(), Some(true));
}

#[tokio::test]
async fn a_cluster_of_cluster_api_is_told_by_its_rows() {
    let mut intent = intent(OperationKind::ClusterUpgrade, DriverName::K8sCapiHelmV1);
    let replaced = |nodegroup: &str, nodes| Replacement { nodegroup: nodegroup.into(), nodes, at_once: None };
    assert_eq!(told(&intent).await.replaced, [replaced("default-master", 1), replaced("default-worker", 3)]);
    intent.kind = OperationKind::ClusterResize;
    for (count, made, removed) in [(5, vec![(Thing::Server, 2)], vec![]), (1, vec![], vec![(Thing::Server, 2)]), (3, vec![], vec![])] {
        intent.payload.node_count = Some(count);
        let forecast = told(&intent).await;
        assert_eq!((forecast.made, forecast.removed), (amounts(&made), amounts(&removed)), "{count}");
        // Nobody was asked about the quotas.
        let unknown: Vec<String> = if made.is_empty() { Vec::new() } else { vec![FOREIGN.into()] };
        assert_eq!(forecast.unknown, unknown, "{count}");
    }
}

#[tokio::test]
async fn without_a_session_a_stack_is_told_by_its_rows_and_what_is_not_known_is_named() {
    let mut intent = intent(OperationKind::ClusterResize, DriverName::K8sFedoraCoreosV1);
    intent.payload.node_count = Some(4);
    let forecast = told(&intent).await;
    assert_eq!((forecast.made.clone(), forecast.is_possible()), (amounts(&[(Thing::Server, 1)]), None));
    intent.kind = OperationKind::ClusterUpgrade;
    intent.payload.max_batch_size = Some(2);
    let forecast = told(&intent).await;
    let rounds: Vec<_> = forecast.replaced.iter().map(|r| (r.nodegroup.as_str(), r.nodes, r.rounds())).collect();
    assert_eq!(rounds, [("default-master", 1, Some(1)), ("default-worker", 3, Some(2))]);
    assert_eq!(forecast.unknown, [FOREIGN]);
}

#[test]
fn what_fails_an_operation_is_an_obstacle_and_what_the_cloud_fails_at_is_no_forecast() {
    let said = |status| Some(Box::new(CloudFault { service: "heat".into(), status, ..CloudFault::default() }));
    let last = |status| Failure::Final { code: OutcomeCode::Cloud, reason: "no".into(), error: said(status) };
    let obstacle = end(Failure::fail(OutcomeCode::User, "bad label"), Forecast::default()).expect("told");
    assert_eq!(obstacle.obstacles, ["bad label"]);
    for status in [403, 404] {
        let unknown = end(last(Some(status)), Forecast::default()).expect("told");
        assert_eq!((unknown.is_possible(), unknown.unknown), (None, vec!["it could not be looked at: no".to_owned()]));
    }
    let no = |failure| end(failure, Forecast::default()).expect_err("nothing is known");
    assert_eq!((no(last(Some(401))).status, no(last(Some(401))).retry_may_help), (Some(401), false));
    let away = Failure::Retry { reason: "away".into(), error: said(Some(503)) };
    assert_eq!(no(away), NotForeseen { reason: "away".into(), status: Some(503), retry_may_help: true });
}
