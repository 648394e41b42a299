//! What new credentials promise of the trusts that a cluster had before: they are gone, or it was told which of them stay.

use cloud_simulator::Cloud;
use model::operation::{OperationKind, OperationState};
use model::store::{Conn, Store, StoreError, event};

use crate::rows::Rows;

/// The event of a former trust that stays; its text begins with the trust.
const STAYS: &str = "former_trust_stays";

/// Finds the trusts beside the cluster's own that its last new credentials should have ended. Those that came to no good end promise nothing.
///
/// # Errors
/// What the store says.
pub(super) async fn of_cluster(store: &Store, cloud: &Cloud, rows: &Rows) -> Result<Vec<String>, StoreError> {
    let renewals = rows.operations.iter().filter(|o| o.kind() == Some(OperationKind::CredentialRotate) && o.started_ms.is_some());
    let last = renewals.max_by_key(|o| o.id).filter(|o| o.state() == Some(OperationState::Succeeded));
    let (Some(cluster), Some(last)) = (&rows.cluster, last) else { return Ok(Vec::new()) };
    let (Some(trustee), Some(own)) = (cluster.trustee_user_id.as_deref(), cluster.trust_id.as_deref()) else { return Ok(Vec::new()) };
    let id = &last.operation_id();
    let told = store.read(async |conn: &mut Conn| event::of_kinds(conn, id, &[STAYS]).await).await?;
    let mut found = Vec::new();
    for line in cloud.leftovers(None) {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["trust", trust, "from", _, "to", whom] = words[..]
            && whom == trustee
            && trust != own
            && !told.iter().any(|event| event.message.starts_with(trust))
        {
            found.push(format!("trust {trust} of cluster {} has outlasted its new credentials, and nobody was told", cluster.uuid));
        }
    }
    Ok(found)
}
