//! `PATCH /v1/federations/{uuid or name}`: rules F-05 to F-07, and nothing more.

use model::store::Conn;

use crate::answer::Answer;
use crate::cluster;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::patch::Op;

/// Answers as upstream does; the federation stays as it is.
pub async fn update(cx: Context) -> Result<Answer, ApiError> {
    let changes = cx.patch(&[], &[])?;
    cx.flag("rollback")?;
    let row = super::find(&cx, Act::FederationUpdate).await?;
    if let Some(change) = changes.iter().find(|change| !["member_ids", "properties"].contains(&change.field.as_str())) {
        return Err(ApiError::Invalid(format!("Federation: /{} cannot be changed, only /member_ids and /properties", change.field)));
    }
    let Some(first) = changes.first() else {
        return Err(ApiError::Invalid("Invalid input for patch: it has no operation".into()));
    };
    if first.field == "member_ids" {
        // The one patch whose `remove` has a value.
        let member = first.value.as_str().unwrap_or_default();
        let is_member = row.members().iter().any(|m| m == member);
        match first.op {
            Op::Remove if !is_member => return Err(ApiError::NotFound { what: "Member cluster", key: member.to_owned() }),
            Op::Remove => {}
            Op::Add | Op::Replace => {
                let scope = &cx.own_scope();
                cx.shared.store.read(async |conn: &mut Conn| cluster::find(conn, scope, member).await).await?;
                if is_member {
                    return Err(ApiError::Conflict(format!("Cluster {member} is already a member of the federation {}.", row.uuid)));
                }
            }
        }
    }
    Answer::accepted(&row.uuid)
}
