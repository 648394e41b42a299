//! The inventory: everything made for a cluster, recorded before it is made.

use diesel::prelude::*;

use crate::schema::cloud_resource;

/// What kind of thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceKind {
    /// A Keystone user in the trustee domain.
    Trustee,
    /// A Keystone trust.
    Trust,
    /// A Heat stack.
    Stack,
}

impl ResourceKind {
    /// The stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trustee => "keystone_user",
            Self::Trust => "keystone_trust",
            Self::Stack => "heat_stack",
        }
    }
}

/// A row of our `cloud_resource` table.
#[derive(Clone, Debug, Queryable, Selectable)]
#[diesel(table_name = cloud_resource)]
pub struct CloudResource {
    pub id: i64,
    pub cluster_uuid: String,
    pub kind: String,
    pub name: String,
    pub resource_id: Option<String>,
    pub on_delete: String,
    pub created_ms: i64,
    pub updated_ms: i64,
}
