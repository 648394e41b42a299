//! Creating a nodegroup: a stack of its own that joins the cluster's network, then followed until it is complete.

use std::sync::Arc;

use model::driver::DriverName;
use model::labels;
use model::nodegroup::Nodegroup;

use super::{creating, finish, make};
use crate::cluster::rows;
use crate::context::Context;
use crate::driver::capi_helm;
use crate::outcome::{Failure, Turn};
use crate::plan::{self, CreateStep};
use crate::stack::{self, Whose};
use crate::worker::Work;
use crate::{credentials, driver};

/// One turn.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    let rows = rows(cx, work).await?;
    if capi_helm::is_ours(&rows) {
        return capi_helm::turn(cx, work, &rows).await;
    }
    let payload = work.payload()?;
    let row = rows.group(&payload)?;
    // The row may say the wish of a resize that waits behind this, and may yet be cancelled.
    let group = &Nodegroup { node_count: payload.node_count.or(row.node_count), ..row.clone() };
    let session = credentials::for_stacks(cx, work, &rows).await?;
    let known = rows.stack_of(group);
    let whose = Whose::Group(&rows.cluster, group);
    let observed = driver::observe(&known.handle, &session).await?;
    tracing::debug!(?observed, "observed");
    match plan::create(observed) {
        // It was there, and is gone: what is made now has another id.
        CreateStep::Make if known.handle.id.is_some() => {
            stack::gone(cx, work, whose, &known).await?;
            Ok(Turn::NOW)
        }
        // An earlier attempt asked for it and got no clear answer: it may be on its way.
        CreateStep::Make if !known.is_settled(cx, work) => stack::await_unclear(cx, work).await,
        CreateStep::Make => make(cx, work, &rows, group, &session).await,
        CreateStep::Wait(seen) => stack::follow(cx, work, whose, &creating(group), seen, &session).await,
        CreateStep::Finish(seen) => {
            // Of upstream's templates a group is given all that its labels say.
            let own = group.labels();
            let note = match seen.has_our_workers {
                true => labels::note_of_group(&rows.cluster.labels(), &own),
                false => labels::note(DriverName::K8sFedoraCoreosV1, &own),
            };
            finish(cx, work, &rows, group, &session, &seen, note).await
        }
        CreateStep::Fail { seen: Some(_), .. } if stack::is_left_over(cx, work).await? => {
            stack::clear_away(cx, work, whose, &known, &session).await
        }
        CreateStep::Fail { seen, reason } => {
            if let Some(seen) = seen {
                stack::show_progress(cx, work, whose, "stack", "failing", &seen).await?;
            }
            Err(Failure::of_stack(reason))
        }
    }
}
