//! A new number of workers in a group, by resize or by PATCH of the cluster, and which of them go.
//!
//! The wish is in the operation; the stack is asked until its own parameters say the same and it is complete. Nodes that the user names are
//! looked up once, and what they were found to be is recorded before the stack is asked: afterwards they are gone and could not be found.

use std::sync::Arc;

use model::nodegroup::Nodegroup;
use model::operation::{OperationEvent, OutcomeCode, Payload, Progress};
use provider_clients::Session;

use super::{Rows, rows};
use crate::context::Context;
use crate::driver::{Member, PoolKind, Resize, capi_helm};
use crate::outcome::{Failure, Turn};
use crate::plan::{self, Seen, Sent, UpdateStep, Wanted};
use crate::stack::{self, Whose};
use crate::worker::Work;
use crate::{certificates, credentials, driver, nodegroup, room};

/// The event of having found the nodes that go; its text is their numbers.
const CHOSEN: &str = "nodes_to_remove";

/// One turn.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    let rows = rows(cx, work).await?;
    if capi_helm::is_ours(&rows) {
        return capi_helm::turn(cx, work, &rows).await;
    }
    let payload = work.payload()?;
    let group = rows.group(&payload)?;
    if payload.as_found {
        return super::found::turn(cx, work, &rows, group).await;
    }
    if group.is_master() {
        return Err(Failure::fail(OutcomeCode::User, "the number of masters cannot be changed"));
    }
    let session = credentials::for_stacks(cx, work, &rows).await?;
    let known = rows.stack_of(group);
    let observed = driver::observe(&known.handle, &session).await?;
    tracing::debug!(?observed, "observed");
    if let Some(count) = observed.seen().and_then(|s| s.workers.count) {
        work.saw_workers(count);
    }
    let events = stack::events(cx, work).await?;
    let found = match &payload.retry_of {
        // What the operation before this one has found may be gone by now. It is this one's from here on, and that of whoever tries it again.
        Some(failed) if !events.iter().any(|e| e.kind == CHOSEN) => {
            stack::events_of(cx, failed).await?.into_iter().find(|e| e.kind == CHOSEN)
        }
        _ => None,
    };
    if let Some(found) = found {
        stack::record(cx, work, &Progress { step: "nodes", ..Progress::default() }, &[(CHOSEN, &found.message)]).await?;
        return Ok(Turn::NOW);
    }
    let remove = match (chosen(&payload, &events), observed.at_rest()) {
        (Some(remove), _) => remove,
        (None, Some(seen)) => {
            choose(cx, work, group, &payload, &session, seen).await?;
            return Ok(Turn::NOW);
        }
        // Nothing can be sent before it is known which nodes go; the plan waits, or fails for a reason of its own.
        (None, None) => Vec::new(),
    };
    let wanted = Wanted { count: payload.node_count.unwrap_or(group.node_count()), remove };
    let whose = Whose::of(&rows.cluster, group);
    let sent = observed.seen().and_then(|seen| sent(cx, &events, seen));
    match plan::update(observed, &wanted, sent.as_ref()) {
        UpdateStep::Make if group.is_default() => Err(Failure::fail(OutcomeCode::Cloud, "the cluster's stack is gone")),
        // It was there, and is gone: what is made now has another id.
        UpdateStep::Make if known.handle.id.is_some() => {
            stack::gone(cx, work, whose, &known).await?;
            Ok(Turn::NOW)
        }
        UpdateStep::Make if !known.is_settled(cx, work) => stack::await_unclear(cx, work).await,
        UpdateStep::Make => {
            let group = Nodegroup { node_count: Some(wanted.count), ..group.clone() };
            nodegroup::make(cx, work, &rows, &group, &session).await
        }
        UpdateStep::Send(seen) => send(cx, work, &rows, group, &session, &seen, wanted).await,
        UpdateStep::Wait(seen) => {
            let verb = format!("resizing {} to {}", group.name, wanted.count);
            stack::follow(cx, work, whose, &verb, seen, &session).await
        }
        UpdateStep::WaitForBeginning(seen) => stack::wait_for(cx, work, &format!("the change of stack {}", seen.stack_name)).await,
        UpdateStep::Finish(seen) => nodegroup::finish(cx, work, &rows, group, &session, &seen).await,
        UpdateStep::Fail { reason, .. } => Err(Failure::of_stack(reason)),
    }
}

/// What the project lacks for the workers that are wanted, if anything.
async fn short(session: &Session, seen: &Seen, wanted: &Wanted) -> Result<Option<String>, Failure> {
    let Some((more, then)) = growth(seen, wanted.count) else { return Ok(None) };
    Ok(room::short(session, &driver::need_of_more(session, seen, PoolKind::Workers, more, then).await?, None).await)
}

/// How many workers come to a stack, and how many it has then; none where none come. After a change that failed the stack's parameters do not
/// say how many there are.
pub(crate) fn growth(seen: &Seen, wanted: i32) -> Option<(u64, u64)> {
    let more = wanted - seen.settled_workers().unwrap_or(wanted);
    Some((u64::try_from(more).ok().filter(|more| *more > 0)?, u64::try_from(wanted).ok()?))
}

/// Asks the stack for what is wanted where the project has room for it, recorded first.
async fn send(
    cx: &Context,
    work: &Work,
    rows: &Rows,
    group: &Nodegroup,
    session: &Session,
    seen: &Seen,
    wanted: Wanted,
) -> Result<Turn, Failure> {
    if let Some(short) = short(session, seen, &wanted).await? {
        return room::wait(cx, work, &stack::events(cx, work).await?, short).await;
    }
    let minutes = stack::minutes_left(cx, work);
    // Labels and taints that were changed since the stack was made are for the nodes to come; a stack that upstream made has none of ours.
    let user_data = match rows.nodes.contains_key(&group.uuid) && seen.has_our_workers {
        true => {
            let material = certificates::material(cx, &rows.cluster).await?;
            Some(driver::worker_user_data(&cx.settings, &rows.target(session)?, group, seen, &material, minutes)?)
        }
        false => None,
    };
    let waiting_for = Some(format!("the change of stack {}", seen.stack_name));
    stack::record(cx, work, &Progress { step: "stack", waiting_for, ..Progress::default() }, &[(stack::UPDATE, &stack::before(seen))])
        .await?;
    let rollback = work.payload()?.rollback;
    driver::resize(session, seen, Resize { wanted, user_data, minutes, rollback }).await?;
    Ok(Turn::Again { after: cx.settings.timing.poll_min })
}

/// What was asked of the stack by this operation.
fn sent(cx: &Context, events: &[OperationEvent], seen: &Seen) -> Option<Sent> {
    let tries = events.iter().filter(|e| e.kind == stack::UPDATE).count();
    stack::sent(cx, events, &seen.stack_name, tries)
}

/// The numbers of the nodes that go; none while they are not looked up.
fn chosen(payload: &Payload, events: &[OperationEvent]) -> Option<Vec<String>> {
    if payload.nodes_to_remove.is_empty() {
        return Some(Vec::new());
    }
    let found = events.iter().find(|e| e.kind == CHOSEN)?;
    Some(found.message.split(',').filter(|n| !n.is_empty()).map(str::to_owned).collect())
}

/// Looks up the nodes that the user named and records what they are.
async fn choose(cx: &Context, work: &Work, group: &Nodegroup, payload: &Payload, session: &Session, seen: &Seen) -> Result<(), Failure> {
    let members = driver::members(session, seen, PoolKind::Workers).await?;
    let numbers = numbers(group, &payload.nodes_to_remove, &members)?;
    let progress = Progress { step: "nodes", waiting_for: Some("the nodes to remove".into()), ..Progress::default() };
    stack::record(cx, work, &progress, &[(CHOSEN, &numbers.join(","))]).await
}

/// The numbers of the nodes of a group that the user named, each once.
///
/// # Errors
/// When one of them is none of the group's.
pub(crate) fn numbers(group: &Nodegroup, named: &[String], members: &[Member]) -> Result<Vec<String>, Failure> {
    resolve(named, members).map_err(|unknown| {
        let text = format!("nodes_to_remove: nodegroup {} has no node {unknown} (by server id, number or address)", group.name);
        Failure::fail(OutcomeCode::User, text)
    })
}

/// The numbers of the named nodes, each once, in their order; the first name that fits no node is the error.
fn resolve(named: &[String], members: &[Member]) -> Result<Vec<String>, String> {
    let mut numbers: Vec<String> = Vec::new();
    for name in named.iter().map(|n| n.trim()).filter(|n| !n.is_empty()) {
        let is_it = |m: &&Member| {
            m.server_id.as_ref().is_some_and(|id| id.eq_ignore_ascii_case(name))
                || m.number == name
                || m.addresses.iter().any(|a| a == name)
        };
        let member = members.iter().find(is_it).ok_or_else(|| name.to_owned())?;
        if !numbers.contains(&member.number) {
            numbers.push(member.number.clone());
        }
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_found_by_server_number_or_address_and_an_unknown_one_is_named() {
        let member = |number: &str, server: &str, address: &str| Member {
            number: number.into(),
            server_id: Some(server.into()),
            addresses: vec![address.into()],
        };
        let members = [member("0", "aa", "10.0.0.1"), member("2", "bb", "10.0.0.2"), member("3", "cc", "10.0.0.3")];
        let find = |named: &[&str]| resolve(&named.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>(), &members);
        assert_eq!(find(&["BB", "0", "10.0.0.3", "2", " "]), Ok(vec!["2".into(), "0".into(), "3".into()]));
        assert_eq!(find(&["0", "1"]), Err("1".into()));
        assert_eq!(find(&[]), Ok(vec![]));
    }
}
