//! What Kubernetes keeps of nodes that were taken away: their objects.
//!
//! Where a cloud provider runs in a cluster it removes the objects of nodes whose servers are gone. Where none does nobody would: they would stay there,
//! not ready, and so would pods of stateful sets, others of which are made once their node is gone. Nodes that are replaced are seen off inside the
//! cluster. Of those that a smaller number takes, or the end of their group, the objects are removed here, by whoever has taken the machines away, where
//! conductors reach the cluster's API. Elsewhere an event tells that they stay; the cluster's health leaves them out (`health/verdict.rs`).
//!
//! Whatever is not known to be gone stays. A number may come again, and its node is called like the one before: only objects go whose name neither a
//! member of the stack has nor a server, and only as they were when they were listed, which is before anybody looked for servers. Who has joined since
//! under that name has changed the object. Nothing needs to be recorded for it, and all of it can be done again.

use std::time::Duration;

use model::operation::Progress;
use provider_clients::{Kubernetes, KubernetesError, Node, Server, Session};
use tokio::time::Instant;

use crate::cluster::Rows;
use crate::context::Context;
use crate::driver::{self, Member, PoolKind};
use crate::health;
use crate::outcome::Failure;
use crate::plan::Seen;
use crate::stack;
use crate::worker::Work;

/// The event of objects that stay.
const LEFT: &str = "nodes_left";
/// The longest that one call to the cluster may take, and all of them: who waits for the operation has what he asked for by then.
const CALL: Duration = Duration::from_secs(5);
const ALL: Duration = Duration::from_secs(30);
/// Names told in an event.
const NAMED: usize = 20;
/// What is told when a time is over.
const LATE: &str = "no answer in time";

/// Whether nobody inside the cluster removes such objects, by what a stack of it says.
pub(crate) fn are_left(seen: &Seen) -> bool {
    seen.has_our_workers && !seen.has_cloud_provider
}

/// Removes the objects of workers that are gone of the stack of this name; `seen`: as it is at rest, none where it is gone as well.
///
/// # Errors
/// When the operation is not ours any more, or the database is away. Whatever cluster and cloud say fails nothing: it is told in an event.
pub(crate) async fn take_out(
    cx: &Context,
    work: &Work,
    rows: &Rows,
    (name, seen): (&str, Option<&Seen>),
    session: &Session,
) -> Result<(), Failure> {
    let looked = tokio::time::timeout(ALL, look(cx, rows, (name, seen), session)).await;
    let left = match looked.unwrap_or_else(|_| Err(LATE.to_owned())) {
        Ok((_, gone)) if gone.is_empty() => None,
        Ok((client, gone)) => {
            let waiting_for = Some("Kubernetes to forget nodes that are gone".to_owned());
            work.guard(cx, &Progress { step: "nodes", waiting_for, ..Progress::default() }).await?;
            remove(&client, gone).await
        }
        Err(why) => Some(format!("nodes of {name} that were taken away may stay in Kubernetes, not ready: {why}")),
    };
    match left {
        Some(text) => tell(cx, work, &text).await,
        None => Ok(()),
    }
}

/// The nodes that are gone and whose objects are there, and who removes them.
async fn look(
    cx: &Context,
    rows: &Rows,
    (name, seen): (&str, Option<&Seen>),
    session: &Session,
) -> Result<(Kubernetes, Vec<Node>), String> {
    let words = |error: KubernetesError| error.to_string();
    let Some(url) = health::reached(cx, &rows.cluster) else {
        return Err("the API of the cluster is not known to be reached from where this service is".to_owned());
    };
    let client = health::client(cx, &rows.cluster, url.to_owned(), CALL).await.map_err(words)?;
    let nodes = gone(client.nodes().await.map_err(words)?, name, &[], &[]);
    if nodes.is_empty() {
        return Ok((client, nodes));
    }
    let members = match seen {
        Some(seen) => driver::members(session, seen, PoolKind::Workers).await.map_err(reason)?,
        None => Vec::new(),
    };
    // Nova may leave out servers of a cell that is away; Heat does not forget its members for that.
    let servers = session.nova().servers(&PoolKind::Workers.prefix(name)).await.map_err(|error| error.to_string())?;
    Ok((client, gone(nodes, name, &members, &servers)))
}

/// Those of these nodes that were workers of a stack and are neither members of it nor servers.
fn gone(mut nodes: Vec<Node>, stack: &str, members: &[Member], servers: &[Server]) -> Vec<Node> {
    nodes.retain(|node| {
        let number = PoolKind::Workers.number_in(stack, &node.name);
        number.is_some_and(|number| {
            members.iter().all(|member| member.number != number) && servers.iter().all(|server| server.name != node.name)
        })
    });
    nodes
}

/// Removes objects, each if it is as it was listed; what is to be told of those that stay.
async fn remove(client: &Kubernetes, gone: Vec<Node>) -> Option<String> {
    let began = Instant::now();
    let (mut left, mut why) = (Vec::new(), None);
    for node in gone {
        let removed = match began.elapsed() < ALL {
            true => client.delete_node(&node).await,
            false => Err(KubernetesError::Bad(LATE.to_owned())),
        };
        match removed {
            Ok(()) => tracing::info!(node = %node.name, "the object of a node that is gone was removed from Kubernetes"),
            Err(error) => {
                why.get_or_insert(error);
                left.push(node.name);
            }
        }
    }
    let why = why?;
    let names = left.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match left.len().checked_sub(NAMED) {
        None | Some(0) => String::new(),
        Some(more) => format!(" and {more} more"),
    };
    Some(format!("nodes {names}{more} are gone and stay in Kubernetes, not ready: {why}"))
}

/// Tells what stays, once for an operation: whoever takes it over comes here again.
async fn tell(cx: &Context, work: &Work, text: &str) -> Result<(), Failure> {
    if !stack::events_of(cx, &work.operation.operation_id(), &[LEFT]).await?.is_empty() {
        return Ok(());
    }
    let text = format!("{text}. Where a node is not ready whose machine is gone, kubectl delete node removes it");
    stack::record(cx, work, &Progress { step: "nodes", ..Progress::default() }, &[(LEFT, &text)]).await
}

/// Why something was not to be had.
fn reason(failure: Failure) -> String {
    match failure {
        Failure::Retry { reason, .. } | Failure::Final { reason, .. } => reason,
        Failure::Stale => "the operation is another's".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use provider_clients::Ready;

    use super::*;

    #[test]
    fn nodes_are_gone_that_are_neither_members_nor_servers_and_others_are_nobodys_to_remove() {
        let node = |name: &str, ready| Node { name: name.into(), ready, uid: "u".into(), version: "1".into() };
        let nodes = vec![
            node("blue-1-master-0", Ready::True),
            node("blue-1-node-0", Ready::True),
            // A member whose server was lost, and the server of none.
            node("blue-1-node-1", Ready::Unknown),
            node("blue-1-node-2", Ready::Unknown),
            // Kubernetes takes it for ready for a while.
            node("blue-1-node-3", Ready::True),
            node("blue-1-node-12", Ready::Unknown),
            // Of another group, of a cluster with a longer name, and somebody's own.
            node("blue-more-2-node-3", Ready::Unknown),
            node("blue-11-node-3", Ready::Unknown),
            node("blue-1-node-3-theirs", Ready::Unknown),
            node("theirs", Ready::Unknown),
        ];
        let member = |number: &str| Member { number: number.into(), ..Member::default() };
        let server = |name: &str| Server { name: name.into(), ..Server::default() };
        let (members, servers) = ([member("0"), member("1")], [server("blue-1-node-0"), server("blue-1-node-2")]);
        let names = |nodes: Vec<Node>| nodes.into_iter().map(|node| node.name).collect::<Vec<_>>();
        assert_eq!(names(gone(nodes.clone(), "blue-1", &members, &servers)), ["blue-1-node-3", "blue-1-node-12"]);
        // With its stack all are gone, but for what is there all the same.
        assert_eq!(names(gone(nodes.clone(), "blue-more-2", &[], &[])), ["blue-more-2-node-3"]);
        assert!(gone(nodes, "blue-more-2", &[], &[server("blue-more-2-node-3")]).is_empty());
    }

    #[test]
    fn a_stack_with_a_cloud_provider_leaves_none_and_of_upstreams_nobody_knows() {
        let seen = |has_our_workers, has_cloud_provider| Seen { has_our_workers, has_cloud_provider, ..Seen::default() };
        assert!(are_left(&seen(true, false)));
        assert!(!are_left(&seen(true, true)) && !are_left(&seen(false, false)));
    }
}
