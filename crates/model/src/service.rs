//! The heartbeat row of a service.

use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::schema::magnum_service;

/// The only binary that has a heartbeat row.
pub const CONDUCTOR: &str = "magnum-conductor";

/// A row of upstream's `magnum_service` table.
#[derive(Clone, Debug, Queryable, Selectable)]
#[diesel(table_name = magnum_service)]
pub struct Service {
    pub created_at: Option<NaiveDateTime>,
    pub updated_at: Option<NaiveDateTime>,
    pub id: i32,
    pub report_count: i32,
    pub host: Option<String>,
    pub binary: Option<String>,
    pub disabled: Option<bool>,
    pub disabled_reason: Option<String>,
    pub last_seen_up: Option<NaiveDateTime>,
    pub forced_down: Option<bool>,
}

impl Service {
    /// Up unless forced down, while the newest of last-seen, updated and created is at most `down_after` seconds away from `now`.
    pub fn is_up(&self, now: NaiveDateTime, down_after: i64) -> bool {
        let newest = self.last_seen_up.or(self.updated_at).or(self.created_at);
        !self.forced_down.unwrap_or(false) && newest.is_some_and(|at| (now - at).num_seconds().abs() <= down_after)
    }
}
