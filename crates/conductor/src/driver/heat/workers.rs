//! The nodes of a stack: which they are, how many workers there are, and a new number of them.
//!
//! The names used here (`number_of_minions`, `minions_to_remove`, `kube_minions`) are upstream's, so that clusters which upstream's driver
//! made are resized in the same way.

use provider_clients::{Session, Signal, StackResource, StackUpdate};
use serde_json::{Map, Value, json};

use super::parameters::SECRETS;
use super::tree::{self, Tree};
use super::{DEPTH, addresses, pools};
use crate::driver::{Member, Missing, PoolKind};
use crate::outcome::Failure;
use crate::plan::{Pool, Seen, Wanted, Workers};

pub(super) const COUNT: &str = "number_of_minions";
pub(super) const REMOVE: &str = "minions_to_remove";
/// The first boot of workers; only stacks of ours have it.
pub(super) const USER_DATA: &str = "worker_user_data";
/// What a node says that has become one.
const SUCCESS: &str = "SUCCESS";
/// What is said in the place of a node, by data and, where it has said nothing, id of the signal.
const EXCUSED: &str = "replaced";
/// What a node that failed says of itself by data when it is no part of the cluster (`standing` in `scripts/common.sh`), and what is said in its
/// place then.
const ABSENT: &str = "absent";

/// Reads the parameters of a stack.
pub(super) fn of(parameters: &Map<String, Value>) -> Workers {
    Workers { count: parameters.get(COUNT).and_then(count), removed: parameters.get(REMOVE).map(list).unwrap_or_default() }
}

/// Heat shows a number as it was given: as such, or as text.
pub(super) fn count(value: &Value) -> Option<i32> {
    match value {
        Value::Number(n) => n.as_i64().and_then(|n| i32::try_from(n).ok()),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Heat shows a list of texts as it was given: as a list, as its JSON, or joined by commas.
pub(super) fn list(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Value::String(text) => match serde_json::from_str::<Vec<String>>(text) {
            Ok(items) => items,
            Err(_) => text.split(',').map(|t| t.trim().to_owned()).filter(|t| !t.is_empty()).collect(),
        },
        _ => Vec::new(),
    }
}

/// The members of a pool, in the order of their numbers, by these and their servers.
pub(in crate::driver) async fn members(session: &Session, seen: &Seen, kind: PoolKind) -> Result<Vec<Member>, Failure> {
    let resources = session.heat().resources(&seen.stack_name, &seen.stack_id, DEPTH).await?;
    Ok(number(&Tree::new(&resources), kind))
}

/// The same with their addresses.
pub(in crate::driver) async fn members_with_addresses(session: &Session, seen: &Seen, kind: PoolKind) -> Result<Vec<Member>, Failure> {
    let resources = session.heat().resources(&seen.stack_name, &seen.stack_id, DEPTH).await?;
    of_tree(session, seen, &Tree::new(&resources), kind).await
}

/// The same among the resources of the stack.
pub(super) async fn of_tree(session: &Session, seen: &Seen, tree: &Tree<'_>, kind: PoolKind) -> Result<Vec<Member>, Failure> {
    let mut members = number(tree, kind);
    addresses::add(session, seen, tree, kind, &mut members).await?;
    Ok(members)
}

/// The handle by which a member says that it is a node, with the stack that it is in.
fn handle(tree: &Tree<'_>, member: &StackResource) -> Option<(String, String, String)> {
    let handle = tree.part(member, "OS::Heat::WaitConditionHandle")?;
    let (name, id) = handle.stack()?;
    Some((name, id, handle.resource_name.clone()))
}

/// Members that have not said that they became nodes. A condition that failed says little: Heat also takes for failed what was in the making when a
/// heat-engine died. What the node said stays with the handle, which each further wait asks (read in Heat 24.1).
pub(in crate::driver) async fn missing(session: &Session, seen: &Seen, kinds: &[PoolKind]) -> Result<Vec<Missing>, Failure> {
    let heat = session.heat();
    let resources = heat.resources(&seen.stack_name, &seen.stack_id, DEPTH).await?;
    let tree = Tree::new(&resources);
    let mut missing = Vec::new();
    let members: Vec<_> = kinds.iter().flat_map(|kind| tree.members(*kind).iter().map(move |member| (*kind, *member))).collect();
    for (kind, member) in members {
        let condition = tree.part(member, "OS::Heat::WaitCondition");
        let (Some(condition), Some((name, id, handle))) = (condition, handle(&tree, member)) else { continue };
        let is_awaited = condition.resource_status.ends_with("_IN_PROGRESS");
        let said = match condition.has_failed() {
            true => heat.signals(&name, &id, &handle).await?,
            false => Vec::new(),
        };
        if is_awaited || (condition.has_failed() && !has_become(&said)) {
            missing.push(Missing { kind, number: member.resource_name.clone(), is_awaited, is_absent: is_absent(&said) });
        }
    }
    Ok(missing)
}

/// Members that were given up, which Heat takes for nodes since because it was told so in their place. In a replacement, those that come see them off.
pub(in crate::driver) async fn excused(session: &Session, seen: &Seen, kind: PoolKind) -> Result<Vec<Missing>, Failure> {
    let Some(pool) = kind.of(seen).filter(|pool| !pool.former.is_empty()) else { return Ok(Vec::new()) };
    let heat = session.heat();
    let resources = heat.resources(&seen.stack_name, &seen.stack_id, DEPTH).await?;
    let tree = Tree::new(&resources);
    let mut excused = Vec::new();
    for member in tree.members(kind).iter().filter(|member| pool.former.contains_key(&member.resource_name)) {
        let Some((name, id, handle)) = handle(&tree, member) else { continue };
        let said = heat.signals(&name, &id, &handle).await?;
        if said.iter().any(|signal| signal.status == SUCCESS) && !has_become(&said) {
            let number = member.resource_name.clone();
            excused.push(Missing { kind, number, is_awaited: false, is_absent: is_absent(&said) });
        }
    }
    Ok(excused)
}

/// Whether a node said that it became one; what was said in its place does not count.
fn has_become(said: &[Signal]) -> bool {
    !said.is_empty() && said.iter().all(|signal| signal.status == SUCCESS && ![EXCUSED, ABSENT].contains(&signal.data.as_str()))
}

/// Whether a node said that it is no part of the cluster, or this was said in its place since.
fn is_absent(said: &[Signal]) -> bool {
    !said.is_empty() && said.iter().all(|signal| signal.data == ABSENT)
}

/// Says in the place of these members that all is well: a signal takes the place of the last one of the same id (read in Heat 24.1). Heat does so after its
/// answer.
pub(in crate::driver) async fn excuse(session: &Session, seen: &Seen, missing: &[Missing]) -> Result<bool, Failure> {
    if missing.is_empty() {
        return Ok(true);
    }
    let heat = session.heat();
    let resources = heat.resources(&seen.stack_name, &seen.stack_id, DEPTH).await?;
    let tree = Tree::new(&resources);
    let mut is_known = true;
    for one in missing {
        let member = tree.members(one.kind).iter().find(|member| member.resource_name == one.number);
        let Some((name, id, handle)) = member.and_then(|member| handle(&tree, member)) else { continue };
        let said = heat.signals(&name, &id, &handle).await?;
        let is_silent = said.is_empty();
        let failed = said.into_iter().filter(|signal| signal.status != SUCCESS).map(|signal| signal.id);
        let ids: Vec<String> = failed.chain(is_silent.then(|| EXCUSED.to_owned())).collect();
        for id_of_signal in ids {
            is_known = false;
            let reason = "did not become a node, and is replaced".to_owned();
            let data = if one.is_absent { ABSENT } else { EXCUSED }.to_owned();
            let signal = Signal { id: id_of_signal, status: SUCCESS.to_owned(), reason, data };
            heat.signal(&name, &id, &handle, &signal).await?;
        }
    }
    Ok(is_known)
}

fn number(tree: &Tree<'_>, kind: PoolKind) -> Vec<Member> {
    let mut members: Vec<(u32, Member)> = tree
        .members(kind)
        .iter()
        .filter_map(|r| {
            let server_id = tree.part(r, "OS::Nova::Server").and_then(tree::id).map(str::to_owned);
            Some((r.resource_name.parse().ok()?, Member { number: r.resource_name.clone(), server_id, ..Member::default() }))
        })
        .collect();
    members.sort_by_key(|(number, _)| *number);
    members.into_iter().map(|(_, member)| member).collect()
}

/// Former members that go with a smaller number, though nobody named them: Heat takes the highest. They are named as well, for a number that was not
/// goes to a new member later, which would be taken for the former one, and be told to replace itself.
fn unnamed(members: &[&str], pool: &Pool, wanted: &Wanted) -> Vec<String> {
    let is_named = |number: &str| wanted.remove.iter().any(|named| named == number);
    let mut left: Vec<u32> = members.iter().filter(|number| !is_named(number)).filter_map(|number| number.parse().ok()).collect();
    left.sort_unstable();
    let going = left.into_iter().skip(usize::try_from(wanted.count).unwrap_or(0)).map(|number| number.to_string());
    going.filter(|number| pool.former.contains_key(number)).collect()
}

/// Asks for a new number of workers; everything else about the stack stays, but for the first boot of new workers where it is given.
pub(in crate::driver) async fn resize(
    session: &Session,
    seen: &Seen,
    wanted: &Wanted,
    user_data: Option<String>,
    minutes: u32,
    rollback: bool,
) -> Result<(), Failure> {
    let mut parameters = Map::new();
    let mut remove = wanted.remove.clone();
    if let Some(pool) = seen.minions.as_deref().filter(|pool| !pool.former.is_empty()) {
        let resources = session.heat().resources(&seen.stack_name, &seen.stack_id, DEPTH).await?;
        let tree = Tree::new(&resources);
        let members: Vec<&str> = tree.members(PoolKind::Workers).iter().map(|member| member.resource_name.as_str()).collect();
        remove.extend(unnamed(&members, pool, wanted));
    }
    parameters.insert(COUNT.into(), json!(wanted.count));
    if !remove.is_empty() {
        parameters.insert(REMOVE.into(), json!(remove));
    }
    if seen.minions.is_some() {
        // What a replacement that failed has left: workers that are only added replace nobody.
        parameters.insert(pools::names(PoolKind::Workers).replaces.into(), json!([]));
    }
    if let Some(user_data) = user_data {
        parameters.insert(USER_DATA.into(), json!(user_data));
    }
    let update = StackUpdate {
        parameters,
        hidden: SECRETS,
        timeout_mins: Some(minutes),
        disable_rollback: Some(!rollback),
        ..StackUpdate::default()
    };
    session.heat().update_stack(&seen.stack_name, &seen.stack_id, &update).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::from_value;

    use super::*;

    #[test]
    fn parameters_are_read_however_heat_shows_them() {
        for (count, removed) in [(json!("3"), json!("1,4")), (json!(3), json!(["1", "4"])), (json!(" 3 "), json!(r#"["1", "4"]"#))] {
            let parameters = Map::from_iter([(COUNT.to_owned(), count), (REMOVE.to_owned(), removed)]);
            assert_eq!(of(&parameters), Workers { count: Some(3), removed: vec!["1".into(), "4".into()] });
        }
        assert_eq!(of(&Map::from_iter([(REMOVE.to_owned(), json!(""))])), Workers::default());
    }

    #[test]
    fn former_members_that_a_smaller_number_takes_are_named_and_others_keep_the_order_in_which_heat_takes_them() {
        let former = ["0", "1", "2", "9", "10"].map(|number| (number.to_owned(), "img".to_owned())).into();
        let pool = Pool { former, ..Pool::default() };
        let members = ["10", "0", "9", "1", "11", "2"];
        let named = |count: i32, remove: &[&str]| {
            let remove = remove.iter().map(|number| (*number).to_owned()).collect();
            unnamed(&members, &pool, &Wanted { count, remove })
        };
        assert_eq!(named(3, &[]), ["9", "10"]);
        assert_eq!(named(5, &[]), [""; 0], "11 is of those that came, and may come again");
        assert_eq!(named(3, &["9"]), ["10"]);
        assert_eq!(named(4, &["9", "10"]), [""; 0]);
        assert_eq!(named(8, &[]), [""; 0]);
    }

    fn resource(name: &str, kind: &str, id: &str, parent: Option<&str>, within: &str, nested: Option<&str>) -> StackResource {
        let href = |stack: &str| format!("http://heat/v1/p/stacks/{stack}/{stack}-id");
        let mut links = vec![json!({"href": href(within), "rel": "stack"})];
        if let Some(nested) = nested {
            links.push(json!({"href": href(nested), "rel": "nested"}));
        }
        from_value(
            json!({"resource_name": name, "resource_type": kind, "physical_resource_id": id, "parent_resource": parent, "links": links}),
        )
        .expect("a resource")
    }

    #[test]
    fn members_are_told_by_number_server_and_port() {
        let mut resources = vec![
            resource("kube_minions", "OS::Heat::ResourceGroup", "g", None, "top", Some("group")),
            resource("kube_masters", "OS::Heat::ResourceGroup", "m", None, "top", Some("masters")),
            resource("0", "kubemaster.yaml", "x", Some("kube_masters"), "masters", Some("master-0")),
        ];
        for (number, server) in [("10", "server-10"), ("2", "server-2"), ("0", "")] {
            let own = format!("member-{number}");
            resources.push(resource(number, "kubeminion.yaml", "x", Some("kube_minions"), "group", Some(&own)));
            resources.push(resource("kube-minion", "OS::Nova::Server", server, Some(number), &own, None));
            resources.push(resource("kube_minion_eth0", "OS::Neutron::Port", &format!("port-{number}"), Some(number), &own, None));
        }
        let tree = Tree::new(&resources);
        let members = number(&tree, PoolKind::Workers);
        let told: Vec<_> = members.iter().map(|m| (m.number.as_str(), m.server_id.as_deref())).collect();
        assert_eq!(told, [("0", None), ("2", Some("server-2")), ("10", Some("server-10"))]);
        let ports = tree.members(PoolKind::Workers).iter().map(|member| tree.part(member, "OS::Neutron::Port").and_then(tree::id));
        assert_eq!(ports.collect::<Vec<_>>(), [Some("port-10"), Some("port-2"), Some("port-0")], "each has its own");
    }

    #[test]
    fn a_node_is_one_when_it_said_so_itself() {
        let signal = |status: &str, data: &str| Signal { status: status.into(), data: data.into(), ..Signal::default() };
        for (said, has) in [
            (vec![], false),
            (vec![signal("SUCCESS", "blue-node-0")], true),
            (vec![signal("FAILURE", "blue-node-0")], false),
            (vec![signal("SUCCESS", "blue-node-0"), signal("FAILURE", "")], false),
            (vec![signal("SUCCESS", EXCUSED)], false),
            (vec![signal("SUCCESS", ABSENT)], false),
        ] {
            assert_eq!(has_become(&said), has, "{said:?}");
        }
    }

    #[test]
    fn a_node_is_no_part_of_the_cluster_when_it_said_so_and_nothing_else() {
        let signal = |status: &str, data: &str| Signal { status: status.into(), data: data.into(), ..Signal::default() };
        for (said, is) in [
            (vec![], false),
            (vec![signal("FAILURE", "absent")], true),
            (vec![signal("SUCCESS", "absent")], true),
            (vec![signal("FAILURE", "blue-node-0")], false),
            (vec![signal("FAILURE", "absent"), signal("FAILURE", "blue-node-0")], false),
            (vec![signal("SUCCESS", EXCUSED)], false),
        ] {
            assert_eq!(is_absent(&said), is, "{said:?}");
        }
    }
}
