use serde_json::{Value, json};

use super::*;

const SETTLED: Duration = Duration::from_secs(30);

fn conditions(all: &[&str]) -> Value {
    all.iter().map(|kind| json!({"type": kind, "status": "True"})).collect()
}

fn machine(name: &str, group: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"capi.stackhpc.com/node-group": group}}, "status": {"phase": "Running"}})
}

fn counted(name: &str, count: i64, extra: Value) -> Value {
    let mut object = json!({
        "metadata": {"name": name, "generation": 2},
        "spec": {"replicas": count},
        "status": {"observedGeneration": 2, "replicas": count, "updatedReplicas": count, "readyReplicas": count},
    });
    for part in ["spec", "status"] {
        for (key, value) in extra[part].as_object().into_iter().flatten() {
            object[part][key] = value.clone();
        }
    }
    object
}

/// A cluster of one master and two workers that is as wanted.
fn good() -> (Seen, Wanted) {
    let seen = Seen {
        release: "blue-x".into(),
        cluster: json!({
            "metadata": {"name": "blue-x"},
            "spec": {"controlPlaneEndpoint": {"host": "192.0.2.7", "port": 6443}},
            "status": {"conditions": conditions(&["InfrastructureReady", "ControlPlaneReady", "Ready"])},
        }),
        infrastructure: json!({"metadata": {"name": "blue-x"}, "status": {"ready": true}}),
        control_plane: counted(
            "blue-x-control-plane",
            1,
            json!({"spec": {"version": "v1.33.4"}, "status": {"version": "v1.33.4", "conditions": conditions(&["MachinesReady"])}}),
        ),
        deployments: vec![counted("blue-x-default-worker", 2, json!({"status": {"phase": "Running"}}))],
        machines: vec![machine("m", "x"), machine("a", "default-worker"), machine("b", "default-worker")],
        addons: vec![json!({"metadata": {"name": "blue-x-cni-calico"}, "status": {"phase": "Deployed"}})],
    };
    let wanted = Wanted {
        masters: 1,
        groups: vec![WantedGroup { name: "default-worker".into(), size: Extent::Exactly(2) }],
        gone: Vec::new(),
        version: "1.33.4".into(),
        conditions: vec!["MachinesReady".into()],
        now: "2026-01-01T01:00:00Z".parse().expect("a time"),
        age: SETTLED * ADDON_PATIENCE,
        patience: SETTLED,
        all_gone: false,
    };
    (seen, wanted)
}

fn waiting_for(seen: &Seen, wanted: &Wanted) -> String {
    match judge(seen, wanted) {
        Judged::Waiting { waiting_for, .. } => waiting_for,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_all_controllers_say_of_the_present_wish_is_ready() {
    let (seen, wanted) = good();
    assert_eq!(judge(&seen, &wanted), Judged::Ready);
    assert_eq!(seen.api_address().as_deref(), Some("https://192.0.2.7:6443"));
    let scaled = Wanted { groups: vec![WantedGroup { name: "Default_Worker".into(), size: Extent::AtLeast(1) }], ..wanted };
    assert_eq!(judge(&seen, &scaled), Judged::Ready);
}

#[test]
fn what_was_said_of_an_earlier_wish_counts_for_nothing() {
    let (seen, wanted) = good();
    let mut old = seen.clone();
    old.deployments[0]["metadata"]["generation"] = json!(3);
    assert_eq!(waiting_for(&old, &wanted), "nodegroup default-worker");
    let mut old = seen.clone();
    old.control_plane["status"]["observedGeneration"] = json!(1);
    assert_eq!(waiting_for(&old, &wanted), "the control plane");
    let more = Wanted { groups: vec![WantedGroup { name: "default-worker".into(), size: Extent::Exactly(3) }], ..wanted.clone() };
    assert_eq!(judge(&seen, &more), Judged::Waiting { done: 3, total: 4, waiting_for: "nodegroup default-worker".into(), at_most: None });
    let newer = Wanted { version: "1.34.0".into(), ..wanted };
    assert_eq!(waiting_for(&seen, &newer), "the control plane");
}

#[test]
fn each_thing_that_is_missing_is_told_with_what_stands_in_its_way() {
    let (seen, wanted) = good();
    let mut less = seen.clone();
    less.addons[0]["status"] = json!({});
    assert_eq!(waiting_for(&less, &wanted), "addon cni-calico");
    let mut less = seen.clone();
    less.deployments.clear();
    assert_eq!(waiting_for(&less, &wanted), "nodegroup default-worker");
    let going = Wanted { gone: vec!["default-worker".into()], groups: Vec::new(), ..wanted.clone() };
    assert_eq!(waiting_for(&seen, &going), "nodegroup default-worker to go");
    let mut short_of = seen.clone();
    short_of.deployments[0]["status"]["readyReplicas"] = json!(1);
    let quota = "Quota exceeded for instances: Requested 1, but already used 10 of 10 instances";
    short_of.machines[1]["status"] =
        json!({"phase": "Pending", "conditions": [{"type": "InfrastructureReady", "status": "False", "message": quota}]});
    let text = format!("nodegroup default-worker (a: {quota})");
    assert_eq!(judge(&short_of, &wanted), Judged::Waiting { done: 2, total: 3, waiting_for: text, at_most: None });
    let text = waiting_for(&Seen { release: "blue-x".into(), ..Seen::default() }, &wanted);
    assert_eq!(text, "the Cluster object, the control plane, nodegroup default-worker");
}

#[test]
fn what_a_controller_has_given_up_is_a_failure_with_its_reason() {
    let (seen, wanted) = good();
    let failed = |change: &dyn Fn(&mut Seen)| {
        let mut seen = seen.clone();
        change(&mut seen);
        match judge(&seen, &wanted) {
            Judged::Failed { reason } => reason,
            other => panic!("{other:?}"),
        }
    };
    let reason = failed(&|s| {
        s.infrastructure["status"] = json!({"failureReason": "CreateError", "failureMessage": "no  external\nnetwork"});
        s.cluster["status"]["conditions"] = json!([]);
    });
    assert_eq!(reason, "OpenStackCluster: CreateError: no external network");
    let reason = failed(&|s| {
        s.deployments[0]["status"]["phase"] = json!("Failed");
        s.machines[2]["status"] = json!({"failureMessage": "no valid host"});
    });
    assert_eq!(reason, "nodegroup default-worker: no valid host");
    let reason = failed(&|s| s.addons[0]["status"] = json!({"phase": "Failed", "failureMessage": "chart not found"}));
    assert_eq!(reason, "addon cni-calico: chart not found");
}

#[test]
fn that_a_controller_has_given_up_is_believed_once_it_has_had_time_to_say_otherwise() {
    let (seen, wanted) = good();
    let mut failed = seen.clone();
    failed.deployments[0]["status"]["phase"] = json!("Failed");
    let early = Wanted { age: SETTLED / 3, ..wanted.clone() };
    match judge(&failed, &early) {
        Judged::Waiting { at_most, .. } => assert_eq!(at_most, Some(SETTLED - SETTLED / 3)),
        other => panic!("{other:?}"),
    }
    assert!(matches!(judge(&failed, &wanted), Judged::Failed { .. }));
    // What it said of an earlier wish is never believed.
    failed.deployments[0]["metadata"]["generation"] = json!(3);
    assert!(matches!(judge(&failed, &wanted), Judged::Waiting { at_most: None, .. }));
    // Addons do not say which wish they speak of.
    let mut failed = seen;
    failed.addons[0]["status"] = json!({"phase": "Failed"});
    let late = Wanted { age: SETTLED * 2, ..wanted.clone() };
    assert!(matches!(judge(&failed, &late), Judged::Waiting { at_most: Some(left), .. } if left == SETTLED * 2));
    assert!(matches!(judge(&failed, &wanted), Judged::Failed { .. }));
    // They begin when the cluster is ready, which may be long after helm.
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:59:30Z"});
    failed.cluster["status"]["conditions"].as_array_mut().expect("conditions").retain(|c| c["type"] != "Ready");
    failed.cluster["status"]["conditions"].as_array_mut().expect("conditions").push(ready);
    assert!(matches!(judge(&failed, &wanted), Judged::Waiting { at_most: Some(left), .. } if left == SETTLED * (ADDON_PATIENCE - 1)));
}

#[test]
fn what_is_not_waited_for_fails_nothing() {
    let (mut seen, wanted) = good();
    // Cluster API keeps it on the Cluster for ever.
    seen.cluster["status"]["failureReason"] = json!("CreateError");
    let mut other = counted("blue-x-gpu", 1, json!({"status": {"phase": "Failed"}}));
    other["status"]["readyReplicas"] = json!(0);
    seen.deployments.push(other);
    assert_eq!(judge(&seen, &wanted), Judged::Ready);
    seen.deployments[0]["status"]["readyReplicas"] = json!(1);
    assert!(matches!(judge(&seen, &wanted), Judged::Waiting { at_most: None, .. }));
}

/// A group whose autoscaler has asked for more machines than the cloud has room for.
#[test]
fn what_an_autoscaler_asks_for_is_not_waited_for() {
    let (mut seen, wanted) = good();
    let of = |least: i64| vec![WantedGroup { name: "default-worker".into(), size: Extent::AtLeast(least) }];
    let scaled = Wanted { groups: of(1), ..wanted };
    seen.deployments[0]["spec"]["replicas"] = json!(5);
    seen.deployments[0]["status"]["replicas"] = json!(5);
    seen.deployments[0]["status"]["updatedReplicas"] = json!(5);
    for phase in ["ScalingUp", "ScalingDown", "Failed"] {
        seen.deployments[0]["status"]["phase"] = json!(phase);
        assert_eq!(judge(&seen, &scaled), Judged::Ready, "{phase}");
    }
    // Nor does it fail what is waited for elsewhere.
    let mut elsewhere = seen.clone();
    elsewhere.addons[0]["status"] = json!({});
    assert_eq!(waiting_for(&elsewhere, &scaled), "addon cni-calico");
    // The lower bound is the user's own.
    let more = Wanted { groups: of(3), ..scaled.clone() };
    assert!(matches!(judge(&seen, &more), Judged::Failed { .. }));
    seen.deployments[0]["status"]["phase"] = json!("ScalingUp");
    assert_eq!(judge(&seen, &more), Judged::Waiting { done: 3, total: 6, waiting_for: "nodegroup default-worker".into(), at_most: None });
    // Where there are fewer than that, nobody has asked for more.
    let mut few = seen.clone();
    for (part, field) in [("spec", "replicas"), ("status", "replicas"), ("status", "updatedReplicas"), ("status", "readyReplicas")] {
        few.deployments[0][part][field] = json!(2);
    }
    assert_eq!(judge(&few, &more), Judged::Ready);
    // So are machines of the present template, and what is said of the present wish.
    let mut old = seen.clone();
    old.deployments[0]["status"]["updatedReplicas"] = json!(4);
    assert_eq!(waiting_for(&old, &scaled), "nodegroup default-worker");
    seen.deployments[0]["metadata"]["generation"] = json!(3);
    assert_eq!(waiting_for(&seen, &scaled), "nodegroup default-worker");
}

#[test]
fn a_cluster_of_v1beta2_is_judged_by_its_own_words() {
    let (mut seen, wanted) = good();
    let wanted = Wanted { conditions: vec!["MachinesReady".into(), "Ready".into()], ..wanted };
    seen.cluster["apiVersion"] = json!("cluster.x-k8s.io/v1beta2");
    seen.cluster["status"]["conditions"] = conditions(&["InfrastructureReady", "ControlPlaneAvailable", "Available"]);
    seen.control_plane["apiVersion"] = json!("controlplane.cluster.x-k8s.io/v1beta2");
    seen.control_plane["status"]["conditions"] = conditions(&["MachinesReady", "Available"]);
    seen.infrastructure["status"] = json!({"initialization": {"provisioned": true}});
    for object in [&mut seen.control_plane, &mut seen.deployments[0]] {
        object["status"]["upToDateReplicas"] = object["status"]["updatedReplicas"].take();
    }
    assert_eq!(judge(&seen, &wanted), Judged::Ready);
    // Of all worker groups together: another one than those that are asked for is not there.
    seen.cluster["status"]["conditions"][2]["status"] = json!("False");
    assert_eq!(judge(&seen, &wanted), Judged::Ready);
    seen.infrastructure["status"] = json!({"deprecated": {"v1beta1": {"failureReason": "CreateError"}}});
    seen.cluster["status"]["conditions"] = conditions(&["ControlPlaneAvailable"]);
    assert_eq!(judge(&seen, &wanted), Judged::Failed { reason: "OpenStackCluster: CreateError".into() });
}

#[test]
fn a_machine_on_its_way_out_is_waited_for_although_nobody_counts_it_any_more() {
    let (mut seen, wanted) = good();
    let mut leaving = machine("c", "default-worker");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    seen.machines.push(leaving);
    assert!(waiting_for(&seen, &wanted).starts_with("machines of nodegroup default-worker to go"), "{}", waiting_for(&seen, &wanted));
    seen.machines.pop();
    assert_eq!(judge(&seen, &wanted), Judged::Ready);
}

#[test]
fn where_all_must_have_gone_those_of_the_control_plane_and_of_scaled_groups_must_as_well() {
    let (mut seen, wanted) = good();
    let mut leaving = machine("c", "default-worker");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let scaled = vec![WantedGroup { name: "default-worker".into(), size: Extent::AtLeast(1) }];
    let strict = Wanted { all_gone: true, groups: scaled.clone(), ..wanted.clone() };
    assert_eq!(judge(&seen, &strict), Judged::Ready);
    seen.machines.push(leaving.clone());
    assert_eq!(judge(&seen, &Wanted { groups: scaled, ..wanted.clone() }), Judged::Ready);
    assert!(waiting_for(&seen, &strict).starts_with("machines of nodegroup default-worker to go"), "{}", waiting_for(&seen, &strict));
    leaving["metadata"]["labels"] = json!({"cluster.x-k8s.io/control-plane": ""});
    *seen.machines.last_mut().expect("the one") = leaving;
    assert!(waiting_for(&seen, &strict).starts_with("machines of the control plane to go"), "{}", waiting_for(&seen, &strict));
    assert_eq!(judge(&seen, &wanted), Judged::Ready);
}

#[test]
fn where_all_must_have_gone_a_machine_too_many_must_though_it_does_not_say_yet_that_it_leaves() {
    let (seen, wanted) = good();
    let strict = Wanted { all_gone: true, ..wanted.clone() };
    let mut master = machine("n", "x");
    master["metadata"]["labels"] = json!({"cluster.x-k8s.io/control-plane": ""});
    let masters = [master.clone(), master];
    for (more, whose) in [(vec![machine("c", "default-worker")], "nodegroup default-worker"), (masters.to_vec(), "the control plane")] {
        let listed = Seen { machines: seen.machines.iter().cloned().chain(more).collect(), ..seen.clone() };
        assert_eq!(judge(&listed, &wanted), Judged::Ready);
        let told = waiting_for(&listed, &strict);
        assert!(told.starts_with(&format!("machines of {whose} to go")), "{told}");
    }
}
