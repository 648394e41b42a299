//! "Is one of these ids", in the form that costs the least.
//!
//! Lists of a usual size are filled up to one of few lengths by repeating the last id, so that their statement is prepared once for a
//! connection: a list of varying length (`IN`) would be prepared anew each time, which costs the database as much as the query. Longer ones
//! are prepared anew, but with the ids in their text: the database describes each of a thousand placeholders in a packet of its own.

/// The longest padded list.
const PADDED: usize = 32;

/// Ids that rows are looked up by.
pub(super) enum Many<'a> {
    /// Few, with repetitions at the end.
    Padded(Vec<&'a str>),
    /// Many, as the text of a condition.
    Text(String),
    /// Many, and some of them odd.
    Bound(&'a [&'a str]),
}

impl<'a> Many<'a> {
    /// `column` as SQL names it.
    pub(super) fn of(column: &str, ids: &'a [&'a str]) -> Self {
        if let (Some(last), Some(length)) = (ids.last(), [1, 4, PADDED].into_iter().find(|n| *n >= ids.len())) {
            let mut padded = ids.to_vec();
            padded.resize(length, last);
            return Self::Padded(padded);
        }
        text(column, ids).map_or(Self::Bound(ids), Self::Text)
    }
}

/// Whether an id may stand in the text of a statement: a plain word, as every uuid is.
fn is_plain(id: &str) -> bool {
    id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// The condition; none when an id is no plain word.
fn text(column: &str, ids: &[&str]) -> Option<String> {
    let mut text = String::with_capacity(column.len() + 8 + ids.len() * 40);
    text += column;
    text += " IN (";
    for (at, id) in ids.iter().enumerate() {
        if !is_plain(id) {
            return None;
        }
        text += if at == 0 { "'" } else { ",'" };
        text += id;
        text.push('\'');
    }
    text.push(')');
    Some(text)
}

/// Narrows a boxed query without any other condition to rows whose column is among [`Many`].
macro_rules! among {
    ($query:expr, $column:expr, $many:expr) => {{
        let mut query = $query;
        match &$many {
            $crate::store::many::Many::Padded(ids) => {
                for id in ids {
                    query = query.or_filter($column.eq(*id));
                }
            }
            $crate::store::many::Many::Text(text) => query = query.filter(diesel::dsl::sql::<diesel::sql_types::Bool>(text)),
            $crate::store::many::Many::Bound(ids) => query = query.filter($column.eq_any(*ids)),
        }
        query
    }};
}
pub(super) use among;

#[cfg(test)]
mod tests {
    use super::{Many, text};

    #[test]
    fn only_plain_words_are_put_into_the_text_of_a_statement() {
        assert_eq!(text("t.c", &["a-1", "B2"]).as_deref(), Some("t.c IN ('a-1','B2')"));
        for odd in ["a'b", "a\\", "a b", "ä", "a\0", "a;b"] {
            assert_eq!(text("t.c", &["good", odd]), None, "{odd}");
        }
    }

    #[test]
    fn few_ids_have_few_lengths_and_many_are_text() {
        let length = |count: usize| match Many::of("t.c", &vec!["a"; count]) {
            Many::Padded(ids) => Some(ids.len()),
            Many::Text(_) | Many::Bound(_) => None,
        };
        assert_eq!([1, 2, 4, 5, 32, 33].map(length), [Some(1), Some(4), Some(4), Some(32), Some(32), None]);
    }
}
