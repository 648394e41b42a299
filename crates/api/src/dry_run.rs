//! `?dry_run=true`: what a request would do, and that it would be refused, without any of it being done.
//!
//! The handlers check everything as they always do; then the transaction that accepts the request is carried out and taken back, so that
//! quotas, the table of statuses and whatever else it asks answer as they would. What would come of it in the cloud only drivers know, which
//! this crate does not: they are asked through [`Foresight`], with the caller's own token.

use futures::future::BoxFuture;
use model::forecast::{Forecast, Intent, NotForeseen};
use model::id::ClusterId;
use model::operation::{OperationKind, Payload};
use model::store::{Conn, Scope, StoreError, cluster, nodegroup, nodes, resource, template};
use provider_clients::Session;

use crate::answer::Answer;
use crate::cloud_checks;
use crate::context::Context;
use crate::error::ApiError;
use crate::view::forecast::ForecastView;

/// The query parameter.
pub const PARAMETER: &str = "dry_run";

/// Knows what operations would do in the cloud.
pub trait Foresight: Send + Sync {
    /// What one would do; reads only. `session`: acts in the cluster's project; none where the caller's token is for another.
    fn forecast<'a>(&'a self, intent: &'a Intent, session: Option<&'a Session>) -> BoxFuture<'a, Result<Forecast, NotForeseen>>;
}

/// The rows that an operation would work from.
pub async fn intent(conn: &mut Conn, id: &ClusterId, kind: OperationKind, payload: &Payload) -> Result<Intent, StoreError> {
    let cluster = cluster::fetch(conn, &Scope::All, id).await?;
    let groups = nodegroup::of_cluster(conn, id).await?;
    let nodes = nodes::of_cluster(conn, id).await?;
    let template = template::with_uuid(conn, cluster.cluster_template_id.as_deref().unwrap_or_default()).await?;
    let wanted = match &payload.template {
        Some(wanted) => template::with_uuid(conn, wanted.as_str()).await?,
        None => None,
    };
    let recorded = resource::of_cluster(conn, id).await?;
    Ok(Intent { kind, payload: payload.clone(), cluster, groups, nodes, template, wanted, recorded })
}

/// Asks what an operation would do and answers with it; `note` is what else there is to say of it.
pub async fn answer(cx: &Context, intent: &Intent, note: Option<String>) -> Result<Answer, ApiError> {
    let session = cloud_checks::session(cx);
    let is_own = cx.caller.project_id.as_ref() == Some(&intent.cluster.project());
    let asked = async { cx.shared.foresight.forecast(intent, is_own.then_some(&session)).await.map_err(failed) };
    let mut forecast = cloud_checks::within(cx.shared.settings.cloud_check_deadline, asked).await?;
    forecast.notes.extend(note);
    Answer::ok(&ForecastView::of(intent, &forecast))
}

/// In words for the user.
fn failed(error: NotForeseen) -> ApiError {
    if error.status == Some(401) {
        return ApiError::Unauthenticated;
    }
    let advice = if error.retry_may_help { " Try again." } else { "" };
    let text = format!("The cloud could not be asked what the request would do ({error}).{advice}");
    ApiError::Cloud { detail: text.clone(), text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_that_fails_is_told_as_for_any_other_check() {
        let error = |status, retry_may_help| failed(NotForeseen { reason: "heat: stack_show: 503".into(), status, retry_may_help });
        assert!(matches!(error(Some(401), false), ApiError::Unauthenticated));
        for (retry_may_help, end) in [(true, "(heat: stack_show: 503). Try again."), (false, "(heat: stack_show: 503).")] {
            let told = error(Some(503), retry_may_help);
            assert!(matches!(&told, ApiError::Cloud { text, .. } if text.ends_with(end)), "{told:?}");
        }
    }
}
