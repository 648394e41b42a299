//! What must be true once nothing goes wrong any more.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use futures::FutureExt;
use futures::future::BoxFuture;
use model::cluster::Cluster;
use model::id::{ClusterId, OperationId};
use model::operation::Operation;
use model::store::Store;
use provider_clients::exchange::{Carrier, Incoming, NoAnswer, Outgoing};
use provider_clients::{Cloud, CloudOptions, Credential, Scope, UserRef};
use tests::agreement::{self, Agreement};
use tests::told;

use crate::carrier::{Message, incoming};
use crate::host::Parts;
use crate::scene;

/// Operations that have not ended or that somebody still holds, in words. (A superseded one keeps the name of an owner who died.)
pub async fn unfinished(store: &Store, operations: &[OperationId]) -> Vec<String> {
    let mut lines = Vec::new();
    let now = model::time::now().timestamp_millis();
    for row in rows(store, operations).await {
        if row.finished_ms.is_none() || (row.owner.is_some() && row.lease_ms >= Some(now)) {
            lines.push(format!(
                "{} {} is {} at {}, waiting for {:?}, held by {:?}",
                row.kind, row.uuid, row.state, row.step, row.waiting_for, row.owner
            ));
        }
    }
    lines
}

async fn rows(store: &Store, operations: &[OperationId]) -> Vec<Operation> {
    agreement::rows(store, operations).await.expect("the store is there")
}

/// Everything that is not as it should be; at the end every cluster was deleted.
pub async fn all(parts: &Parts, clusters: &[ClusterId], operations: &[OperationId], is_end: bool) -> Vec<String> {
    let cloud = scene::with(|s| s.cloud.cloud());
    let Agreement { findings: mut found, living } =
        agreement::look(&parts.store, &cloud, clusters, operations).await.expect("the store is there");
    for row in living.values() {
        found.extend(login(parts, row).await);
    }
    let told = told::waiting(&parts.store).await.expect("the store is there");
    found.extend(told::odd(&told, &rows(&parts.store, operations).await));
    if is_end {
        found.extend(living.keys().map(|id| format!("cluster {id} was deleted and is there")));
        found.extend(cloud.leftovers(None).iter().map(|line| format!("left behind: {line}")));
    }
    found
}

/// What a sound cluster's row says of its trustee is true: one can log in with it.
async fn login(parts: &Parts, row: &Cluster) -> Vec<String> {
    if !row.status.as_deref().is_some_and(|s| s.ends_with("_COMPLETE")) {
        return Vec::new();
    }
    let (Some(user), Some(password), Some(trust)) =
        (&row.trustee_user_id, row.trustee_password(parts.store.vault()).expect("nothing is sealed"), &row.trust_id)
    else {
        return vec![format!("cluster {} is {:?} and has no trust", row.uuid, row.status)];
    };
    let cloud = Cloud::carried_by(CloudOptions::new(parts.auth_url.clone()), Arc::new(Straight)).expect("a cloud");
    let session = cloud.session(Credential::Password {
        user: UserRef { id: Some(user.clone()), ..UserRef::default() },
        password,
        scope: Scope::Trust { id: trust.clone() },
    });
    match session.token().await {
        Ok(_) => Vec::new(),
        Err(error) => vec![format!("the credentials of cluster {} are of no use: {error}", row.uuid)],
    }
}

/// A way to the cloud on which nothing happens.
struct Straight;

impl Carrier for Straight {
    fn carry(&self, request: Outgoing) -> BoxFuture<'_, Result<Incoming, NoAnswer>> {
        async move { Ok(incoming(Message::of(&request).perform(self.now()))) }.boxed()
    }

    fn now(&self) -> DateTime<Utc> {
        model::time::now()
    }
}
