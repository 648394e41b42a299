//! A new number of workers in a group, by resize or by PATCH of the cluster, and which of them go.
//!
//! The wish is in the operation; the stack is asked until its own parameters say the same and it is complete. Nodes that the user names are
//! looked up once, and what they were found to be is recorded before the stack is asked: afterwards they are gone and could not be found.

mod first_boot;
mod masters;

use std::net::IpAddr;
use std::sync::Arc;

use model::cluster::status::Status;
use model::nodegroup::Nodegroup;
use model::operation::{OperationEvent, OutcomeCode, Payload, Progress};
use provider_clients::{Server, Session};

use super::{Rows, addresses, rows};
use crate::context::Context;
use crate::driver::{Member, Missing, PoolKind, Resize, capi_helm};
use crate::nodegroup::halfway;
use crate::outcome::{Failure, Turn};
use crate::plan::{self, Seen, Sent, UpdateStep, Wanted};
use crate::stack::{self, Whose};
use crate::worker::{Size, Work};
use crate::{credentials, driver, nodegroup, room};

/// The event of having found the nodes that go: a list of their numbers, of several events where it is long.
const CHOSEN: &str = "nodes_to_remove";

/// The event of nodes that did not become any and go unasked; its text is their numbers.
const GIVEN_UP: &str = "nodes_given_up";

/// The event of nodes that others have come for, and that go with the next change of their stack; its text is their numbers.
const SEEN_OFF: &str = "nodes_seen_off";

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
    let events = stack::events(cx, work).await?;
    let sent = observed.seen().and_then(|seen| sent(cx, &events, seen));
    work.saw_size(observed.seen().and_then(|seen| size(&payload, seen, sent.as_ref(), work.is_settled(cx))));
    // What an operation has found that this one does again may be gone by now. It is this one's from here on.
    if !payload.nodes_to_remove.is_empty()
        && stack::listed(&events, CHOSEN).is_none()
        && let Some(found) = stack::listed_before(cx, work, CHOSEN).await?
    {
        stack::record_list(cx, work, &Progress { step: "nodes", ..Progress::default() }, CHOSEN, &found).await?;
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
    let excused = match observed.at_rest() {
        Some(seen) => driver::excused(&session, seen, PoolKind::Workers).await?,
        None => Vec::new(),
    };
    let absent: Vec<String> = excused.iter().filter(|m| m.is_absent && !remove.contains(&m.number)).map(|m| m.number.clone()).collect();
    let replaced = observed.at_rest().map(halfway::seen_off).unwrap_or_default();
    let replaced: Vec<String> = replaced.into_iter().filter(|number| !remove.contains(number) && !absent.contains(number)).collect();
    let remove = remove.into_iter().chain(absent.iter().cloned()).chain(replaced.iter().cloned()).collect();
    let wanted = Wanted { count: payload.node_count.unwrap_or_else(|| kept(&payload, group, observed.seen())), remove };
    let whose = Whose::of(&rows.cluster, group);
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
        UpdateStep::Send(seen) => match masters::pass_by(cx, work, &session, &seen, &events).await? {
            Some(turn) => Ok(turn),
            None => send(cx, work, &rows, group, &session, &seen, (wanted, &excused, absent, replaced)).await,
        },
        UpdateStep::Wait(seen) => {
            let verb = format!("resizing {} to {}", group.name, wanted.count);
            stack::follow(cx, work, whose, &verb, seen, &session).await
        }
        UpdateStep::WaitForBeginning(seen) => stack::wait_for(cx, work, &format!("the change of stack {}", seen.stack_name)).await,
        UpdateStep::Finish(seen) if !work.is_settled(cx) && may_change(&payload, group, seen.workers.count, sent.is_some()) => {
            stack::wait_for(cx, work, &stays(&seen)).await
        }
        UpdateStep::Finish(seen) => {
            if may_have_lost(&payload, &wanted, &events) && nodegroup::objects::are_left(&seen) {
                nodegroup::objects::take_out(cx, work, &rows, (seen.stack_name.as_str(), Some(&seen)), &session).await?;
            }
            let is_halfway = halfway::is(cx, (&rows.cluster, group), &session, &seen, &excused).await?;
            let notes: Vec<String> = masters::note(&session, &seen).await?.into_iter().chain(notes(&excused, is_halfway)).collect();
            let note = (!notes.is_empty()).then(|| notes.join("; "));
            nodegroup::finish(cx, work, &rows, group, &session, &seen, note).await
        }
        UpdateStep::Fail { reason, .. } => Err(Failure::of_stack(reason)),
    }
}

/// What is seen of the size of a group by its stack; `sent` is what this operation has asked for, `is_settled`: what others have asked before it
/// has come to its end.
///
/// After a change that failed the stack says what was asked for; and one that shows a moment before a change is no stack at rest. Fewer nodes than
/// the group had are believed only when nothing can be under way any more that an operation before this one has asked for.
pub(super) fn size(payload: &Payload, seen: &Seen, sent: Option<&Sent>, is_settled: bool) -> Option<Size> {
    let count = seen.workers.count?;
    let is_believed = match sent {
        Some(sent) => !sent.may_not_have_begun(seen),
        None => is_settled || Some(count) >= before(payload),
    };
    let is_so = is_believed && seen.settled_workers().is_some();
    Some(if is_so { Size::Is(count) } else { Size::Asked(count) })
}

/// The size of a group for which the operation asks none, as an update that mends it: what its stack was asked for last. Its row may say more, after
/// a change that ended badly; and while nodes are replaced the stack has more than the group.
fn kept(payload: &Payload, group: &Nodegroup, seen: Option<&Seen>) -> i32 {
    let known = before(payload).unwrap_or_else(|| group.node_count());
    seen.and_then(|seen| seen.workers.count).map_or(known, |asked| asked.min(known))
}

/// The size that the group had when nothing was asked yet.
fn before(payload: &Payload) -> Option<i32> {
    payload.before.as_ref().and_then(|before| before.node_count)
}

/// Whether a stack that is as wanted may yet become something else, for an operation before this one may have asked it to: that one ended badly,
/// so nobody need have seen what came of it, or the stack has fewer nodes than the row told, of which this operation `has_asked` nothing.
fn may_change(payload: &Payload, group: &Nodegroup, count: Option<i32>, has_asked: bool) -> bool {
    was_left(payload, group) || (!has_asked && count < before(payload))
}

/// Whether nodes may have gone: the group had more, some were named, or did not become any and went unasked.
fn may_have_lost(payload: &Payload, wanted: &Wanted, events: &[OperationEvent]) -> bool {
    before(payload) > Some(wanted.count) || !payload.nodes_to_remove.is_empty() || events.iter().any(|e| e.kind == GIVEN_UP)
}

/// Whether the operation about a group before this one ended badly, or one that is about no group: that replaces nodes of any.
pub(crate) fn was_left(payload: &Payload, group: &Nodegroup) -> bool {
    let Some(before) = &payload.before else { return false };
    [before.group(&group.nodegroup_id()), before.status()].contains(&Some(Status::UpdateFailed))
}

/// What is waited for until nothing can be on its way any more.
pub(crate) fn stays(seen: &Seen) -> String {
    format!("whether stack {} stays as it is", seen.stack_name)
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

/// What is told of a group that is as wanted, if anything.
pub(crate) fn notes(excused: &[Missing], is_halfway: bool) -> Option<String> {
    let notes: Vec<String> = note(excused).into_iter().chain(is_halfway.then(|| halfway::NOTE.to_owned())).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// What is told of workers that another operation passed by: they stay, for they may be nodes.
pub(crate) fn note(excused: &[Missing]) -> Option<String> {
    let numbers: Vec<&str> = excused.iter().map(|m| m.number.as_str()).collect();
    (!numbers.is_empty()).then(|| {
        let numbers = numbers.join(", ");
        format!("of nodes {numbers} nobody knows whether they became any; a resize with nodes_to_remove naming those that did not has others come")
    })
}

/// Asks the stack for what is wanted where the project has room for it, recorded first. `excused` are workers that were given up; `absent` and `replaced` those
/// of the workers that go which nobody named.
async fn send(
    cx: &Context,
    work: &Work,
    rows: &Rows,
    group: &Nodegroup,
    session: &Session,
    seen: &Seen,
    (wanted, excused, absent, replaced): (Wanted, &[Missing], Vec<String>, Vec<String>),
) -> Result<Turn, Failure> {
    if let Some((_, then)) = growth(seen, wanted.count) {
        addresses::suffice(cx, rows, group, seen, then).await?;
    }
    if let Some(short) = short(session, seen, &wanted).await? {
        return room::wait(cx, work, &stack::events(cx, work).await?, short).await;
    }
    let minutes = stack::minutes_left(cx, work);
    let user_data = first_boot::anew(cx, rows, group, session, (seen, excused), minutes).await?;
    let failed = given_up(session, seen, &wanted).await?;
    let waiting_for = Some(format!("the change of stack {}", seen.stack_name));
    let rollback = work.payload()?.rollback;
    let size = work.seen_size();
    work.saw_size(None);
    let (before, list) = (stack::before(seen), [absent, failed.clone()].concat().join(", "));
    let mut told = vec![(stack::UPDATE, before.as_str())];
    let replaced = replaced.join(", ");
    for (kind, list) in [(GIVEN_UP, &list), (SEEN_OFF, &replaced)] {
        if !list.is_empty() {
            told.insert(0, (kind, list));
        }
    }
    stack::record(cx, work, &Progress { step: "stack", waiting_for, ..Progress::default() }, &told).await?;
    let wanted = Wanted { remove: wanted.remove.into_iter().chain(failed).collect(), ..wanted };
    let asked = driver::resize(session, seen, Resize { wanted, user_data, minutes, rollback }).await;
    if matches!(asked, Err(Failure::Final { .. })) {
        // It was refused: the group is what it was.
        work.saw_size(size);
    }
    stack::note_not_taken(cx, work, seen, asked).await?;
    Ok(Turn::Again { after: cx.settings.timing.poll_min })
}

/// Workers for whose signal a stack that failed waited in vain, beside those that are to go: others come in their place, for they would fail it again
/// however often it is asked.
async fn given_up(session: &Session, seen: &Seen, wanted: &Wanted) -> Result<Vec<String>, Failure> {
    if !seen.status.ends_with("_FAILED") {
        return Ok(Vec::new());
    }
    let missing = driver::missing(session, seen, &[PoolKind::Workers]).await?;
    Ok(missing.into_iter().filter(|m| !m.is_awaited && !wanted.remove.contains(&m.number)).map(|m| m.number).collect())
}

/// What was asked of the stack by this operation, beside the passing by of masters.
fn sent(cx: &Context, events: &[OperationEvent], seen: &Seen) -> Option<Sent> {
    let all = events.iter().filter(|e| e.kind == stack::UPDATE).count();
    let others = masters::tries(events) + stack::not_taken(events, &seen.stack_name);
    let sent = stack::sent(cx, events, &seen.stack_name, all.saturating_sub(others))?;
    // That fails, as the stack did before: what comes next has not been asked for.
    Some(sent).filter(|sent| !masters::are_last(events) || sent.may_not_have_begun(seen))
}

/// The numbers of the nodes that go; none while they are not looked up.
fn chosen(payload: &Payload, events: &[OperationEvent]) -> Option<Vec<String>> {
    if payload.nodes_to_remove.is_empty() {
        return Some(Vec::new());
    }
    Some(stack::listed(events, CHOSEN)?.into_iter().map(str::to_owned).collect())
}

/// Looks up the nodes that the user named and records what they are.
async fn choose(cx: &Context, work: &Work, group: &Nodegroup, payload: &Payload, session: &Session, seen: &Seen) -> Result<(), Failure> {
    let members = candidates(session, seen, &payload.nodes_to_remove).await?;
    let numbers = numbers(session, group, &payload.nodes_to_remove, &members).await?;
    let progress = Progress { step: "nodes", waiting_for: Some("the nodes to remove".into()), ..Progress::default() };
    stack::record_list(cx, work, &progress, CHOSEN, &numbers).await
}

/// The nodes of a group among which some are named; with their addresses, which take Neutron, only where an address is among the names.
pub(crate) async fn candidates(session: &Session, seen: &Seen, named: &[String]) -> Result<Vec<Member>, Failure> {
    match named.iter().any(|name| address(name).is_some()) {
        true => driver::members_with_addresses(session, seen, PoolKind::Workers).await,
        false => driver::members(session, seen, PoolKind::Workers).await,
    }
}

fn address(name: &str) -> Option<IpAddr> {
    name.trim().parse().ok()
}

/// The numbers of the nodes of a group that the user named, each once.
///
/// # Errors
/// When one of them is none of the group's, or may be several, and whatever Nova says.
pub(crate) async fn numbers(session: &Session, group: &Nodegroup, named: &[String], members: &[Member]) -> Result<Vec<String>, Failure> {
    resolve(session, named, members).await?.map_err(|wrong| {
        let rule = match wrong {
            Wrong::Unknown(name) => format!("has no node {name}"),
            Wrong::Ambiguous(name) => format!("has several nodes {name}"),
        };
        let text = format!("nodes_to_remove: nodegroup {} {rule} (by server id, name, number or address)", group.name);
        Failure::fail(OutcomeCode::User, text)
    })
}

/// What names no node, or does not say which.
#[derive(Debug, PartialEq, Eq)]
enum Wrong {
    Unknown(String),
    Ambiguous(String),
}

/// The numbers of the named nodes, each once, in their order; the first name that does not fit exactly one node is the error.
///
/// Nova is asked only about what is no server id, number or address: each such name is a node's, or the last that is asked about.
async fn resolve(session: &Session, named: &[String], members: &[Member]) -> Result<Result<Vec<String>, Wrong>, Failure> {
    let mut names: Vec<&str> = Vec::new();
    let mut numbers: Vec<String> = Vec::new();
    for name in named.iter().map(|n| n.trim()).filter(|n| !n.is_empty()) {
        if names.contains(&name) {
            continue;
        }
        names.push(name);
        let member = match member(members, name) {
            Some(member) => Ok(member),
            None => of_server(members, name, &session.nova().servers(name).await?),
        };
        match member {
            Ok(member) if numbers.contains(&member.number) => {}
            Ok(member) => numbers.push(member.number.clone()),
            Err(wrong) => return Ok(Err(wrong)),
        }
    }
    Ok(Ok(numbers))
}

/// The node of this server id, number or address, which IPv6 lets people write in several ways.
fn member<'a>(members: &'a [Member], name: &str) -> Option<&'a Member> {
    let named = address(name);
    let is_at = |own: &String| named.is_some() && address(own) == named;
    members.iter().find(|m| {
        m.server_id.as_ref().is_some_and(|id| id.eq_ignore_ascii_case(name))
            || m.number == name
            || m.addresses.iter().chain(&m.floating_ip).any(is_at)
    })
}

/// The node whose server has exactly this name, which Kubernetes shows too. Nova does not mind that servers are called the same.
fn of_server<'a>(members: &'a [Member], name: &str, servers: &[Server]) -> Result<&'a Member, Wrong> {
    let is_called = |m: &&Member| servers.iter().any(|s| s.name == name && m.server_id.as_deref() == Some(s.id.as_str()));
    let mut called = members.iter().filter(is_called);
    match (called.next(), called.next()) {
        (Some(member), None) => Ok(member),
        (Some(_), Some(_)) => Err(Wrong::Ambiguous(name.to_owned())),
        (None, _) => Err(Wrong::Unknown(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> [Member; 3] {
        [("0", "aa", "10.0.0.1"), ("2", "bb", "10.0.0.2"), ("3", "cc", "10.0.0.3")].map(|(number, server, address)| Member {
            number: number.into(),
            server_id: Some(server.into()),
            addresses: vec![address.into(), format!("fd00::{number}")],
            ..Member::default()
        })
    }

    #[test]
    fn nodes_are_found_by_server_number_or_address() {
        let members = members();
        for (name, number) in [
            ("BB", Some("2")),
            ("0", Some("0")),
            ("10.0.0.3", Some("3")),
            ("fd00::3", Some("3")),
            ("FD00:0:0::0:2", Some("2")),
            ("1", None),
            ("10.0.0", None),
            ("fd00::1", None),
        ] {
            assert_eq!(member(&members, name).map(|m| m.number.as_str()), number, "{name}");
        }
    }

    #[test]
    fn a_node_is_found_by_the_whole_name_of_its_server_where_no_other_of_the_group_has_it() {
        let members = members();
        let server = |id: &str, name: &str| Server { id: id.into(), name: name.into(), ..Server::default() };
        let servers = [server("bb", "blue-node-2"), server("cc", "blue-node-20"), server("elsewhere", "blue-node-2"), server("dd", "blue")];
        assert_eq!(of_server(&members, "blue-node-2", &servers).map(|m| m.number.as_str()), Ok("2"));
        // A beginning is no name, and a server of the project that is no node of the group is none of its nodes.
        for name in ["blue-node", "blue", "Blue-node-2", ""] {
            assert_eq!(of_server(&members, name, &servers), Err(Wrong::Unknown(name.into())));
        }
        let twins = [server("aa", "twin"), server("bb", "twin")];
        assert_eq!(of_server(&members, "twin", &twins), Err(Wrong::Ambiguous("twin".into())));
    }

    /// Of an operation about a group that had so many nodes.
    fn payload(before: i32, wanted: Option<i32>) -> Payload {
        let before = model::operation::Before { node_count: Some(before), ..Default::default() };
        Payload { node_count: wanted, before: Some(before), ..Payload::default() }
    }

    fn stack(count: i32, status: &str) -> Seen {
        let workers = plan::Workers { count: Some(count), removed: Vec::new() };
        Seen { status: status.into(), changed: "t1".into(), workers, ..Seen::default() }
    }

    #[test]
    fn a_stack_tells_the_size_of_a_group_at_rest_and_once_nothing_can_be_on_its_way_any_more() {
        let sent = |before: &str, is_fresh: bool| Some(Sent { tries: 1, before: plan::Before::Changed(before.into()), is_fresh });
        let told = |seen: &Seen, sent: Option<Sent>, is_settled: bool| size(&payload(10, Some(3)), seen, sent.as_ref(), is_settled);
        // What was asked for has come, or was taken back.
        for (count, status) in [(3, "UPDATE_COMPLETE"), (10, "ROLLBACK_COMPLETE")] {
            assert_eq!(told(&stack(count, status), sent("t0", true), false), Some(Size::Is(count)), "{status}");
        }
        // It was asked for a moment ago, and may be on its way; after a while it is not.
        assert_eq!(told(&stack(10, "UPDATE_COMPLETE"), sent("t1", true), true), Some(Size::Asked(10)));
        assert_eq!(told(&stack(10, "UPDATE_COMPLETE"), sent("t1", false), false), Some(Size::Is(10)));
        // The parameters of a stack at work, or of one that failed, are a wish.
        for status in ["UPDATE_IN_PROGRESS", "UPDATE_FAILED"] {
            assert_eq!(told(&stack(3, status), sent("t0", false), true), Some(Size::Asked(3)), "{status}");
        }
        // An operation before this one may have asked for more than this.
        assert_eq!(told(&stack(4, "UPDATE_COMPLETE"), None, false), Some(Size::Asked(4)));
        assert_eq!(told(&stack(4, "UPDATE_COMPLETE"), None, true), Some(Size::Is(4)));
        assert_eq!(told(&stack(10, "UPDATE_COMPLETE"), None, false), Some(Size::Is(10)));
        assert_eq!(told(&Seen::default(), None, true), None);
    }

    #[test]
    fn what_nobody_has_seen_the_end_of_may_change_a_stack_that_is_as_wanted() {
        let group = Nodegroup { uuid: "g".into(), ..Nodegroup::default() };
        let behind = |status: Status| {
            let mut payload = payload(10, Some(3));
            let groups = payload.before.as_mut().map(|before| &mut before.groups);
            groups.expect("it has").insert(group.nodegroup_id(), status.as_str().to_owned());
            payload
        };
        for (status, count, has_asked, wanted) in [
            // Cancelled, or failed: more or fewer nodes may come, whatever this one has asked for since.
            (Status::UpdateFailed, 10, false, true),
            (Status::UpdateFailed, 3, true, true),
            (Status::UpdateComplete, 3, false, true),
            (Status::UpdateComplete, 3, true, false),
            (Status::UpdateComplete, 10, false, false),
            (Status::CreateFailed, 10, false, false),
        ] {
            assert_eq!(may_change(&behind(status), &group, Some(count), has_asked), wanted, "{status:?} {count} {has_asked}");
        }
        assert!(!may_change(&Payload::default(), &group, Some(3), false));
        // A rotation says nothing of the groups whose nodes it replaces: the cluster was left as it was cut off.
        let on = |status: Status| {
            let before = model::operation::Before { status: Some(status.as_str().to_owned()), ..Default::default() };
            Payload { before: Some(before), ..behind(Status::UpdateComplete) }
        };
        for (status, wanted) in [(Status::UpdateFailed, true), (Status::UpdateComplete, false), (Status::CreateComplete, false)] {
            assert_eq!(may_change(&on(status), &group, Some(3), true), wanted, "{status:?}");
        }
    }

    #[test]
    fn nodes_may_have_gone_where_fewer_are_wanted_or_some_were_named_or_given_up() {
        let wanted = |count: i32| Wanted { count, remove: Vec::new() };
        let given_up = [crate::stack::tests::event(GIVEN_UP, "3")];
        for (count, is) in [(2, true), (3, false), (4, false)] {
            assert_eq!(may_have_lost(&payload(3, Some(count)), &wanted(count), &[]), is, "{count}");
        }
        assert!(may_have_lost(&payload(3, None), &wanted(3), &given_up));
        let named = Payload { nodes_to_remove: vec!["0".into()], ..payload(3, Some(3)) };
        assert!(may_have_lost(&named, &wanted(3), &[]) && !may_have_lost(&Payload::default(), &wanted(3), &[]));
    }

    #[test]
    fn a_group_that_is_mended_keeps_what_was_asked_for_last_and_none_of_those_that_replace_others() {
        let group = Nodegroup { node_count: Some(5), ..Nodegroup::default() };
        let (mends, unsaid) = (payload(10, None), Payload::default());
        assert_eq!(kept(&mends, &group, Some(&stack(3, "UPDATE_FAILED"))), 3);
        assert_eq!(kept(&mends, &group, Some(&stack(12, "UPDATE_FAILED"))), 10);
        // It is to be made: with as many as it had when the request came, not as others want it afterwards.
        assert_eq!(kept(&mends, &group, None), 10);
        assert_eq!(kept(&unsaid, &group, None), 5);
    }
}
