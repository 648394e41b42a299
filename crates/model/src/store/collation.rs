//! How texts of different tables are compared on MariaDB.
//!
//! Two columns of one character set that differ in collation are not compared at all (error 1267), and of two sets it is the column of the narrower one that
//! is converted, row by row, so that its index is of no use: such a query grew with the square of the clusters. What upstream's tables are of depends on how
//! its database was made, on the version of MariaDB (`character_set_collations`, from 11.5 on) and on what its operator has converted since; `cluster` and
//! `nodegroup` need not be of the same. Ours are utf8mb4 in general_ci, as their migrations say. So whatever is compared with a column is made what that
//! column is.

use std::sync::OnceLock;

use diesel::QueryResult;
use diesel::expression::{AppearsOnTable, Expression, SelectableExpression, ValidGrouping};
use diesel::mysql::Mysql;
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::sql_types::Text;
use diesel::sqlite::Sqlite;
use mysql_async::prelude::Queryable;

use super::error::StoreError;

/// Of the columns that others are compared with.
const QUESTION: &str = "SELECT TABLE_NAME, CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() \
                        AND ((TABLE_NAME = 'cluster' AND COLUMN_NAME = 'uuid') OR (TABLE_NAME = 'nodegroup' AND COLUMN_NAME = 'cluster_id'))";

/// What upstream's columns are. A process has one database, which is asked by the first connection to it that finds them.
static UPSTREAMS: OnceLock<Upstreams> = OnceLock::new();

struct Upstreams {
    cluster: String,
    nodegroup: String,
}

/// What follows `CONVERT(text` to make a text of such a column of it.
fn ending(set: &str, collation: &str) -> String {
    format!(" USING {set}) COLLATE {collation}")
}

/// Where nobody has told: as upstream's own migrations make `cluster`.
const USUAL: &str = " USING utf8mb3)";
/// As ours make all tables.
const OURS: &str = " USING utf8mb4) COLLATE utf8mb4_general_ci";

/// Asks for it, where nobody has; a database without tables leaves it open.
pub(super) async fn learn(conn: &mut mysql_async::Conn) -> Result<(), StoreError> {
    if UPSTREAMS.get().is_some() {
        return Ok(());
    }
    let rows: Vec<(String, String, String)> = conn.query(QUESTION).await.map_err(|error| StoreError::Unavailable(error.to_string()))?;
    let of = |table: &str| rows.iter().find(|(of, ..)| of == table).map(|(_, set, collation)| ending(set, collation));
    if let (Some(cluster), Some(nodegroup)) = (of("cluster"), of("nodegroup")) {
        // Somebody else may have been first, with the same.
        let _ = UPSTREAMS.set(Upstreams { cluster, nodegroup });
    }
    Ok(())
}

/// A text in SQL, to be compared with the cluster of a nodegroup.
pub(super) fn as_cluster_of_nodegroup(text: &str) -> String {
    format!("CONVERT({text}{}", UPSTREAMS.get().map_or(USUAL, |found| &found.nodegroup))
}

macro_rules! converted {
    ($(#[$about:meta])* $name:ident, $ending:expr) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, QueryId, ValidGrouping)]
        pub(super) struct $name<E>(pub(super) E);

        impl<E: Expression<SqlType = Text>> Expression for $name<E> {
            type SqlType = Text;
        }

        impl<E, S> AppearsOnTable<S> for $name<E>
        where
            E: AppearsOnTable<S>,
            Self: Expression,
        {
        }

        impl<E, S> SelectableExpression<S> for $name<E>
        where
            E: SelectableExpression<S>,
            Self: AppearsOnTable<S>,
        {
        }

        impl<E: QueryFragment<Mysql>> QueryFragment<Mysql> for $name<E> {
            fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Mysql>) -> QueryResult<()> {
                out.push_sql("CONVERT(");
                self.0.walk_ast(out.reborrow())?;
                out.push_sql($ending);
                Ok(())
            }
        }

        impl<E: QueryFragment<Sqlite>> QueryFragment<Sqlite> for $name<E> {
            fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
                self.0.walk_ast(out)
            }
        }
    };
}

converted!(
    /// Text of a table of ours, to be compared with the uuid of a cluster.
    AsUpstreams,
    UPSTREAMS.get().map_or(USUAL, |found| found.cluster.as_str())
);
converted!(
    /// The uuid of a cluster, to be compared with a column of ours.
    AsOurs,
    OURS
);
