//! What rendering costs, and how much of it there is: `cargo xtask bench render`. Nothing here fails for being slow; a node of too many resources
//! does fail, in every run.

use std::time::{Duration, Instant};

use super::representative::cases;
use super::*;

/// Clusters rendered in one go, the representative ones in turn.
const CLUSTERS: u32 = 1000;

/// Resources that a node may be made of, by the template of its kind: Heat takes its time and its locks for each of them, on every node.
const MOST: [(&str, usize); 2] = [(MASTER, 11), (WORKER, 8)];

/// The kind of resource of which a stack has its nodes.
const NODES: &str = "OS::Heat::ResourceGroup";

/// Kinds that stand for other resources, of which there may be any number.
const OF_MANY: [&str; 5] = [NODES, "OS::Heat::AutoScalingGroup", "OS::Heat::InstanceGroup", "OS::Heat::ResourceChain", "OS::Heat::Stack"];

/// Resources of a node's template: those that every cluster has, and all.
fn resources(template: &str) -> (usize, usize) {
    let all = &yaml(template)["resources"];
    let all = all.as_object().expect("a map");
    for (name, resource) in all {
        let kind = resource["type"].as_str().expect("a resource has a type");
        // A template of ours would be a type as well.
        assert!(kind.starts_with("OS::") && !OF_MANY.contains(&kind), "{name} is of {kind}: nobody knows how many it is");
    }
    (all.values().filter(|resource| resource.get("condition").is_none()).count(), all.len())
}

/// All that Heat is sent.
fn size(rendered: &Rendered) -> usize {
    let files: usize = rendered.files.values().map(String::len).sum();
    rendered.template.len() + files + Value::Object(rendered.parameters.clone()).to_string().len()
}

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process has a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn no_node_of_any_cluster_is_made_of_more_resources_than_it_may_be() {
    for case in cases() {
        let some = labels(case.labels);
        let asked_for = (case.change)(input(&some));
        for (rendered, kinds) in [(done(&asked_for), &[MASTER, WORKER][..]), (group(&asked_for), &[WORKER][..])] {
            let top = yaml(&rendered.template);
            let groups = top["resources"].as_object().expect("a map").values().filter(|resource| resource["type"] == NODES);
            let mut found = BTreeSet::new();
            for nodes in groups {
                let file = nodes["properties"]["resource_def"]["type"].as_str().expect("the name of a file");
                let most = MOST.iter().find(|(kind, _)| *kind == file).unwrap_or_else(|| panic!("{file} has no limit")).1;
                // All that can be asked for at once: no choice of a user's makes more of a node.
                let (least, all) = resources(&rendered.files[file]);
                assert!(least > 0 && all <= most, "{}: {all} resources of {file}, where {most} are allowed", case.name);
                found.insert(file);
            }
            assert!(found.iter().eq(kinds), "{}: nodes are of {found:?}", case.name);
        }
    }
    let counted = resources("resources: {a: {type: 'OS::Nova::Server'}, b: {type: 'OS::Neutron::Port', condition: some}}");
    assert_eq!(counted, (1, 2));
}

#[test]
#[ignore = "a measurement; cargo xtask bench render"]
fn a_thousand_clusters() {
    let cases = cases();
    let all: Vec<_> = cases.iter().map(|case| (case, labels(case.labels))).collect();
    let mut slowest = Duration::ZERO;
    let (before, start) = (resident(), Instant::now());
    let rendered: Vec<_> = all
        .iter()
        .cycle()
        .take(CLUSTERS as usize)
        .map(|(case, labels)| {
            let one = Instant::now();
            let rendered = done(&(case.change)(input(labels)));
            slowest = slowest.max(one.elapsed());
            rendered
        })
        .collect();
    let (took, held) = (start.elapsed(), resident().saturating_sub(before));
    let each = took / CLUSTERS;
    println!(
        "{CLUSTERS} clusters of {} kinds: {:.0} ms in all, {each:.1?} each, {slowest:.1?} the slowest",
        all.len(),
        took.as_secs_f64() * 1e3
    );
    println!("memory of all of them, held at once: {:.1} MiB, {} KiB each\n", held as f64 / 1024.0, held / u64::from(CLUSTERS));
    println!("| cluster | sent to Heat, KiB | user data of a master, KiB | of a worker, KiB |\n|---|---|---|---|");
    let kib = |bytes: usize| bytes as f64 / 1024.0;
    for ((case, _), rendered) in all.iter().zip(&rendered) {
        let (master, worker) = (user_data(rendered, "master").len(), user_data(rendered, "worker").len());
        println!("| {} | {:.1} | {:.1} | {:.1} |", case.name, kib(size(rendered)), kib(master), kib(worker));
    }
    for (what, template) in [("master", &SHIPPED_TEMPLATES.master), ("worker", &SHIPPED_TEMPLATES.worker)] {
        let (least, most) = resources(template);
        println!("\nresources of a {what}: {least}, with all that can be asked for {most}");
    }
}
