//! One page of a list.
//!
//! Lists can be sorted by each of many columns. The order and the place where a page begins are text made of names of this program's own, so
//! that a list is one query for the compiler, and one for each column that is asked for in the database's cache of statements.

use diesel::QueryResult;
use diesel::backend::Backend;
use diesel::expression::{AppearsOnTable, Expression, SelectableExpression, ValidGrouping, is_aggregate};
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::serialize::ToSql;
use diesel::sql_types::{BigInt, Bool, HasSqlType};

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

impl<DB: Backend> QueryFragment<DB> for Order {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        let Self { table, column, direction } = self;
        let word = if *direction == SortDir::Asc { "ASC" } else { "DESC" };
        out.push_sql(&format!("`{table}`.`{column}` {word}"));
        if *column != "id" {
            out.push_sql(&format!(", `{table}`.`id` {word}"));
        }
        Ok(())
    }
}

impl<DB> QueryFragment<DB> for Behind
where
    DB: Backend + HasSqlType<BigInt>,
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
        let (theirs, ours) = (format!("`marker`.`{column}`"), format!("`{table}`.`{column}`"));
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
