//! Bringing the secrets that are in the rows into the form that the store's vault writes: sealed by its first key, or clear.
//!
//! In small pieces, each a transaction of its own, while everybody works: both forms are always read. Each value says by itself what was done
//! with it, so whoever was cut off is gone on with by doing it again. A value is replaced only where it still is what was read, byte for byte:
//! what a service has written meanwhile stays.

use std::collections::BTreeMap;
use std::fmt;

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel_async::RunQueryDsl;

use super::Store;
use super::connection::{Conn, on_conn};
use super::error::StoreError;
use crate::seal::vault::{Column, ID, PREFIX, Stored, Vault, VaultError};

/// Rows of one transaction.
const BATCH: i64 = 100;
/// Times that the same rows are read again because somebody has written to them meanwhile.
const TRIES: u32 = 8;
/// Values that could not be converted and are told one by one.
const NAMED: usize = 20;

diesel::define_sql_function! {
    /// Bytes as upper-case hex digits. Both databases have it; comparing text itself would pass over case on MariaDB.
    fn hex(text: Nullable<Text>) -> Nullable<Text>;
}

/// Runs one expression with the table and the column of a secret.
macro_rules! on_column {
    ($column:expr, |$table:ident, $value:ident| $body:expr) => {
        match $column {
            Column::TrusteePassword => {
                use crate::schema::cluster::{self as $table, trustee_password as $value};
                $body
            }
            Column::PrivateKey => {
                use crate::schema::x509keypair::{self as $table, private_key as $value};
                $body
            }
            Column::Passphrase => {
                use crate::schema::x509keypair::{self as $table, private_key_passphrase as $value};
                $body
            }
        }
    };
}

/// What a column holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub column: Column,
    /// Values in the clear.
    pub clear: i64,
    /// Sealed values, by the id of the key.
    pub sealed_by: BTreeMap<String, i64>,
}

impl Held {
    /// Sealed values.
    pub fn sealed(&self) -> i64 {
        self.sealed_by.values().sum()
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} clear", self.column, self.clear)?;
        self.sealed_by.iter().try_for_each(|(key, count)| write!(f, ", {count} sealed by the key {key}"))
    }
}

/// What the columns of secrets hold. Reads them whole; not for each request.
pub async fn census(conn: &mut Conn) -> Result<Vec<Held>, StoreError> {
    let mut all = Vec::new();
    for column in Column::ALL {
        let (table, name) = column.place();
        let key = format!("SUBSTR({name}, {}, {ID})", PREFIX.len() + 1);
        let sealed = format!("SELECT {key} AS id, COUNT(*) AS counted FROM {table} WHERE {name} LIKE '{PREFIX}%' GROUP BY {key}");
        let clear = format!("SELECT '' AS id, COUNT(*) AS counted FROM {table} WHERE {name} NOT LIKE '{PREFIX}%'");
        let sealed: Vec<Count> = on_conn!(conn, |c| diesel::sql_query(sealed).load(&mut **c).await)?;
        let clear: Vec<Count> = on_conn!(conn, |c| diesel::sql_query(clear).load(&mut **c).await)?;
        all.push(Held {
            column,
            clear: clear.iter().map(|count| count.counted).sum(),
            sealed_by: sealed.into_iter().map(|count| (count.id, count.counted)).collect(),
        });
    }
    Ok(all)
}

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = Text)]
    id: String,
    #[diesel(sql_type = BigInt)]
    counted: i64,
}

/// A conversion under way.
#[derive(Debug)]
pub struct Conversion {
    /// Which column is at work, and up to which row it is done.
    at: usize,
    after: i32,
    tries: u32,
    done: Converted,
}

/// What a conversion has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// Values that have another form now, by column.
    pub values: BTreeMap<&'static str, u64>,
    /// Why some have not; the first of them.
    pub refused: Vec<VaultError>,
    /// How many more.
    pub refused_more: usize,
    /// Values that somebody else wrote each time they were to be replaced.
    pub contended: u64,
}

impl Converted {
    /// Whether every value that was seen has the wanted form.
    pub fn is_whole(&self) -> bool {
        self.refused.is_empty() && self.contended == 0
    }
}

impl Default for Conversion {
    fn default() -> Self {
        let values = Column::ALL.into_iter().map(|column| (column.place().1, 0)).collect();
        Self { at: 0, after: 0, tries: 1, done: Converted { values, ..Converted::default() } }
    }
}

impl Conversion {
    /// Brings all values into the form that the store's vault writes.
    ///
    /// # Errors
    /// [`StoreError`]; what was done until then stays, and doing it again goes on from there.
    pub async fn run(store: &Store) -> Result<Converted, StoreError> {
        let mut conversion = Self::default();
        while conversion.step(store).await? {}
        Ok(conversion.done)
    }

    /// Converts some values, in one transaction; false when there are no more.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn step(&mut self, store: &Store) -> Result<bool, StoreError> {
        let Some(column) = Column::ALL.get(self.at).copied() else { return Ok(false) };
        let (vault, after) = (store.vault(), self.after);
        let batch = store.write(async |conn: &mut Conn| convert(conn, vault, column, after).await).await?;
        if let Some(count) = self.done.values.get_mut(column.place().1) {
            *count += batch.converted;
        }
        if batch.contended > 0 && self.tries < TRIES {
            self.tries += 1;
            return Ok(true);
        }
        self.tries = 1;
        self.done.contended += batch.contended;
        for error in batch.refused {
            if self.done.refused.len() < NAMED { self.done.refused.push(error) } else { self.done.refused_more += 1 }
        }
        match batch.last {
            Some(last) => self.after = last,
            None => (self.at, self.after) = (self.at + 1, 0),
        }
        Ok(true)
    }
}

/// What became of some rows.
#[derive(Default)]
struct Batch {
    /// The last row that was read; none when there was none.
    last: Option<i32>,
    converted: u64,
    contended: u64,
    refused: Vec<VaultError>,
}

async fn convert(conn: &mut Conn, vault: &Vault, column: Column, after: i32) -> Result<Batch, StoreError> {
    let rows: Vec<(i32, Option<String>, Option<Stored>)> = on_column!(column, |table, value| on_conn!(conn, |c| {
        let rows = table::table.filter(table::id.gt(after).and(value.is_not_null()));
        rows.select((table::id, table::uuid.nullable(), value)).order(table::id.asc()).limit(BATCH).load(&mut **c).await
    })?);
    let mut batch = Batch { last: rows.last().map(|(id, ..)| *id), ..Batch::default() };
    for (id, uuid, stored) in rows {
        // A row without uuid belongs to nothing, and nobody reads it.
        let (Some(uuid), Some(stored)) = (uuid, stored) else { continue };
        if vault.is_current(&stored) {
            continue;
        }
        let new = match vault.open(column, &uuid, &stored).and_then(|clear| vault.store(column, &uuid, &clear)) {
            Ok(new) => new,
            Err(error) => {
                batch.refused.push(error);
                continue;
            }
        };
        let read: String = stored.text().bytes().map(|byte| format!("{byte:02X}")).collect();
        let replaced = on_column!(column, |table, value| on_conn!(conn, |c| {
            let row = table::table.filter(table::id.eq(id).and(hex(value).eq(&read)));
            diesel::update(row).set(value.eq(&new)).execute(&mut **c).await
        })?);
        if replaced == 1 { batch.converted += 1 } else { batch.contended += 1 }
    }
    Ok(batch)
}
