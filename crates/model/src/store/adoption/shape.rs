//! What a database looks like before it is touched, and whether it is one that can be worked on.
//!
//! Pure, so that every kind of database can be tried in a test. Revisions and what they did are facts of upstream's migrations.

use std::collections::{BTreeMap, BTreeSet};

use crate::store::migrate::UPSTREAM_HEAD;

use super::{Adoption, State};

/// The newest revision of upstream 13.x to 17.x (2021.2 to 2023.2). What comes after it is one nullable column.
pub const UPSTREAM_PREVIOUS: &str = "7da8489d6a68";

/// The column that leads from [`UPSTREAM_PREVIOUS`] to [`UPSTREAM_HEAD`], and its table.
pub(super) const DRIVER: (&str, &str) = ("cluster_template", "driver");

/// The book of the migration library; it is there before any other table of ours.
pub(super) const BOOK: &str = "__diesel_schema_migrations";

/// Upstream's tables, from which their columns are read.
const TABLES: &str = include_str!("../../../../../migrations/mysql/2026-11-21-000001_upstream/up.sql");

/// Newest revisions of releases that are too old, newest first.
const OLDER: [(&str, &str); 3] = [("f1d8b0ab8b8d", "12.x"), ("95096e2334ee", "11.x"), ("c04e925e65c2", "10.x")];

/// Revisions before those, none of which a release of the last years ends at.
const ANCIENT: &str = "\
2581ebaf0cb2 3bea56f25597 5793cd26898d 3a938526b35d 35cff7c86221 1afee1db6cd0 2d1354bbf76e 29affeaa2bc2 2ace4006498 456126c6c9e9 4ea34a59a64c \
e772b2598d9 2d8657c0cdc 4956f03cabad 592131657ca1 3b6c4c42adb4 2b5f24dd95de 59e7664a8ba1 156ceb17fb0a 1c1ff5e56048 53882537ac57 14328d6a57e3 \
421102d1f2d2 6f21dc998bb 966a99e70ff 6f21dc920bb 5518af8dbc21 4e263f236334 3be65537a94a 1481f5b560dd 1d045384b966 27ad304554e2 5ad410481b88 \
2ae93c9c6191 33ef79969018 417917e778f5 5977879072a7 40f325033343 adc3b7679ae 57fbdf2327a2 05d3e97de9ee bb42b7cad130 5d4caa6e0a42 ee92b41b8809 \
049f81f6f584 e647f5931da8 ef08a5e057bd d072f58ab240 a1136d335540 085e601a39f6 68ce16dfd341 e0653b2d5271 1f196a3dabae 859fb45df249 b1f612248cab \
fcb4efee8f8b fb03fdef8919 720f640f43d1 bc46ba6cf949 aa0cc27839af a0e7c8450ab1 52bcaf58fecb 04c625aa95ba 041d9a0f1159 9a1539f1cd2c cbbc65a86986 \
87e62e3c7abc ac92cbae311c 461d798132c7 47380964133d";

/// Revisions after the one that this program works on.
const NEWER: [&str; 2] = ["d7e6a4d39fe4", "b3e1cf4a2d5e"];

/// What was seen of a database.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// The rows of `alembic_version`; none: there is no such table.
    pub revisions: Option<Vec<String>>,
    /// All tables with their columns.
    pub columns: BTreeMap<String, BTreeSet<String>>,
    /// What an earlier adoption or release has written down.
    pub adoption: Option<Adoption>,
}

/// A database that can be worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Without upstream's tables, or with some that this program was about to make.
    Empty,
    /// At [`UPSTREAM_PREVIOUS`]: one step is missing, or was begun by this program.
    Previous,
    /// At [`UPSTREAM_HEAD`].
    Head,
}

impl Standing {
    /// Upstream's revision; none for an empty database.
    pub(crate) fn revision(self) -> Option<&'static str> {
        match self {
            Self::Empty => None,
            Self::Previous => Some(UPSTREAM_PREVIOUS),
            Self::Head => Some(UPSTREAM_HEAD),
        }
    }
}

/// Whether the database can be worked on; else why not, and what to do.
pub(crate) fn judge(found: &Found) -> Result<Standing, String> {
    let wanted = upstream_columns();
    let there: Vec<&str> = wanted.keys().copied().filter(|table| found.columns.contains_key(*table)).collect();
    let standing = match found.revisions.as_deref() {
        None | Some([]) if there.is_empty() || found.columns.contains_key(BOOK) => return Ok(Standing::Empty),
        None | Some([]) => {
            return Err(format!(
                "upstream's tables are there ({}), but alembic_version names no revision: a migration of upstream's was cut off. Let upstream's \
                 magnum-db-manage upgrade finish it, or restore the backup from before it",
                there.join(", ")
            ));
        }
        Some([one]) => revision(one)?,
        Some(several) => {
            return Err(format!(
                "alembic_version has {} rows ({}), and upstream's databases have one: somebody has written there by hand. Keep the row that \
                 tells what the tables are",
                several.len(),
                several.join(", ")
            ));
        }
    };
    let is_ours = found.adoption.as_ref().is_some_and(|a| matches!(a.state, State::Adopting | State::Releasing));
    let has_driver = has(found, DRIVER.0, DRIVER.1);
    if standing == Standing::Previous && has_driver && !is_ours {
        return Err(format!(
            "the revision is {UPSTREAM_PREVIOUS}, but {}.{} of {UPSTREAM_HEAD} is there: a migration of upstream's was cut off. Remove the column \
             (upstream's magnum-db-manage could not go on otherwise either), or restore the backup from before it",
            DRIVER.0, DRIVER.1
        ));
    }
    let mut missing = Vec::new();
    for (table, columns) in &wanted {
        if !found.columns.contains_key(*table) {
            missing.push((*table).to_owned());
            continue;
        }
        let absent = columns.iter().filter(|column| !has(found, table, column));
        let is_due = |column: &str| (*table, column) == DRIVER && (standing == Standing::Previous || is_ours);
        missing.extend(absent.filter(|column| !is_due(column)).map(|column| format!("{table}.{column}")));
    }
    if missing.is_empty() {
        return Ok(standing);
    }
    Err(format!(
        "the revision is {}, but the database lacks {}: a migration of upstream's was cut off, or the tables were changed by hand. Let upstream's \
         magnum-db-manage finish it, or restore a backup",
        standing.revision().unwrap_or("none"),
        missing.join(", ")
    ))
}

fn has(found: &Found, table: &str, column: &str) -> bool {
    found.columns.get(table).is_some_and(|columns| columns.contains(column))
}

fn revision(word: &str) -> Result<Standing, String> {
    let only = format!(
        "only {UPSTREAM_PREVIOUS} (upstream 13.x to 17.x, of which 2023.1 and later are supported) and {UPSTREAM_HEAD} (18.x to 22.x) can be adopted"
    );
    if word == UPSTREAM_HEAD {
        return Ok(Standing::Head);
    }
    if word == UPSTREAM_PREVIOUS {
        return Ok(Standing::Previous);
    }
    if NEWER.contains(&word) {
        return Err(format!(
            "the database is at upstream revision {word}, which is newer than 22.x: {only}. The step to it removes the trusts of clusters, and there \
             is no way back but the backup from before it"
        ));
    }
    let release = OLDER.iter().find(|(known, _)| *known == word).map(|(_, release)| format!("of upstream {release}"));
    let release = release.or_else(|| ANCIENT.split_whitespace().any(|known| known == word).then(|| "older than upstream 10.x".to_owned()));
    match release {
        Some(release) => Err(format!(
            "the database is at upstream revision {word}, {release}: {only}: upgrade it with upstream's own magnum-db-manage of one of these \
             releases first"
        )),
        None => Err(format!("the database is at revision {word}, which no release of upstream has: {only}")),
    }
}

/// Upstream's tables at [`UPSTREAM_HEAD`] with their columns, without that of revisions.
fn upstream_columns() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut tables: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut table = None;
    for line in TABLES.lines() {
        if let Some(rest) = line.strip_prefix("CREATE TABLE IF NOT EXISTS `") {
            table = rest.split('`').next().filter(|name| *name != "alembic_version");
        } else if let (Some(table), Some(rest)) = (table, line.strip_prefix("  `")) {
            tables.entry(table).or_default().extend(rest.split('`').next());
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream(revision: &str) -> Found {
        let owned = |set: BTreeSet<&str>| set.into_iter().map(str::to_owned).collect();
        Found {
            revisions: Some(vec![revision.to_owned()]),
            columns: upstream_columns().into_iter().map(|(table, columns)| (table.to_owned(), owned(columns))).collect(),
            adoption: None,
        }
    }

    fn without(mut found: Found, table: &str, column: &str) -> Found {
        assert!(found.columns.get_mut(table).expect("a table").remove(column), "{table}.{column}");
        found
    }

    fn adoption(state: State) -> Option<Adoption> {
        Some(Adoption { found_revision: UPSTREAM_PREVIOUS.to_owned(), state })
    }

    #[test]
    fn upstreams_tables_are_read_from_the_migration() {
        let tables = upstream_columns();
        let names: Vec<&str> = tables.keys().copied().collect();
        assert_eq!(names, ["cluster", "cluster_template", "federation", "magnum_service", "nodegroup", "quotas", "x509keypair"]);
        assert_eq!(tables["cluster"].len(), 35);
        assert!(tables[DRIVER.0].contains(DRIVER.1) && tables["magnum_service"].contains("binary"));
    }

    #[test]
    fn what_can_be_adopted_is() {
        assert_eq!(judge(&upstream(UPSTREAM_HEAD)), Ok(Standing::Head));
        let previous = without(upstream(UPSTREAM_PREVIOUS), DRIVER.0, DRIVER.1);
        assert_eq!(judge(&previous), Ok(Standing::Previous));
        // A column that somebody added does no harm.
        let mut more = upstream(UPSTREAM_HEAD);
        more.columns.entry("cluster".into()).or_default().insert("site_notes".into());
        assert_eq!(judge(&more), Ok(Standing::Head));
    }

    #[test]
    fn what_we_were_about_to_do_is_gone_on_with() {
        assert_eq!(judge(&Found::default()), Ok(Standing::Empty));
        let begun = Found { revisions: Some(Vec::new()), ..Found::default() };
        assert_eq!(judge(&begun), Ok(Standing::Empty));
        let mut cut = upstream(UPSTREAM_HEAD);
        cut.revisions = None;
        cut.columns.insert(BOOK.into(), BTreeSet::new());
        assert_eq!(judge(&cut), Ok(Standing::Empty));
        for state in [State::Adopting, State::Releasing] {
            assert_eq!(judge(&Found { adoption: adoption(state), ..upstream(UPSTREAM_PREVIOUS) }), Ok(Standing::Previous));
        }
    }

    #[test]
    fn what_cannot_be_adopted_is_refused_with_the_reason_and_what_to_do() {
        let two = Found { revisions: Some(vec![UPSTREAM_HEAD.into(), UPSTREAM_PREVIOUS.into()]), ..upstream(UPSTREAM_HEAD) };
        let none = Found { revisions: Some(Vec::new()), ..upstream(UPSTREAM_HEAD) };
        let cases: [(Found, &[&str]); 11] = [
            (upstream("f1d8b0ab8b8d"), &["f1d8b0ab8b8d, of upstream 12.x", "upgrade it with upstream's own"]),
            (upstream("461d798132c7"), &["older than upstream 10.x"]),
            (upstream("b3e1cf4a2d5e"), &["b3e1cf4a2d5e, which is newer than 22.x", "backup"]),
            (upstream("deadbeef"), &["deadbeef, which no release of upstream has"]),
            (two, &["alembic_version has 2 rows"]),
            (none, &["names no revision", "cut off"]),
            // Cut off between the column and the revision, by upstream or by nobody knows whom.
            (upstream(UPSTREAM_PREVIOUS), &["cluster_template.driver", "cut off", "Remove the column"]),
            (Found { adoption: adoption(State::Released), ..upstream(UPSTREAM_PREVIOUS) }, &["cut off"]),
            // Cut off on the way to the newer one.
            (without(upstream(UPSTREAM_HEAD), "cluster", "trust_id"), &["lacks cluster.trust_id"]),
            (without(upstream(UPSTREAM_HEAD), DRIVER.0, DRIVER.1), &["lacks cluster_template.driver"]),
            // `stamp head` on an empty database.
            (Found { columns: BTreeMap::new(), ..upstream(UPSTREAM_HEAD) }, &["lacks cluster, cluster_template, federation"]),
        ];
        for (found, words) in cases {
            let reason = judge(&found).expect_err(words[0]);
            assert!(words.iter().all(|word| reason.contains(word)), "{reason}");
        }
    }
}
