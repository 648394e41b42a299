//! What is in a database, for comparing before with after.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use mysql_async::Row;

use crate::database::Database;

/// A row by its columns.
pub type Columns = BTreeMap<String, String>;

/// Tables by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump(pub BTreeMap<String, Table>);

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The statement that makes it, without the counter of ids.
    pub schema: String,
    /// All rows, in the order of their first columns.
    pub rows: Vec<Columns>,
}

impl Dump {
    /// All of a database.
    pub async fn of(database: &Database) -> Result<Self> {
        let names: Vec<String> =
            database.rows("SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY table_name").await?;
        let mut tables = BTreeMap::new();
        for name in names {
            let made: Vec<(String, String)> = database.rows(&format!("SHOW CREATE TABLE `{name}`")).await?;
            let (_, schema) = made.into_iter().next().context("a table")?;
            let rows: Vec<Row> = database.rows(&format!("SELECT * FROM `{name}` ORDER BY 1, 2, 3")).await.or(
                // A table of fewer columns.
                database.rows(&format!("SELECT * FROM `{name}` ORDER BY 1")).await,
            )?;
            tables.insert(name, Table { schema: without_counter(&schema), rows: rows.iter().map(columns).collect() });
        }
        Ok(Self(tables))
    }

    /// The names of the tables that another dump has not.
    pub fn tables_beyond(&self, other: &Self) -> Vec<&str> {
        self.0.keys().filter(|name| !other.0.contains_key(*name)).map(String::as_str).collect()
    }

    /// How this differs from what was there before: in tables that it has not any more, whose schema differs, or whose rows are gone or not as
    /// they were. What came along is no difference.
    pub fn damage(&self, before: &Self, ignored: &[&str]) -> Vec<String> {
        let mut damage = Vec::new();
        for (name, was) in &before.0 {
            let Some(is) = self.0.get(name) else {
                damage.push(format!("{name} is gone"));
                continue;
            };
            if is.schema != was.schema && !ignored.contains(&name.as_str()) {
                damage.push(format!("{name} is made otherwise: {} instead of {}", is.schema, was.schema));
            }
            let is_there = |row: &Columns| is.rows.iter().any(|now| row.iter().all(|(column, value)| now.get(column) == Some(value)));
            damage.extend(was.rows.iter().filter(|row| !is_there(row)).map(|row| format!("{name}: {row:?} is not as it was")));
        }
        damage
    }
}

fn without_counter(schema: &str) -> String {
    schema.split(' ').filter(|word| !word.starts_with("AUTO_INCREMENT=")).collect::<Vec<_>>().join(" ")
}

fn columns(row: &Row) -> Columns {
    let names = row.columns_ref().iter().map(|column| column.name_str().into_owned());
    names.enumerate().map(|(at, name)| (name, row.as_ref(at).map_or_else(String::new, |value| value.as_sql(true)))).collect()
}
