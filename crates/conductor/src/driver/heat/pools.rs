//! Masters and workers of a stack, as its parameters tell, and their replacement by new ones.
//!
//! All members of a pool come from one definition, so what new ones are made of differs from the old ones' by their numbers: `former_*` maps
//! those that keep the image they have. User data of a server that is there is never looked at again (`user_data_update_policy`).

use std::collections::BTreeMap;

use provider_clients::{PoolMember, Session, StackUpdate};
use serde_json::{Map, Value, json};

use super::parameters::SECRETS;
use super::tree::{self, Tree};
use super::{DEPTH, KUBE_VERSION, workers};
use crate::driver::{NewNodes, PoolKind};
use crate::outcome::Failure;
use crate::plan::{Pool, RollStep, Seen};

/// How a pool is called in our templates.
pub(super) struct Names {
    pub group: &'static str,
    /// The port of a member on the cluster's network.
    pub port: &'static str,
    /// Outputs with its addresses, inside and outside.
    pub outputs: [&'static str; 2],
    count: &'static str,
    remove: &'static str,
    generation: &'static str,
    image: &'static str,
    pub replaces: &'static str,
    /// Masters are replaced one at a time.
    newcomers: Option<&'static str>,
    former: &'static str,
    user_data: &'static str,
}

const MASTERS: Names = Names {
    group: "kube_masters",
    port: "kube_master_eth0",
    outputs: ["kube_masters_private", "kube_masters"],
    count: "number_of_masters",
    remove: "masters_to_remove",
    generation: "master_generation",
    image: "master_image",
    replaces: "master_replaces",
    newcomers: None,
    former: "former_masters",
    user_data: "master_user_data",
};

const WORKERS: Names = Names {
    group: "kube_minions",
    port: "kube_minion_eth0",
    outputs: ["kube_minions_private", "kube_minions"],
    count: workers::COUNT,
    remove: workers::REMOVE,
    generation: "minion_generation",
    image: "minion_image",
    replaces: "minion_replaces",
    newcomers: Some("minion_newcomers"),
    former: "former_minions",
    user_data: workers::USER_DATA,
};

pub(super) fn names(kind: PoolKind) -> &'static Names {
    match kind {
        PoolKind::Masters => &MASTERS,
        PoolKind::Workers => &WORKERS,
    }
}

/// Reads the parameters of a stack; none when its nodes cannot be replaced: it is not of a template that knows generations.
pub(super) fn of(parameters: &Map<String, Value>, kind: PoolKind) -> Option<Box<Pool>> {
    let names = names(kind);
    let text = |name: &str| parameters.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let list = |name: &str| parameters.get(name).map(workers::list).unwrap_or_default();
    parameters.get(names.generation)?;
    Some(Box::new(Pool {
        count: parameters.get(names.count).and_then(workers::count)?,
        generation: text(names.generation),
        image: text(names.image),
        replaces: list(names.replaces),
        former: parameters.get(names.former).map(map).unwrap_or_default(),
    }))
}

/// Heat shows a map as it was given, or as its JSON.
fn map(value: &Value) -> BTreeMap<String, String> {
    let parsed = match value {
        Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
        other => other.clone(),
    };
    serde_json::from_value(parsed).unwrap_or_default()
}

/// Carries out a step of a replacement. [`RollStep::Done`] asks for nothing new: the stack tries again what it failed at.
pub(in crate::driver) async fn replace(
    session: &Session,
    seen: &Seen,
    kind: PoolKind,
    step: &RollStep,
    new: &NewNodes,
    minutes: u32,
) -> Result<(), Failure> {
    let parameters = parameters(names(kind), kind.of(seen).cloned().unwrap_or_default(), step, new);
    let update =
        StackUpdate { parameters, hidden: SECRETS, timeout_mins: Some(minutes), disable_rollback: Some(true), ..StackUpdate::default() };
    session.heat().update_stack(&seen.stack_name, &seen.stack_id, &update).await?;
    Ok(())
}

/// Records in a stack that members of a pool did not become nodes, as [`RollStep::GiveUp`] of a replacement does: none comes in their place yet.
pub(in crate::driver) async fn give_up(
    session: &Session,
    seen: &Seen,
    kind: PoolKind,
    numbers: &[String],
    generation: &str,
    minutes: u32,
) -> Result<(), Failure> {
    let parameters = given_up(names(kind), kind.of(seen).cloned().unwrap_or_default(), numbers, generation);
    let update = StackUpdate { parameters, timeout_mins: Some(minutes), disable_rollback: Some(true), ..StackUpdate::default() };
    session.heat().update_stack(&seen.stack_name, &seen.stack_id, &update).await?;
    Ok(())
}

fn given_up(names: &Names, pool: Pool, numbers: &[String], generation: &str) -> Map<String, Value> {
    let former = json!(with_former(pool, numbers));
    let given = [(names.former, former), (names.generation, json!(generation)), (names.replaces, json!([]))];
    given.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn parameters(names: &Names, pool: Pool, step: &RollStep, new: &NewNodes) -> Map<String, Value> {
    let mut parameters = Map::new();
    let mut set = |name: &str, value: Value| parameters.insert(name.to_owned(), value);
    match step {
        RollStep::Add { count, newcomers, replaces, former } => {
            set(names.count, json!(count));
            if let Some(name) = names.newcomers {
                set(name, json!(newcomers));
                // With the order for this batch.
                set(names.user_data, json!(new.user_data));
            }
            set(names.replaces, json!(replaces));
            if let Some(former) = former {
                let image = |number: &String| pool.former.get(number).unwrap_or(&pool.image).clone();
                let former: BTreeMap<String, String> = former.iter().map(|number| (number.clone(), image(number))).collect();
                set(names.former, json!(former));
                set(names.generation, json!(new.generation));
                set(names.image, json!(new.image));
                set(names.user_data, json!(new.user_data));
                set(KUBE_VERSION, json!(new.kube_version));
            }
        }
        RollStep::Remove { count, numbers } => {
            let mut former = pool.former;
            // With those that were gone already when they were seen off.
            former.retain(|number, _| !numbers.contains(number) && !pool.replaces.contains(number));
            set(names.count, json!(count));
            set(names.remove, json!(numbers));
            set(names.former, json!(former));
            // Members that are made after this replace nobody.
            set(names.replaces, json!([]));
        }
        RollStep::GiveUp { numbers, generation } => return given_up(names, pool, numbers, generation),
        RollStep::Discard { count, numbers, generation } => {
            set(names.count, json!(count));
            set(names.remove, json!(numbers));
            set(names.former, json!(with_former(pool, numbers)));
            set(names.generation, json!(generation));
            set(names.replaces, json!([]));
        }
        RollStep::Done => {}
    }
    parameters
}

/// The former members of a pool, and these as such. One that is former keeps the image that it has: another one would have Heat make its server anew.
fn with_former(pool: Pool, numbers: &[String]) -> BTreeMap<String, String> {
    let mut former = pool.former;
    for number in numbers {
        former.entry(number.clone()).or_insert_with(|| pool.image.clone());
    }
    former
}

/// Before a step is asked for: takes masters out of the API's load balancer, which the template keeps there for the end of the whole pool (see
/// `kubemaster.yaml`). Those that go with the step do, and those whose successor comes with it, as long as others are left: it takes them out of
/// etcd, and what is sent to their API from then on fails, while it goes on taking connections.
pub(in crate::driver) async fn leave_api(session: &Session, seen: &Seen, step: &RollStep) -> Result<(), Failure> {
    let (numbers, stay) = match step {
        RollStep::Remove { numbers, .. } | RollStep::Discard { numbers, .. } => (numbers, false),
        RollStep::Add { replaces, .. } => (replaces, true),
        RollStep::GiveUp { .. } | RollStep::Done => return Ok(()),
    };
    if numbers.is_empty() {
        return Ok(());
    }
    let resources = session.heat().resources(&seen.stack_name, &seen.stack_id, DEPTH).await?;
    let pool = resources.iter().find(|r| r.resource_type == "OS::Octavia::Pool" && r.parent_resource.is_none());
    let Some(pool) = pool.map(|r| r.physical_resource_id.as_str()).filter(|id| !id.is_empty()) else { return Ok(()) };
    let octavia = session.octavia();
    // Heat shows those that were taken out before, too.
    let present = octavia.pool_members(pool).await?;
    let tree = Tree::new(&resources);
    let masters: Vec<(&str, &PoolMember)> = tree
        .members(PoolKind::Masters)
        .iter()
        .filter_map(|master| {
            let id = tree.part(master, "OS::Octavia::PoolMember").and_then(tree::id)?;
            Some((master.resource_name.as_str(), present.iter().find(|member| member.id == id)?))
        })
        .collect();
    for id in leaving(&masters, numbers, stay) {
        octavia.delete_pool_member(pool, id).await?;
    }
    Ok(())
}

/// The members of the API's pool that leave it, of masters by their numbers: those of these numbers; where they stay as machines, only if another
/// one is left that may serve, for it is better that some requests fail than all.
fn leaving<'a>(masters: &[(&str, &'a PoolMember)], numbers: &[String], stay: bool) -> Vec<&'a str> {
    let goes = |number: &str| numbers.iter().any(|named| named == number);
    let others_serve = masters.iter().any(|&(number, member)| !goes(number) && !member.is_down());
    match stay && !others_serve {
        true => Vec::new(),
        false => masters.iter().filter(|&&(number, _)| goes(number)).map(|&(_, member)| member.id.as_str()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new() -> NewNodes {
        NewNodes { generation: "two".into(), image: "new".into(), user_data: "boot".into(), kube_version: "v1.34.1".into() }
    }

    #[test]
    fn a_master_that_is_to_be_replaced_leaves_the_api_before_where_another_one_serves_it() {
        let member = |id: &str, status: &str| PoolMember { id: id.into(), operating_status: status.into() };
        let (a, b, dead) = (member("a", "ONLINE"), member("b", "NO_MONITOR"), member("dead", "ERROR"));
        let named = |numbers: &[&str]| numbers.iter().map(|number| (*number).to_owned()).collect::<Vec<_>>();
        for (masters, numbers, wanted) in [
            (vec![("0", &a), ("1", &b)], vec!["0"], vec!["a"]),
            (vec![("0", &a), ("10", &b)], vec!["1"], vec![]),
            // The only one, the only one that lives, and with the one that came for it and failed.
            (vec![("0", &a)], vec!["0"], vec![]),
            (vec![("0", &a), ("1", &dead)], vec!["0"], vec![]),
            (vec![("0", &a), ("1", &b)], vec!["1", "0"], vec![]),
            (vec![("0", &a), ("1", &b), ("3", &dead)], vec!["3", "0"], vec!["a", "dead"]),
            // It was taken out by an attempt before.
            (vec![("1", &b)], vec!["0"], vec![]),
        ] {
            assert_eq!(leaving(&masters, &named(&numbers), true), wanted, "{masters:?} {numbers:?}");
        }
        // Its machine goes.
        assert_eq!(leaving(&[("0", &a)], &named(&["0"]), false), ["a"]);
    }

    #[test]
    fn a_pool_is_read_however_heat_shows_it() {
        let want = Pool {
            count: 3,
            generation: "one".into(),
            image: "img".into(),
            replaces: vec!["0".into(), "1".into()],
            former: [("0".to_owned(), "older".to_owned())].into(),
        };
        for (replaces, former) in [(json!("0,1"), json!(r#"{"0": "older"}"#)), (json!(["0", "1"]), json!({"0": "older"}))] {
            let given = json!({"number_of_masters": "3", "master_generation": "one", "master_image": "img", "master_replaces": replaces,
                "former_masters": former});
            let Value::Object(parameters) = given else { unreachable!("an object") };
            assert_eq!(of(&parameters, PoolKind::Masters).as_deref(), Some(&want));
            assert_eq!(of(&parameters, PoolKind::Workers), None);
        }
        // Upstream's stacks know no generations.
        let Value::Object(upstreams) = json!({"number_of_masters": 1, "master_image": "img"}) else { unreachable!("an object") };
        assert_eq!(of(&upstreams, PoolKind::Masters), None);
    }

    #[test]
    fn members_that_are_there_keep_the_image_that_each_has() {
        let pool = Pool { image: "img".into(), former: [("0".to_owned(), "older".to_owned())].into(), ..Pool::default() };
        let step = RollStep::Add { count: 3, newcomers: 1, replaces: vec!["0".into()], former: Some(vec!["0".into(), "1".into()]) };
        let sent = parameters(&WORKERS, pool.clone(), &step, &new());
        assert_eq!(sent["former_minions"], json!({"0": "older", "1": "img"}));
        assert_eq!((&sent["minion_image"], &sent["minion_generation"]), (&json!("new"), &json!("two")));
        assert_eq!(sent["minion_newcomers"], json!(1));
        let gone = parameters(&WORKERS, pool, &RollStep::Remove { count: 2, numbers: vec!["0".into()] }, &new());
        assert_eq!((&gone["former_minions"], &gone["minion_replaces"]), (&json!({}), &json!([])));
        assert_eq!(gone.get("minion_image"), None);
    }

    #[test]
    fn workers_that_come_have_an_order_for_their_batch_and_masters_keep_the_first_boot_that_they_began_with() {
        let next = RollStep::Add { count: 3, newcomers: 1, replaces: vec!["1".into()], former: None };
        let want = json!({"number_of_minions": 3, "minion_newcomers": 1, "minion_replaces": ["1"], "worker_user_data": "boot"});
        assert_eq!(Value::Object(parameters(&WORKERS, Pool::default(), &next, &new())), want);
        let want = json!({"number_of_masters": 3, "master_replaces": ["1"]});
        assert_eq!(Value::Object(parameters(&MASTERS, Pool::default(), &next, &new())), want);
    }

    #[test]
    fn members_that_did_not_become_nodes_are_former_ones_of_the_image_that_they_have() {
        let former = [("0".to_owned(), "older".to_owned())].into();
        let pool = Pool { image: "img".into(), former, generation: "two".into(), replaces: vec!["0".into()], ..Pool::default() };
        let numbers = vec!["0".into(), "3".into()];
        let sent = parameters(&MASTERS, pool, &RollStep::GiveUp { numbers, generation: "2.two".into() }, &new());
        let want = json!({"former_masters": {"0": "older", "3": "img"}, "master_generation": "2.two", "master_replaces": []});
        assert_eq!(Value::Object(sent), want);
    }

    #[test]
    fn members_that_never_joined_go_and_are_former_ones_until_others_have_seen_off_what_they_left() {
        let former: BTreeMap<String, String> = [("0".to_owned(), "older".to_owned())].into();
        let pool = Pool { image: "img".into(), former, generation: "two".into(), replaces: vec!["0".into()], ..Pool::default() };
        let step = RollStep::Discard { count: 3, numbers: vec!["3".into()], generation: "2.two".into() };
        let want = json!({"number_of_minions": 3, "minions_to_remove": ["3"], "former_minions": {"0": "older", "3": "img"},
            "minion_generation": "2.two", "minion_replaces": []});
        assert_eq!(Value::Object(parameters(&WORKERS, pool.clone(), &step, &new())), want);
        let former = [("0".to_owned(), "older".to_owned()), ("3".to_owned(), "img".to_owned()), ("1".to_owned(), "img".to_owned())].into();
        let later = Pool { former, replaces: vec!["3".into(), "0".into()], ..pool };
        let sent = parameters(&WORKERS, later, &RollStep::Remove { count: 2, numbers: vec!["0".into()] }, &new());
        assert_eq!(sent["former_minions"], json!({"1": "img"}));
    }
}
