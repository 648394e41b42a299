//! One page of a list.

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
