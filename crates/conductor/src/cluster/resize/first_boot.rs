//! What workers that a resize adds boot with.

use model::cluster::Cluster;
use model::nodegroup::Nodegroup;
use provider_clients::Session;

use crate::certificates;
use crate::cluster::Rows;
use crate::context::Context;
use crate::driver::{self, Missing, Target};
use crate::nodegroup::{self, halfway};
use crate::outcome::Failure;
use crate::plan::Seen;

/// The first boot of workers to come where it is written anew: labels and taints that were changed since the stack was made are for these. None where the
/// stack goes on with what it has.
///
/// So it does where upstream made it, which has none of ours, and where a replacement of nodes was cut off: what it has is of after that, as its image
/// is, while the rows are of before. `excused`: workers that were given up.
pub(super) async fn anew(
    cx: &Context,
    rows: &Rows,
    group: &Nodegroup,
    session: &Session,
    (seen, excused): (&Seen, &[Missing]),
    minutes: u32,
) -> Result<Option<String>, Failure> {
    if !rows.nodes.contains_key(&group.uuid) || !seen.has_our_workers {
        return Ok(None);
    }
    let target = rows.target(session)?;
    let image = seen.minions.as_deref().map(|workers| workers.image.as_str());
    let is_of_other_distro = nodegroup::other_distro(target.template, image, session).await?.is_some();
    if is_of_other_distro || halfway::is(cx, (&rows.cluster, group), session, seen, excused).await? {
        return Ok(None);
    }
    // A group in a stack of its own is upgraded by itself: its nodes are of the version that they have, not of that which the cluster has by now.
    let coe_version = seen.kube_version.clone().or_else(|| rows.cluster.coe_version.clone());
    let cluster = Cluster { coe_version, ..rows.cluster.clone() };
    let material = certificates::material(cx, &rows.cluster).await?;
    let target = Target { cluster: &cluster, ..target };
    driver::worker_user_data(&cx.settings, &target, group, seen, &material, minutes).await.map(Some)
}
