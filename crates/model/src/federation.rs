//! The federation row. Upstream has the routes and the table, but nothing ever stores a row: its conductor has no such operation.

use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::json::{Labels, read_list};
use crate::schema::federation;

/// A row of upstream's `federation` table, as stored.
#[derive(Clone, Debug, Queryable, Selectable)]
#[diesel(table_name = federation)]
pub struct Federation {
    pub created_at: Option<NaiveDateTime>,
    pub updated_at: Option<NaiveDateTime>,
    pub id: i32,
    pub project_id: Option<String>,
    pub uuid: String,
    pub name: Option<String>,
    pub hostcluster_id: Option<String>,
    pub member_ids: Option<String>,
    pub status: Option<String>,
    pub status_reason: Option<String>,
    pub properties: Option<String>,
}

impl Federation {
    /// The uuids of its clusters.
    pub fn members(&self) -> Vec<String> {
        read_list(self.member_ids.as_deref())
    }

    /// Its properties.
    pub fn properties(&self) -> Labels {
        Labels::read(self.properties.as_deref())
    }
}
