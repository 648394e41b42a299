//! Statements that recur: a connection keeps them prepared.
//!
//! Diesel keeps what it can tell from its type to be the same text each time. Of an `UPDATE`, of an insert with a clause for conflicts, with
//! several rows or with a `DEFAULT`, of `IN` and of a condition in SQL it cannot: those it has MariaDB (or SQLite) prepare each time that they
//! run, which is one more way to the server and back.

use diesel::QueryResult;
use diesel::backend::Backend;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};

/// A statement whose text is the same each time, or one of a few; it is known by its text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recurring<S>(S);

/// Marks statements as recurring.
pub(super) trait Recur: Sized {
    /// To be called only where the code alone decides on the text, and no number of values does: what is prepared stays as long as its connection.
    fn recurring(self) -> Recurring<Self> {
        Recurring(self)
    }
}

impl<S> Recur for S {}

impl<S> QueryId for Recurring<S> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<S: Query> Query for Recurring<S> {
    type SqlType = S::SqlType;
}

impl<S: QueryFragment<DB>, DB: Backend> QueryFragment<DB> for Recurring<S> {
    fn walk_ast<'b>(&'b self, pass: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        self.0.walk_ast(pass)
    }

    fn is_safe_to_cache_prepared(&self, _: &DB) -> QueryResult<bool> {
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use diesel::prelude::*;
    use diesel::sql_types::Text;

    #[derive(QueryableByName)]
    struct Built {
        #[diesel(sql_type = Text)]
        compile_options: String,
    }

    /// As `.cargo/config.toml` says; else it prepares each statement with a limit anew each time that it runs.
    #[test]
    fn sqlite_plans_statements_without_looking_at_their_values() {
        let mut conn = SqliteConnection::establish(":memory:").expect("a database");
        let options: Vec<Built> = diesel::sql_query("PRAGMA compile_options").load(&mut conn).expect("its options");
        assert!(options.iter().any(|built| built.compile_options == "ENABLE_QPSG"));
    }
}
