//! Rows that can be named. Upstream's columns let a uuid be NULL: no request can ask for such a row, and it cannot be read as one that has a uuid.

use diesel::sql_types::Text;

diesel::define_sql_function! {
    /// How long a text is. Both databases have it.
    fn length(text: Text) -> Integer;
}

/// The condition that a row of a table of upstream's has a uuid: for whoever looks for rows by anything else.
///
/// Not `IS NOT NULL`: MariaDB never expects more than half of a table of what it can look up, and looks up one uuid after the other then, where
/// reading the table from one end to the other takes a third of the time.
macro_rules! has_uuid {
    ($table:ident) => {
        $crate::store::named::length($table::uuid).gt(0)
    };
}

/// The opposite, for whoever tells of such rows.
macro_rules! lacks_uuid {
    ($table:ident) => {
        $table::uuid.is_null().or($crate::store::named::length($table::uuid).eq(0))
    };
}

pub(super) use {has_uuid, lacks_uuid};
