//! `GET /v1/mservices`: for admins; without pages or parameters.

use model::store::{Conn, service};
use model::time::{now, whole_seconds};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::service::ServiceList;

/// The conductors, and whether each is alive.
pub async fn list(cx: Context) -> Result<Answer, ApiError> {
    cx.allow_own(Act::ServiceGetAll)?;
    let rows = cx.shared.store.read(async |conn: &mut Conn| service::list(conn).await).await?;
    Answer::ok(&ServiceList::of(&rows, whole_seconds(now()), cx.shared.settings.service_down_time))
}
