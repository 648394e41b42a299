//! New credentials for a cluster: the caller of the request becomes the one who delegates, and the trustee gets a new password.
//!
//! Whatever was known of the old password is void after this. The trust of a former delegator is useless without it; it goes with the trustee.

use std::sync::Arc;

use model::cluster::ClusterChange;
use model::nodegroup::NodegroupChange;
use model::operation::{OperationState, OutcomeCode, Progress};
use model::store::{Conn, cluster as clusters};

use super::rows;
use crate::context::Context;
use crate::driver::capi_helm;
use crate::outcome::{Failure, Turn};
use crate::plan::Observed;
use crate::settle::{self, End};
use crate::worker::{Work, succeed};
use crate::{credentials, driver, stack};

/// One turn.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    let rows = rows(cx, work).await?;
    if capi_helm::is_ours(&rows) {
        return capi_helm::turn(cx, work, &rows).await;
    }
    let cluster = &rows.cluster;
    let Some(trustee) = &cluster.trustee_user_id else {
        return Err(Failure::fail(OutcomeCode::User, "the cluster has no trustee"));
    };
    let has_delegated = stack::events(cx, work).await?.iter().any(|e| e.kind == credentials::TRUSTED);
    if !has_delegated {
        // Before anything changes: from here on the old credentials may be of no use to look with.
        let session = credentials::for_renewal(cx, work, cluster).await?;
        if let Observed::Ready(seen) | Observed::Broken { seen, .. } | Observed::RolledBack { seen, .. } | Observed::Building(seen) =
            driver::observe(&rows.stack().handle, &session).await?
            && !seen.has_our_workers
        {
            let text = "the nodes of this cluster hold the trustee's password, and cannot be given a new one: upstream's driver made it";
            return Err(Failure::fail(OutcomeCode::User, text));
        }
        credentials::make_trust(cx, work, cluster).await?;
    }
    let progress = Progress { step: "trustee", waiting_for: Some("a new password of the Keystone trustee".into()), ..Progress::default() };
    work.guard(cx, &progress).await?;
    let password = credentials::new_password_of(cx, trustee).await?;
    let change = ClusterChange::trustee_password(cx.store.vault(), &cluster.cluster_id(), &password)?;
    let end = End { state: OperationState::Succeeded, group: None, facts: NodegroupChange::default(), reason: None };
    let (end, change, id) = (&end, &change, &cluster.cluster_id());
    succeed(cx, work, async |conn: &mut Conn| {
        clusters::record(conn, id, change).await?;
        settle::record(conn, &work.operation, end).await
    })
    .await
}
