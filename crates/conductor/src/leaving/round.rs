//! A round of removing things of one kind: each that can be asked to go is asked, whatever becomes of the others.

use model::cluster::Cluster;
use model::operation::OutcomeCode;
use model::resource::ResourceKind;
use provider_clients::{CloudError, Session};

use super::Item;
use super::ledger::{Tried, forget, intend};
use super::report::FOUND_GONE;
use crate::context::Context;
use crate::outcome::Failure;
use crate::plan::{self, RemovalStep};
use crate::worker::Work;

/// What a round came to.
#[derive(Default)]
pub(super) struct Round<'a> {
    /// Those that have not gone yet.
    pub waiting: Vec<&'a Item>,
    /// Why one of those that stay does, of which there is no more to try; to be told when nothing is waited for.
    pub failed: Option<Failure>,
    /// Whether one was asked to go for the first time.
    pub asks_first: bool,
    staying: Vec<&'a Item>,
}

impl<'a> Round<'a> {
    /// Those that there are still.
    pub fn there(&self) -> impl Iterator<Item = &'a Item> {
        self.waiting.iter().chain(&self.staying).copied()
    }

    fn stays(&mut self, item: &'a Item, failure: Failure) {
        self.failed.get_or_insert(failure);
        self.staying.push(item);
    }
}

/// One round of it for load balancers or volumes.
///
/// # Errors
/// When it is to be tried again. What is refused for good fails the round, and no other removal.
pub(super) async fn round<'a>(
    cx: &Context,
    work: &Work,
    cluster: &Cluster,
    tried: &Tried,
    session: &Session,
    items: &'a [Item],
) -> Result<Round<'a>, Failure> {
    let mut round = Round::default();
    let (mut at_once, mut last) = (Vec::new(), Vec::new());
    for item in items {
        match step(item, tried.times(item)) {
            RemovalStep::Gone => forget(cx, work, cluster, item, None).await?,
            RemovalStep::Wait => round.waiting.push(item),
            RemovalStep::Fail => round.stays(item, Failure::fail(OutcomeCode::Cloud, in_vain(item))),
            RemovalStep::Remove if tried.times(item) < plan::REMOVAL_TRIES => at_once.push(item),
            RemovalStep::Remove => last.push(item),
        }
    }
    let again = at_once.len();
    for (place, item) in at_once.into_iter().chain(last).enumerate() {
        // It was refused again and again: one more request tells why, when the others have gone.
        if place >= again && !round.waiting.is_empty() {
            round.staying.push(item);
            continue;
        }
        intend(cx, work, cluster, item).await?;
        match ask(session, item).await.map_err(Failure::from) {
            Ok(true) => {
                round.asks_first |= tried.times(item) == 0;
                round.waiting.push(item);
            }
            Ok(false) => forget(cx, work, cluster, item, Some(FOUND_GONE)).await?,
            Err(refused @ Failure::Final { .. }) => round.stays(item, refused),
            Err(other) => return Err(other),
        }
    }
    Ok(round)
}

fn step(item: &Item, tries: usize) -> RemovalStep {
    match item.kind {
        ResourceKind::LoadBalancer => plan::balancer(&item.status, tries),
        _ => plan::volume(&item.status, tries),
    }
}

async fn ask(session: &Session, item: &Item) -> Result<bool, CloudError> {
    match item.kind {
        ResourceKind::LoadBalancer => session.octavia().delete_load_balancer(&item.id, true).await,
        _ => session.cinder().delete_volume(&item.id).await,
    }
}

fn in_vain(item: &Item) -> String {
    let what = if item.kind == ResourceKind::LoadBalancer { "octavia: load balancer" } else { "cinder: volume" };
    format!("{what} {} could not be deleted: it is in {}", item.name, item.status)
}
