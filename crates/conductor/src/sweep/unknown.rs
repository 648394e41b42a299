//! What only the cloud knows: it is told and left alone.

use model::resource::ResourceKind;
use model::store::{Conn, resource};

use super::{BATCH, Finding, STAYS, Sweep};
use crate::credentials;
use crate::driver::{self, Tagged};
use crate::outcome::Failure;

impl Sweep<'_> {
    /// Finds trustees whose cluster nobody knows.
    pub(super) async fn trustees(&mut self) -> Result<(), Failure> {
        let domain = credentials::trustee_domain(self.cx).await?;
        let users = self.cx.trustee_admin.keystone().users_of(&domain).await?;
        let named = users.into_iter().filter_map(|user| {
            let (cluster, _) = user.name.split_once('_')?;
            Some((is_uuid(cluster)?.to_owned(), user.name.clone(), user.id))
        });
        self.unknown(ResourceKind::Trustee, named.collect()).await
    }

    /// Finds stacks that bear our tags and whose cluster nobody knows, where Heat lets the service list the stacks of all projects.
    pub(super) async fn stacks(&mut self) -> Result<(), Failure> {
        let Some(service) = &self.cx.service else { return Ok(()) };
        let stacks = match driver::tagged(service).await {
            Ok(stacks) => stacks,
            // Asked for in the configuration, and not allowed: the follower says so.
            Err(error) if error.status() == Some(403) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let owned = stacks.into_iter().filter_map(|Tagged { id, name, tags }| {
            let cluster = tags.iter().find_map(|tag| is_uuid(tag))?.to_owned();
            Some((cluster, name, id))
        });
        self.unknown(ResourceKind::Stack, owned.collect()).await
    }

    /// Notes those of these things, each with its cluster, name and id, of whose cluster nothing is known.
    async fn unknown(&mut self, kind: ResourceKind, things: Vec<(String, String, String)>) -> Result<(), Failure> {
        for batch in things.chunks(BATCH) {
            let clusters: Vec<String> = batch.iter().map(|(cluster, ..)| cluster.clone()).collect();
            let clusters = &clusters;
            let known = self.cx.store.read(async |conn: &mut Conn| resource::known_clusters(conn, clusters).await).await?;
            for (cluster, name, id) in batch.iter().filter(|(cluster, ..)| !known.contains(cluster)) {
                let (cluster, name, id) = (cluster.clone(), name.clone(), Some(id.clone()));
                self.findings.push(Finding { cluster, kind: kind.as_str(), name, id, text: STAYS });
            }
        }
        Ok(())
    }
}

/// The text, when it is a uuid as our clusters have them.
fn is_uuid(text: &str) -> Option<&str> {
    let is_right = |(place, byte): (usize, u8)| if matches!(place, 8 | 13 | 18 | 23) { byte == b'-' } else { byte.is_ascii_hexdigit() };
    (text.len() == 36 && text.bytes().enumerate().all(is_right)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::is_uuid;

    #[test]
    fn only_uuids_are_taken_for_clusters() {
        for (text, is) in [
            ("7a6f9b9e-5b0c-4a57-9d1c-6a3b1f0e2d11", true),
            ("magnum", false),
            ("7a6f9b9e5b0c4a579d1c6a3b1f0e2d11", false),
            ("7a6f9b9e-5b0c-4a57-9d1c-6a3b1f0e2d1g", false),
            ("", false),
        ] {
            assert_eq!(is_uuid(text).is_some(), is, "{text}");
        }
    }
}
