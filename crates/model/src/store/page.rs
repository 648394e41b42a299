//! One page of a list.
//!
//! Lists can be sorted by each of many columns. The order and the place where a page begins are text made of names of this program's own, so
//! that a list is one query for the compiler. By its id, which is what is asked for unless somebody says otherwise, it stays prepared; by
//! another column it is prepared each time, for all columns, directions and filters would be a thousand statements for each connection, which
//! a server bounds for all of its clients together (`max_prepared_stmt_count`).
//!
//! What the rows are sorted by and what tells where a page begins must be the same to the last byte: where rows are equal to the one and not to
//! the other, a page leaves some of them out, or shows them again.

use diesel::QueryResult;
use diesel::backend::Backend;
use diesel::expression::{AppearsOnTable, Expression, SelectableExpression, ValidGrouping, is_aggregate};
use diesel::mysql::Mysql;
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::serialize::ToSql;
use diesel::sql_types::{BigInt, Bool, HasSqlType};
use diesel::sqlite::Sqlite;

use super::error::StoreError;

/// What part of a list is asked for. Rows are ordered by the key, ties by the internal id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Rows at most; the API has already cut it to the configured maximum.
    pub limit: i64,
    /// The uuid of the last row of the page before.
    pub marker: Option<String>,
    /// A stored column.
    pub sort_key: String,
    pub sort_dir: SortDir,
}

/// Which way a list runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortDir {
    Asc,
    Desc,
}

impl SortDir {
    /// The word of the query parameter.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Asc => "asc",
            Self::Desc => "desc",
        }
    }
}

impl Page {
    /// The order of the rows of `table`: by a column, ties by `id`. NULLs are first in an ascending list, on both databases.
    ///
    /// `keys` are the columns that may be asked for.
    ///
    /// # Errors
    /// [`StoreError::BadSortKey`] for any other, of a list of `what`.
    pub(super) fn order(&self, what: &'static str, table: &'static str, keys: &[&'static str]) -> Result<Order, StoreError> {
        let known = keys.iter().find(|key| **key == self.sort_key);
        let column = *known.ok_or_else(|| StoreError::BadSortKey { what, key: self.sort_key.clone() })?;
        Ok(Order { table, column, direction: self.sort_dir })
    }
}

/// Columns whose values may be longer than what MariaDB sorts by: the first `max_sort_length` (1024) bytes of a value, or of what its collation
/// makes of it. Comparing two of them goes to their ends.
const LONG: &[&str] =
    &["docker_storage_driver", "health_status_reason", "labels", "member_ids", "node_addresses", "properties", "status_reason"];

/// Characters that count of such a value, on both databases: with four bytes each they are within what MariaDB sorts by. Ties go by the id.
const COUNTED: usize = 255;

/// A database, and how it compares a text byte by byte.
///
/// A collation would do for most texts only: it may make many bytes of one character (18 weights of two bytes, of some), so that 255 of them are
/// too long again.
pub(super) trait ByBytes: Backend {
    /// What stands before the text and behind it.
    const AROUND: [&'static str; 2];
}

impl ByBytes for Mysql {
    const AROUND: [&'static str; 2] = ["CAST(", " AS BINARY)"];
}

/// Compares bytes by itself.
impl ByBytes for Sqlite {
    const AROUND: [&'static str; 2] = ["", ""];
}

/// How a list runs; in a query, the expression that it is ordered by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    table: &'static str,
    column: &'static str,
    direction: SortDir,
}

impl Order {
    /// With the table's own names of columns that lists call otherwise: what they call it, and what the table does.
    pub(super) fn called(self, names: &[(&str, &'static str)]) -> Self {
        let own = names.iter().find(|(key, _)| *key == self.column);
        Self { column: own.map_or(self.column, |(_, column)| column), ..self }
    }

    /// What is compared of a row, by the name that the query has for the row's table. Short columns stand for themselves, as their indexes do.
    fn compared<DB: ByBytes>(self, table: &str) -> String {
        let whole = format!("`{table}`.`{}`", self.column);
        if !LONG.contains(&self.column) {
            return whole;
        }
        let [before, behind] = DB::AROUND;
        format!("{before}SUBSTR({whole}, 1, {COUNTED}){behind}")
    }

    /// The condition that a row is behind the one with this id.
    pub(super) fn behind(self, id: impl Into<i64>) -> Behind {
        Behind { order: self, id: id.into() }
    }
}

/// That a row is behind another one in an order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind {
    order: Order,
    id: i64,
}

impl<DB: ByBytes> QueryFragment<DB> for Order {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        let Self { table, column, direction } = self;
        let word = if *direction == SortDir::Asc { "ASC" } else { "DESC" };
        out.push_sql(&format!("{} {word}", self.compared::<DB>(table)));
        if *column != "id" {
            out.unsafe_to_cache_prepared();
            out.push_sql(&format!(", `{table}`.`id` {word}"));
        }
        Ok(())
    }
}

impl<DB> QueryFragment<DB> for Behind
where
    DB: ByBytes + HasSqlType<BigInt>,
    i64: ToSql<BigInt, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        let Order { table, column, direction } = self.order;
        let is_up = direction == SortDir::Asc;
        let further = if is_up { ">" } else { "<" };
        if column == "id" {
            out.push_sql(&format!("`{table}`.`id` {further} "));
            return out.push_bind_param::<BigInt, i64>(&self.id);
        }
        let (theirs, ours) = (self.order.compared::<DB>("marker"), self.order.compared::<DB>(table));
        let past_null = match is_up {
            true => format!("{theirs} IS NULL AND {ours} IS NOT NULL"),
            false => format!("{theirs} IS NOT NULL AND {ours} IS NULL"),
        };
        out.push_sql(&format!("EXISTS (SELECT 1 FROM `{table}` AS `marker` WHERE `marker`.`id` = "));
        out.push_bind_param::<BigInt, i64>(&self.id)?;
        out.push_sql(&format!(
            " AND ({ours} {further} {theirs} OR ({past_null}) \
             OR (({ours} = {theirs} OR ({ours} IS NULL AND {theirs} IS NULL)) AND `{table}`.`id` {further} `marker`.`id`)))"
        ));
        Ok(())
    }
}

/// An expression of this type that is known by its text, and may stand wherever its table is.
macro_rules! expression {
    ($name:ident, $of:ty) => {
        impl Expression for $name {
            type SqlType = $of;
        }
        impl QueryId for $name {
            type QueryId = ();
            const HAS_STATIC_QUERY_ID: bool = false;
        }
        impl<QS> AppearsOnTable<QS> for $name {}
        impl<QS> SelectableExpression<QS> for $name {}
        impl<GB> ValidGrouping<GB> for $name {
            type IsAggregate = is_aggregate::No;
        }
    };
}

pub(super) use expression;

expression!(Order, BigInt);
expression!(Behind, Bool);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{cluster, federation, nodegroup, quota, template};

    /// Upstream's tables, from which the lengths of their columns are read.
    const TABLES: &str = include_str!("../../../../migrations/mysql/2026-11-21-000001_upstream/up.sql");

    /// Whether more characters fit into a column of this type than are sorted by.
    fn is_long(kind: &str) -> bool {
        let length = kind.strip_prefix("VARCHAR(").and_then(|rest| rest.strip_suffix(')'));
        kind == "TEXT" || length.is_some_and(|length| length.parse::<usize>().expect("a number") > COUNTED)
    }

    #[test]
    fn of_every_column_that_may_be_too_long_the_beginning_is_sorted_by_and_of_no_other() {
        let lists = [
            ("cluster", cluster::SORT_KEYS),
            ("cluster_template", template::SORT_KEYS),
            ("nodegroup", nodegroup::SORT_KEYS),
            ("quotas", quota::SORT_KEYS),
            ("federation", federation::SORT_KEYS),
        ];
        let mut found = Vec::new();
        for (table, keys) in lists {
            let (_, rest) = TABLES.split_once(&format!("EXISTS `{table}` (")).expect("the table");
            let (columns, _) = rest.split_once("ENGINE").expect("its end");
            for key in keys {
                let (_, column) = columns.split_once(&format!("\n  `{key}` ")).expect("the column");
                let kind = column.split(' ').next().expect("its type");
                assert_eq!(LONG.contains(key), is_long(kind), "{table}.{key} is {kind}");
                found.extend(LONG.iter().filter(|long| *long == key));
            }
        }
        assert!(LONG.iter().all(|key| found.contains(&key)), "{LONG:?}, of which lists have {found:?}");
    }

    #[test]
    fn short_columns_are_sorted_by_as_they_are_and_long_ones_by_the_bytes_of_their_beginning() {
        let order = |column| Order { table: "cluster", column, direction: SortDir::Asc };
        assert_eq!(order("name").compared::<Mysql>("marker"), "`marker`.`name`");
        assert_eq!(order("labels").compared::<Mysql>("marker"), "CAST(SUBSTR(`marker`.`labels`, 1, 255) AS BINARY)");
        assert_eq!(order("labels").compared::<Sqlite>("cluster"), "SUBSTR(`cluster`.`labels`, 1, 255)");
    }
}
