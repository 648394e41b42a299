//! Rows of long lists, with all their text in one piece of memory.
//!
//! A page in detail is a thousand clusters of twenty columns of text. As a `String` each, these are twenty thousand small pieces, whose
//! allocation is a good part of what the page costs and whose places stay behind as holes in the heap.

use std::fmt;

use diesel::backend::Backend;
use diesel::deserialize::{self, FromSql};
use diesel::mysql::Mysql;
use diesel::result::UnexpectedEndOfRow;
use diesel::row::{Field, Row};
use diesel::sqlite::Sqlite;

/// Bytes of a column that room is made for at first; a uuid is 36.
const USUAL: usize = 40;

/// Some columns of text of one row.
#[derive(Clone)]
pub struct Texts<const N: usize> {
    all: Box<str>,
    /// Where in `all` each column ends, which is where the next one begins; none where it is NULL.
    ends: [Option<u32>; N],
}

impl<const N: usize> Texts<N> {
    /// A column, by its place among those that were read; none when it is NULL.
    pub fn get(&self, at: usize) -> Option<&str> {
        let end = (*self.ends.get(at)?)?;
        let start = self.ends[..at].iter().rev().find_map(|end| *end).unwrap_or_default();
        self.all.get(start as usize..end as usize)
    }

    /// The first columns of a row.
    pub fn read<'a, DB: HasText>(row: &impl Row<'a, DB>) -> deserialize::Result<Self> {
        let mut all = String::with_capacity(N * USUAL);
        let mut ends = [None; N];
        for (at, end) in ends.iter_mut().enumerate() {
            let field = row.get(at).ok_or(UnexpectedEndOfRow)?;
            if let Some(value) = field.value() {
                DB::append(value, &mut all)?;
                *end = Some(u32::try_from(all.len())?);
            }
        }
        Ok(Self { all: all.into_boxed_str(), ends })
    }
}

impl<const N: usize> fmt::Debug for Texts<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..N).map(|at| self.get(at))).finish()
    }
}

/// A database whose text can be read where it lies.
pub trait HasText: Backend {
    /// Adds a value to a text.
    ///
    /// # Errors
    /// When it is no UTF-8.
    fn append(value: Self::RawValue<'_>, text: &mut String) -> deserialize::Result<()>;
}

impl HasText for Mysql {
    fn append(value: Self::RawValue<'_>, text: &mut String) -> deserialize::Result<()> {
        text.push_str(str::from_utf8(value.as_bytes())?);
        Ok(())
    }
}

impl HasText for Sqlite {
    fn append(mut value: Self::RawValue<'_>, text: &mut String) -> deserialize::Result<()> {
        text.push_str(value.read_text());
        Ok(())
    }
}

/// A column of another type than text, by its place.
pub fn value<'a, T: FromSql<ST, DB>, ST, DB: Backend>(row: &impl Row<'a, DB>, at: usize) -> deserialize::Result<T> {
    let field = row.get(at).ok_or(UnexpectedEndOfRow)?;
    T::from_nullable_sql(field.value())
}

/// A type for a listed cluster: some columns of text, of which the ones behind `always` are never NULL; its nodegroups, as much of them as the
/// expression says; and columns of other types.
macro_rules! packed {
    (
        $(#[$about:meta])*
        $name:ident of $table:ident {
            always $($always:ident),+;
            text $($text:ident),+;
            nodegroups $groups:expr;
            other $($other:ident: $type:ty as $sql:ty),+;
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug)]
        pub struct $name {
            texts: $crate::packed::Texts<{ [$(stringify!($always),)+ $(stringify!($text),)+ "nodegroups"].len() }>,
            $(pub $other: $type,)+
        }

        const _: () = {
            use diesel::deserialize::{FromSqlRow, Result};
            use diesel::row::Row;
            use diesel::sql_types::{Nullable, Text};
            use $crate::store::beside::{self, Group, Groups};

            type Columns = ($($table::$always,)+ $($table::$text,)+ Groups, $($table::$other,)+);

            type Types = ($($crate::packed::instead!($always, Text),)+ $($crate::packed::instead!($text, Nullable<Text>),)+ Nullable<Text>, $($sql,)+);

            /// Columns in the order in which they are read.
            #[expect(non_camel_case_types, reason = "the names of columns")]
            enum At {
                $($always,)+
                $($text,)+
                nodegroups,
                $($other,)+
            }

            impl $name {
                $(
                    #[doc = concat!("The column `", stringify!($always), "`.")]
                    pub fn $always(&self) -> &str {
                        self.texts.get(At::$always as usize).unwrap_or_default()
                    }
                )+
                $(
                    #[doc = concat!("The column `", stringify!($text), "`.")]
                    pub fn $text(&self) -> Option<&str> {
                        self.texts.get(At::$text as usize)
                    }
                )+
                /// Its nodegroups, in order of creation, as far as they were asked for.
                pub fn nodegroups(&self) -> impl Iterator<Item = Group<'_>> {
                    beside::read(self.texts.get(At::nodegroups as usize))
                }
            }

            impl<DB: diesel::backend::Backend> diesel::Selectable<DB> for $name {
                type SelectExpression = Columns;

                fn construct_selection() -> Columns {
                    ($($table::$always,)+ $($table::$text,)+ $groups, $($table::$other,)+)
                }
            }

            macro_rules! read_from {
                ($db:ty) => {
                    impl FromSqlRow<Types, $db> for $name {
                        fn build_from_row<'a>(row: &impl Row<'a, $db>) -> Result<Self> {
                            Ok(Self {
                                texts: $crate::packed::Texts::read(row)?,
                                $($other: $crate::packed::value::<$type, $sql, $db>(row, At::$other as usize)?,)+
                            })
                        }
                    }
                };
            }
            read_from!(diesel::mysql::Mysql);
            read_from!(diesel::sqlite::Sqlite);
        };
    };
}

/// One type for each of many names.
macro_rules! instead {
    ($name:ident, $type:ty) => {
        $type
    };
}
pub(crate) use {instead, packed};
