//! The nodegroups of a cluster as one column of the cluster's row.
//!
//! Lists show of a cluster's groups how many nodes they have and where. As rows of their own these would be twice the clusters, found by a
//! statement with the ids of all of them: more than what the clusters cost. And what a page shows is of one moment this way.

use diesel::QueryResult;
use diesel::expression::{AppearsOnTable, Expression, SelectableExpression, ValidGrouping, is_aggregate};
use diesel::mysql::Mysql;
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::sql_types::{Nullable, Text};
use diesel::sqlite::Sqlite;

use super::collation;
use super::page::expression;
use crate::nodegroup::{MASTER, Nodegroup, UNSAID_COUNT};

/// Stands between groups: a control character, which no JSON has.
const SEPARATOR: char = '\u{1e}';

/// In a query on `cluster`, the expression of the column; NULL for a cluster without groups.
///
/// Of each group, in order of creation: `1` for a master and `0` for a worker, its count of nodes, its addresses as they are stored; with a
/// space between them. A count that is NULL is [`UNSAID_COUNT`].
#[derive(Clone, Copy, Debug)]
pub struct Groups {
    addresses: &'static str,
}

impl Groups {
    /// Without addresses.
    pub const SIZES: Self = Self { addresses: "''" };
    /// With addresses.
    pub const NODES: Self = Self { addresses: "COALESCE(`nodegroup`.`node_addresses`, '')" };

    fn write<DB: diesel::backend::Backend>(
        self,
        mut out: AstPass<'_, '_, DB>,
        (role, cluster): (&str, &str),
        [before_order, after_order]: [&str; 2],
    ) {
        let Self { addresses } = self;
        out.push_sql(&format!(
            "(SELECT GROUP_CONCAT(CONCAT(COALESCE({role} = '{MASTER}', 0), ' ', COALESCE(`nodegroup`.`node_count`, {UNSAID_COUNT}), ' ', {addresses}){before_order} \
             ORDER BY `nodegroup`.`id`{after_order}) FROM `nodegroup` WHERE `nodegroup`.`cluster_id` = {cluster})"
        ));
    }
}

// Only `master` itself is the role of masters, whatever the collation takes for equal.
impl QueryFragment<Mysql> for Groups {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Mysql>) -> QueryResult<()> {
        let cluster = collation::as_cluster_of_nodegroup("`cluster`.`uuid`");
        self.write(out, ("CAST(`nodegroup`.`role` AS BINARY)", &cluster), ["", " SEPARATOR 0x1e"]);
        Ok(())
    }
}

impl QueryFragment<Sqlite> for Groups {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        self.write(out, ("`nodegroup`.`role`", "`cluster`.`uuid`"), [", char(30)", ""]);
        Ok(())
    }
}

expression!(Groups, Nullable<Text>);

/// What a list shows of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    pub is_master: bool,
    pub node_count: i32,
    /// As stored: a list in JSON.
    pub addresses: &'a str,
}

impl<'a> From<&'a Nodegroup> for Group<'a> {
    fn from(row: &'a Nodegroup) -> Self {
        Self { is_master: row.is_master(), node_count: row.node_count(), addresses: row.node_addresses.as_deref().unwrap_or_default() }
    }
}

/// The groups in the column.
pub fn read(column: Option<&str>) -> impl Iterator<Item = Group<'_>> {
    column.into_iter().flat_map(|all| all.split(SEPARATOR)).filter_map(|group| {
        let (is_master, rest) = group.split_once(' ')?;
        let (node_count, addresses) = rest.split_once(' ')?;
        Some(Group { is_master: is_master == "1", node_count: node_count.parse().ok()?, addresses })
    })
}
