//! Whether clusters' own credentials still work, and when their certificates end: a slow look at each cluster, by one conductor a turn.
//!
//! Nobody notices otherwise that a trust is gone before the next operation fails for it, or the cloud provider inside the cluster has been
//! refused for weeks. What is looked at is what a cluster cannot mend by itself: the login through its trust, or with its application
//! credential. (The user whom its stacks belong to is put in order by the next operation.) Keystone that is away says nothing of a cluster:
//! what was known stays.
//!
//! Looks are claimed as those at health are (`model::store::credential_health`). Only so many begin in a round, which bounds what they cost
//! Keystone: a fleet is seen in the course of the interval, never all at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::certificate::Facts;
use model::cluster::Cluster;
use model::cluster::status::Status;
use model::store::credential_health::Known;
use model::store::health::Look;
use model::store::{Conn, StoreError, credential_health, placement, rotation};
use model::time::{millis, now};
use provider_clients::{CloudError, Session};
use tokio::sync::Semaphore;

use crate::context::Context;
use crate::driver::capi_helm::{credential, health as managed};
use crate::health::Rounds;
use crate::outcome::Failure;
use crate::{certificates, credentials};

/// Looks at the same time.
const AT_ONCE: usize = 8;
/// How long trying to log in may take, and reading the certificates.
const LONGEST: Duration = Duration::from_secs(20);
/// Clusters taken up or forgotten at once.
const ENROL: i64 = 200;

const DAY_MS: i64 = 86_400_000;
/// How long before its end a certificate is spoken of, once a day.
const SOON_MS: i64 = 30 * DAY_MS;

/// Looks, each cluster once in `interval`, until the conductor stops.
pub(crate) async fn run(cx: Arc<Context>, interval: Duration) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut rounds = Rounds::new(interval, "credentials");
    while let Some(enrols) = rounds.next(&cx).await {
        let ended = round(&cx, interval, &places, enrols).await;
        rounds.ended(enrols, ended);
    }
}

async fn round(cx: &Arc<Context>, interval: Duration, places: &Arc<Semaphore>, enrols: bool) -> Result<(), StoreError> {
    let free = places.available_permits();
    if free == 0 {
        return Ok(());
    }
    let at_ms = millis(now());
    let span = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX / 4);
    let look = Look { owner: cx.owner.clone(), at_ms, due_ms: at_ms + span };
    // Where nobody looks at health now, all are due as soon as somebody does.
    let of_health = cx.settings.timing.health.unwrap_or_default();
    let health_due = at_ms + i64::try_from(of_health.as_millis()).unwrap_or(i64::MAX / 4);
    let (claimed, limit) = (&look, i64::try_from(free).unwrap_or(1));
    let due = cx.store.write(async |conn: &mut Conn| {
        if enrols {
            credential_health::enrol(conn, health_due, || at_ms + model::random::range(span / 2..=span), ENROL).await?;
        }
        let due = credential_health::claim(conn, claimed, limit).await?;
        let managed: Vec<&str> = due.iter().filter(|(c, _)| managed::is_seen_from_there(c)).map(|(c, _)| c.uuid.as_str()).collect();
        let recorded = placement::of_clusters(conn, &managed).await?;
        Ok((due, recorded))
    });
    let (due, mut recorded): (Vec<(Cluster, Known)>, HashMap<String, String>) = due.await?;
    for (cluster, known) in due {
        let recorded = recorded.remove(&cluster.uuid);
        let Ok(place) = places.clone().try_acquire_owned() else { break };
        let (cx2, look) = (cx.clone(), look.clone());
        cx.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = check(&cx2, &look, &cluster, &known, recorded.as_deref()) => {}
                () = cx2.stop.cancelled() => {}
            }
            drop(place);
        });
    }
    Ok(())
}

/// What came of trying to log in with a cluster's credentials.
enum Login {
    /// There are none.
    Nothing,
    Works,
    /// Nobody can: why.
    Refused(String),
    /// Who would know could not be asked.
    Unknown(String),
}

impl Login {
    fn word(&self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Works => "working",
            Self::Refused(_) => "refused",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// One look at one cluster.
async fn check(cx: &Context, look: &Look, cluster: &Cluster, known: &Known, recorded: Option<&str>) {
    let late = |_| Login::Unknown("no answer in time".to_owned());
    let (login, end_ms) =
        futures::join!(async { tokio::time::timeout(LONGEST, log_in(cx, cluster, recorded)).await.unwrap_or_else(late) }, async {
            tokio::time::timeout(LONGEST, first_end(cx, cluster, known.end_ms)).await.unwrap_or(known.end_ms)
        },);
    cx.metrics.credentials_looked(login.word());
    let error = match &login {
        Login::Nothing | Login::Works => None,
        Login::Refused(why) => Some(why.clone()),
        Login::Unknown(why) => {
            tracing::debug!(cluster.id = %cluster.uuid, why, "nothing can be said of the credentials of a cluster");
            known.error.clone()
        }
    };
    let told = match (&known.error, &error) {
        (before, after) if before == after => None,
        (_, Some(why)) => Some(format!("the cluster's credentials do not work: {why}")),
        (_, None) => Some("the cluster's credentials work again".to_owned()),
    };
    // Of what could not be asked it is not said that somebody has looked, unless that was so before.
    let is_seen = known.seen_ms.is_some() || !matches!(login, Login::Unknown(_));
    let found = Known { seen_ms: is_seen.then_some(look.at_ms), error, end_ms };
    let (found, words) = (&found, told.as_deref());
    match cx.store.write(async |conn: &mut Conn| credential_health::record(conn, look, cluster, found, words).await).await {
        Ok(true) => tell(cluster, known, found, words),
        // Something has begun on the cluster, or it is gone, or somebody else looks.
        Ok(false) | Err(StoreError::Stale { .. }) => {}
        Err(error) => tracing::warn!(cluster.id = %cluster.uuid, %error, "failed to record how the credentials of a cluster are"),
    }
}

fn tell(cluster: &Cluster, known: &Known, found: &Known, words: Option<&str>) {
    match (words, &found.error) {
        (Some(words), Some(_)) => tracing::warn!(cluster.id = %cluster.uuid, "{words}"),
        (Some(words), None) => tracing::info!(cluster.id = %cluster.uuid, "{words}"),
        (None, _) => {}
    }
    if let Some(end) = found.end_ms.filter(|end| is_to_be_told(*end, known, millis(now()))) {
        let ends = chrono::DateTime::from_timestamp_millis(end).map(|at| at.to_rfc3339()).unwrap_or_default();
        tracing::warn!(cluster.id = %cluster.uuid, ends, "a certificate of a cluster ends soon, or has ended");
    }
}

/// Whether it is time to say that a certificate ends soon: another day of those that are left has begun since the last look.
fn is_to_be_told(end: i64, known: &Known, now: i64) -> bool {
    let days_left = |at: i64| (end - at).div_euclid(DAY_MS);
    let was_told = known.end_ms == Some(end) && known.seen_ms.is_some_and(|seen| end - seen < SOON_MS && days_left(seen) == days_left(now));
    end - now < SOON_MS && !was_told
}

async fn log_in(cx: &Context, cluster: &Cluster, recorded: Option<&str>) -> Login {
    if managed::is_seen_from_there(cluster) {
        return match credential::for_looking(cx, cluster, recorded).await {
            Ok(Some(session)) => try_out(cx, cluster, &session, |_, words| refused_application(words)).await,
            Ok(None) if cluster.status() == Some(Status::CreateFailed) => Login::Nothing,
            Ok(None) => Login::Refused("its management cluster has no secret with its application credential".to_owned()),
            Err(Failure::Stale) => Login::Unknown("the database".to_owned()),
            Err(Failure::Retry { reason, .. } | Failure::Final { reason, .. }) => Login::Unknown(reason),
        };
    }
    match credentials::trusted_anew(cx, cluster) {
        Ok(Some(session)) => try_out(cx, cluster, &session, refused_trust).await,
        Ok(None) => Login::Nothing,
        Err(error) => {
            tracing::error!(cluster.id = %cluster.uuid, %error, "the trustee's password cannot be opened");
            Login::Refused(credentials::UNOPENED.to_owned())
        }
    }
}

/// Logs in. A refusal is believed only of a Keystone that answers the service's own question as well: what stands in its place when it is
/// away may refuse everybody. That question is whether the trustee is there, which `why` is told beside status and words of the refusal.
async fn try_out(cx: &Context, cluster: &Cluster, session: &Session, why: impl FnOnce(Refusal, &str) -> String) -> Login {
    let error = match session.token().await {
        Ok(_) => return Login::Works,
        Err(error) => error,
    };
    if error.retry_may_help() || !error.is_unauthorized() {
        return Login::Unknown(error.to_string());
    }
    match is_trustee_there(cx, cluster).await {
        Ok(has_user) => Login::Refused(why(Refusal { status: error.status(), has_user }, error.message())),
        Err(Failure::Stale) => Login::Unknown(error.to_string()),
        Err(Failure::Retry { reason, .. } | Failure::Final { reason, .. }) => Login::Unknown(reason),
    }
}

async fn is_trustee_there(cx: &Context, cluster: &Cluster) -> Result<bool, Failure> {
    let name = cluster.trustee_username.clone().unwrap_or_else(|| credentials::trustee_name(cluster));
    let domain = credentials::trustee_domain(cx).await?;
    let found: Result<_, CloudError> = cx.trustee_admin.keystone().find_user(&name, &domain).await;
    Ok(found?.is_some())
}

/// What is known of a refused login.
#[derive(Clone, Copy)]
struct Refusal {
    status: Option<u16>,
    /// Whether the trustee is there.
    has_user: bool,
}

/// Why nobody can log in through a trust, for those who read the cluster's events.
fn refused_trust(refusal: Refusal, words: &str) -> String {
    match refusal {
        Refusal { has_user: false, .. } => "its trustee, a user of Keystone, is gone".to_owned(),
        Refusal { status: Some(404), .. } => format!("its trust is gone ({words})"),
        Refusal { status: Some(401), .. } => format!("Keystone refuses the trustee's login ({words})"),
        Refusal { .. } => format!("Keystone refuses its trust ({words})"),
    }
}

fn refused_application(words: &str) -> String {
    format!("Keystone refuses its application credential ({words})")
}

/// When the first of a cluster's certificates ends, those included that are beside them while its authorities are replaced. While some cannot be
/// read, what was known counts as well.
async fn first_end(cx: &Context, cluster: &Cluster, known: Option<i64>) -> Option<i64> {
    let id = &cluster.cluster_id();
    let Ok(replacing) = cx.store.read(async |conn: &mut Conn| rotation::find(conn, id).await).await else { return known };
    let mut references = cluster.references().all();
    references.extend(replacing.into_iter().flat_map(|rotation| rotation.references.all()));
    let (mut ends, mut unread) = (Vec::new(), false);
    for reference in &references {
        let pair = certificates::load(cx, reference).await;
        match pair.ok().and_then(|pair| Facts::read(pair.pem()).ok()) {
            Some(facts) => ends.push(millis(facts.not_after.and_utc())),
            None => unread = true,
        }
    }
    if unread {
        tracing::debug!(cluster.id = %cluster.uuid, "a certificate of a cluster cannot be read");
        ends.extend(known);
    }
    ends.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_by_what_is_missing() {
        let why = |status, has_user| refused_trust(Refusal { status: Some(status), has_user }, "words");
        for (status, has_user, expected) in [
            (404, true, "its trust is gone (words)"),
            (404, false, "its trustee, a user of Keystone, is gone"),
            (401, false, "its trustee, a user of Keystone, is gone"),
            (401, true, "Keystone refuses the trustee's login (words)"),
            (403, true, "Keystone refuses its trust (words)"),
        ] {
            assert_eq!(why(status, has_user), expected);
        }
    }

    #[test]
    fn an_end_that_is_near_is_told_once_a_day_and_when_it_is_another() {
        let end = 100 * DAY_MS;
        let known = |seen: Option<i64>, end_ms: i64| Known { seen_ms: seen, error: None, end_ms: Some(end_ms) };
        let hour = DAY_MS / 24;
        for (what, known, now, expected) in [
            ("far", known(None, end), end - SOON_MS, false),
            ("first look", known(None, end), end - SOON_MS + 1, true),
            ("it has just come near", known(Some(end - SOON_MS), end), end - SOON_MS + hour, true),
            ("told an hour ago", known(Some(end - SOON_MS + hour), end), end - SOON_MS + 2 * hour, false),
            ("the next day", known(Some(end - SOON_MS + hour), end), end - SOON_MS + 25 * hour, true),
            ("another certificate", known(Some(end - SOON_MS + hour), end + DAY_MS), end - SOON_MS + 2 * hour, true),
            ("it has ended", known(Some(end - hour), end), end + hour, true),
            ("it had ended", known(Some(end + hour), end), end + 2 * hour, false),
        ] {
            assert_eq!(is_to_be_told(end, &known, now), expected, "{what}");
        }
    }
}
