//! Taking a database of upstream's over in place, and giving it back.
//!
//! Upstream's tables are exactly upstream's at [`UPSTREAM_HEAD`]. A database at [`UPSTREAM_PREVIOUS`] is brought there by the one step that
//! upstream's own tool would make, and [`release`] takes that step back. What upstream could not read, or has no room for, is set aside by a
//! release in a table of ours and put back by the next adoption. Every step is written down before it is made: whoever was cut off is gone on
//! with by the same command, or by the opposite one.

mod aside;
mod audit;
mod shape;

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

pub use aside::Kept;
pub use audit::{Audit, Finding, audit};
pub use shape::UPSTREAM_PREVIOUS;

use shape::DRIVER;
pub(super) use shape::{Found, Standing, judge};

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use super::migrate::{LOCK_SECONDS, UPSTREAM_HEAD};
use super::{Store, dialect, sealing};
use crate::operation::OperationState;
use crate::schema::{adoption, alembic_version, operation};
use crate::time::{millis, now};

/// The one row of `adoption`.
const ROW: i32 = 1;

/// Operations that a refused release names.
const NAMED: i64 = 20;

/// Where the database stands between upstream and this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is being adopted, or somebody was cut off in the middle.
    Adopting,
    /// This program works on it.
    Adopted,
    /// It is being given back, or somebody was cut off in the middle.
    Releasing,
    /// Upstream may have it; this program does not start on it.
    Released,
}

impl State {
    const ALL: [Self; 4] = [Self::Adopting, Self::Adopted, Self::Releasing, Self::Released];

    /// The stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Adopting => "adopting",
            Self::Adopted => "adopted",
            Self::Releasing => "releasing",
            Self::Released => "released",
        }
    }
}

/// What is written down about an adoption.
#[derive(Clone, Debug)]
pub struct Adoption {
    /// Upstream's revision before it.
    pub found_revision: String,
    pub state: State,
}

/// What can be said of a database without changing it.
#[derive(Debug)]
pub struct Look {
    /// Upstream's revision; none for a database that is empty.
    pub revision: Option<String>,
    /// None: no adoption has begun.
    pub adoption: Option<Adoption>,
    /// Why the database can neither be adopted nor worked on, and what to do.
    pub refusal: Option<String>,
    /// Whether upstream's tables name the driver of a template.
    pub has_driver: bool,
    /// Whether there is a record of which management cluster clusters are on.
    pub has_placements: bool,
}

/// A database that was given back.
#[derive(Debug)]
pub struct Released {
    /// The revision that upstream finds.
    pub revision: &'static str,
    /// What was set aside.
    pub kept: Vec<Kept>,
    /// Whether it had been given back before, so that nothing was done.
    pub was_released: bool,
}

/// Looks at revision and tables.
pub async fn look(store: &Store) -> Result<Look, StoreError> {
    store
        .read(async |conn: &mut Conn| {
            let found = see(conn).await?;
            let refusal = judge(&found).err();
            let revision = found.revisions.unwrap_or_default();
            Ok(Look {
                revision: (!revision.is_empty()).then(|| revision.join(", ")),
                has_driver: found.columns.get(DRIVER.0).is_some_and(|columns| columns.contains(DRIVER.1)),
                has_placements: found.columns.contains_key("capi_placement"),
                adoption: found.adoption,
                refusal,
            })
        })
        .await
}

/// What the rules of [`judge`] are asked about.
pub(super) async fn see(conn: &mut Conn) -> Result<Found, StoreError> {
    let columns = dialect::columns(conn).await?;
    let revisions = if columns.contains_key("alembic_version") {
        let rows: Vec<String> = on_conn!(conn, |c| alembic_version::table.select(alembic_version::version_num).load(&mut **c).await)?;
        Some(rows)
    } else {
        None
    };
    let adoption = if columns.contains_key("adoption") { find(conn).await? } else { None };
    Ok(Found { revisions, columns, adoption })
}

/// Ends an adoption: our own tables are there, upstream's still as they were found. What was put back from a release.
pub(super) async fn finish_adoption(conn: &mut Conn, standing: Standing) -> Result<Vec<Kept>, StoreError> {
    let found = see(conn).await?;
    let known = found.adoption.clone();
    // Of a database that somebody gave back, what upstream has made of it meanwhile counts.
    let origin = match (&known, standing) {
        (Some(adoption), _) if adoption.state != State::Released => adoption.found_revision.clone(),
        (_, Standing::Previous) => UPSTREAM_PREVIOUS.to_owned(),
        _ => UPSTREAM_HEAD.to_owned(),
    };
    if known.is_some_and(|a| a.state == State::Adopted) && standing == Standing::Head {
        return Ok(Vec::new());
    }
    put(conn, &origin, State::Adopting).await?;
    if standing == Standing::Previous {
        if !found.columns.get(DRIVER.0).is_some_and(|columns| columns.contains(DRIVER.1)) {
            dialect::add_text_column(conn, DRIVER.0, DRIVER.1).await?;
        }
        set_revision(conn, UPSTREAM_PREVIOUS, UPSTREAM_HEAD).await?;
    } else if !found.columns.get(DRIVER.0).is_some_and(|columns| columns.contains(DRIVER.1)) {
        // A release was cut off between the revision and the column, and the revision was brought back by hand.
        dialect::add_text_column(conn, DRIVER.0, DRIVER.1).await?;
    }
    conn.begin().await?;
    let restored = match restore(conn, &origin).await {
        Ok(restored) => restored,
        Err(error) => {
            conn.rollback().await?;
            return Err(error);
        }
    };
    conn.commit().await?;
    Ok(restored)
}

async fn restore(conn: &mut Conn, origin: &str) -> Result<Vec<Kept>, StoreError> {
    let restored = aside::restore(conn).await?;
    put(conn, origin, State::Adopted).await?;
    Ok(restored)
}

/// Makes the database fit for upstream again: at the revision that it was found at (or at [`UPSTREAM_HEAD`], when `keep_revision` says so),
/// without what upstream could not read. Our own tables stay; upstream does not see them.
///
/// Whoever may still write to the database must have been stopped: what is accepted during a release waits in our tables until the next
/// adoption.
///
/// # Errors
/// [`StoreError::Schema`] when operations are in flight (they are named), when secrets are sealed, when nothing was adopted, or when the database is at a revision that
/// this program does not work on.
pub async fn release(store: &Store, keep_revision: bool) -> Result<Released, StoreError> {
    let mut conn = store.db.get().await?;
    if !dialect::lock_schema(&mut conn, LOCK_SECONDS).await? {
        return Err(StoreError::Schema(format!("another process has been changing the schema for {LOCK_SECONDS} s")));
    }
    let result = release_locked(&mut conn, keep_revision).await;
    dialect::unlock_schema(&mut conn).await?;
    result
}

async fn release_locked(conn: &mut Conn, keep_revision: bool) -> Result<Released, StoreError> {
    let found = see(conn).await?;
    let standing = judge(&found).map_err(StoreError::Schema)?;
    let Some(known) = found.adoption else {
        return Err(StoreError::Schema("this program has never adopted the database: there is nothing to give back".into()));
    };
    let target = if known.found_revision == UPSTREAM_PREVIOUS && !keep_revision { UPSTREAM_PREVIOUS } else { UPSTREAM_HEAD };
    if known.state == State::Released {
        let revision = standing.revision().unwrap_or(UPSTREAM_HEAD);
        return Ok(Released { revision, kept: aside::list(conn).await?, was_released: true });
    }
    refuse_in_flight(conn).await?;
    refuse_sealed(conn).await?;
    put(conn, &known.found_revision, State::Releasing).await?;
    let has_driver = found.columns.get(DRIVER.0).is_some_and(|columns| columns.contains(DRIVER.1));
    // One transaction, in which nothing is in flight: looked at again, for an API may have accepted a request meanwhile.
    conn.begin().await?;
    let set_aside = async {
        refuse_in_flight(conn).await?;
        refuse_sealed(conn).await?;
        aside::keep_quotas(conn).await?;
        if target == UPSTREAM_PREVIOUS && has_driver {
            aside::keep_drivers(conn).await?;
        }
        if standing == Standing::Head && target == UPSTREAM_PREVIOUS {
            set_revision(conn, UPSTREAM_HEAD, UPSTREAM_PREVIOUS).await?;
        }
        Ok(())
    }
    .await;
    if let Err(error) = set_aside {
        conn.rollback().await?;
        // Nothing has changed: this program goes on with it.
        put(conn, &known.found_revision, State::Adopted).await?;
        return Err(error);
    }
    conn.commit().await?;
    if target == UPSTREAM_PREVIOUS && has_driver {
        dialect::drop_column(conn, DRIVER.0, DRIVER.1).await?;
    }
    put(conn, &known.found_revision, State::Released).await?;
    Ok(Released { revision: target, kept: aside::list(conn).await?, was_released: false })
}

async fn refuse_in_flight(conn: &mut Conn) -> Result<(), StoreError> {
    match told_in_flight(conn).await? {
        None => Ok(()),
        Some(told) => {
            Err(StoreError::Schema(format!("{told}. Let a conductor finish them, or cancel them, before the database is given back")))
        }
    }
}

/// The operations that have not ended, in words; none when there is none.
pub async fn in_flight(store: &Store) -> Result<Option<String>, StoreError> {
    store.read(async |conn: &mut Conn| told_in_flight(conn).await).await
}

async fn told_in_flight(conn: &mut Conn) -> Result<Option<String>, StoreError> {
    let count = audit::count_unfinished(conn).await?;
    if count == 0 {
        return Ok(None);
    }
    let first: Vec<(String, String, String)> = on_conn!(conn, |c| {
        let unfinished = operation::table.filter(operation::state.eq_any(OperationState::UNFINISHED));
        let columns = (operation::kind, operation::cluster_uuid, operation::uuid);
        unfinished.select(columns).order(operation::id.asc()).limit(NAMED).load(&mut **c).await
    })?;
    let named: Vec<String> = first.iter().map(|(kind, cluster, id)| format!("{kind} of cluster {cluster} (operation {id})")).collect();
    let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
    Ok(Some(format!("{count} operations are in flight: {}{more}", named.join(", "))))
}

/// Upstream reads what is in the columns: sealed passwords and keys would be lost to it.
async fn refuse_sealed(conn: &mut Conn) -> Result<(), StoreError> {
    let sealed: Vec<String> = sealing::census(conn).await?.iter().filter(|held| held.sealed() > 0).map(ToString::to_string).collect();
    if sealed.is_empty() {
        return Ok(());
    }
    Err(StoreError::Schema(format!(
        "secrets are sealed, which upstream cannot read: {}. Set [certificates] seal_secrets = false for all services, start them again, and run \
         `magnum-db-manage unseal` before the database is given back",
        sealed.join("; ")
    )))
}

/// What is written down; none before the first adoption, or for a word of another version.
pub(super) async fn find(conn: &mut Conn) -> Result<Option<Adoption>, StoreError> {
    let row: Option<(String, String)> = on_conn!(conn, |c| {
        let row = adoption::table.find(ROW).select((adoption::found_revision, adoption::state));
        row.first(&mut **c).await.optional()
    })?;
    let Some((found_revision, word)) = row else { return Ok(None) };
    match State::ALL.into_iter().find(|state| state.as_str() == word) {
        Some(state) => Ok(Some(Adoption { found_revision, state })),
        None => Err(StoreError::Schema(format!("the table adoption says {word:?}, which this version does not know"))),
    }
}

async fn put(conn: &mut Conn, found_revision: &str, state: State) -> Result<(), StoreError> {
    let values = (adoption::found_revision.eq(found_revision), adoption::state.eq(state.as_str()), adoption::changed_ms.eq(millis(now())));
    on_conn!(conn, |c| {
        let rows = diesel::update(adoption::table.find(ROW)).set(values).execute(&mut **c).await?;
        if rows == 0 {
            diesel::insert_into(adoption::table).values((adoption::id.eq(ROW), values)).execute(&mut **c).await?;
        }
    });
    Ok(())
}

/// The one change of `alembic_version` that is ever made: the step that upstream's own tool makes, or back.
async fn set_revision(conn: &mut Conn, from: &str, to: &str) -> Result<(), StoreError> {
    let rows = on_conn!(conn, |c| {
        diesel::update(alembic_version::table.filter(alembic_version::version_num.eq(from)))
            .set(alembic_version::version_num.eq(to))
            .execute(&mut **c)
            .await
    })?;
    if rows == 1 { Ok(()) } else { Err(StoreError::Stale { what: "the revision in alembic_version" }) }
}
