//! Secrets at rest: what upstream's columns hold in the clear, sealed under keys that are not in the database.
//!
//! A value says by its form whether it is sealed and by which key, so that both forms are always read, and programs of different configuration
//! work beside each other while values are converted. Table, column and row are bound in: a sealed value is of no use in another place.
//! Which form is written is for the operator to say; clear is what upstream can read, and the default.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use diesel::backend::Backend;
use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::expression::AsExpression;
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types::Text;
use secrecy::{ExposeSecret, SecretBox, SecretString};
use sha2::{Digest, Sha256};

use super::Key;

/// How a sealed value begins; then the key's id, a colon, and base 64. No password or PEM begins so.
pub(crate) const PREFIX: &str = "sealed:v1:";
/// Letters of a key's id.
pub(crate) const ID: usize = 8;
/// Bytes of a key.
const BYTES: usize = 32;

const NOT_HELD: &str = "which the file of [certificates] seal_key_file does not hold: add it there";
const NO_FILE: &str = "and [certificates] seal_key_file is not set: it must name the file that holds this key";

/// A column of upstream's that holds a secret.
///
/// Trust ids are no secret: a trust is of use to its trustee only, who proves himself by the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The password of the cluster's user in the trustee domain.
    TrusteePassword,
    /// The key of a pair: encrypted PKCS#8, whose passphrase has 60 bits.
    PrivateKey,
    /// The passphrase of that key.
    Passphrase,
}

impl Column {
    /// All that there are.
    pub const ALL: [Self; 3] = [Self::TrusteePassword, Self::PrivateKey, Self::Passphrase];

    /// Table and column.
    pub fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::TrusteePassword => ("cluster", "trustee_password"),
            Self::PrivateKey => ("x509keypair", "private_key"),
            Self::Passphrase => ("x509keypair", "private_key_passphrase"),
        }
    }

    /// Most characters that the column takes.
    fn room(self) -> usize {
        match self {
            Self::TrusteePassword => 255,
            Self::PrivateKey | Self::Passphrase => 65_535,
        }
    }

    /// What is bound into a sealed value.
    fn of(self, row: &str) -> Vec<u8> {
        let (table, column) = self.place();
        format!("magnum column v1\0{table}\0{column}\0{row}").into_bytes()
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, column) = self.place();
        write!(f, "{table}.{column}")
    }
}

/// A value as it stands in its column: clear or sealed. Only a [`Vault`] makes one or opens it.
#[derive(Clone, PartialEq, Eq, FromSqlRow, AsExpression)]
#[diesel(sql_type = Text)]
pub struct Stored(String);

impl Stored {
    /// The id of the key that sealed it; none in the clear.
    pub fn key(&self) -> Option<&str> {
        self.0.strip_prefix(PREFIX).map(|rest| rest.split(':').next().unwrap_or_default())
    }

    /// The column's own text.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stored({})", self.key().unwrap_or("clear"))
    }
}

impl<DB: Backend> FromSql<Text, DB> for Stored
where
    String: FromSql<Text, DB>,
{
    fn from_sql(bytes: DB::RawValue<'_>) -> deserialize::Result<Self> {
        String::from_sql(bytes).map(Self)
    }
}

impl<DB: Backend> ToSql<Text, DB> for Stored
where
    str: ToSql<Text, DB>,
{
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, DB>) -> serialize::Result {
        <str as ToSql<Text, DB>>::to_sql(&self.0, out)
    }
}

/// Why a value cannot be sealed or opened. The texts are the operator's: they name option, row and rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// The key is not there.
    #[error("{column} of {row} is sealed by the key {key}, {rule}")]
    NoKey { column: Column, row: String, key: String, rule: &'static str },
    /// The key is there and does not fit.
    #[error(
        "{column} of {row} cannot be opened by the key {key} of [certificates] seal_key_file: the value was changed, or was sealed for another row"
    )]
    Broken { column: Column, row: String, key: String },
    /// A sealed value has no room in its column.
    #[error("{column} of {row} is too long to be sealed: the column takes {} characters, and it would have {length}", .column.room())]
    TooLong { column: Column, row: String, length: usize },
}

/// A file of keys that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// A line is no key.
    #[error("line {line}: a key is 32 bytes in base 64, as `openssl rand -base64 32` prints them")]
    NoKey { line: usize },
    /// A key is there twice.
    #[error("line {line}: the key {key} is there already")]
    Twice { line: usize, key: String },
    /// There is none.
    #[error("it holds no key: put one into a line of its own, as `openssl rand -base64 32` prints it")]
    Empty,
}

/// The keys, and what is written.
#[derive(Default)]
pub struct Vault {
    /// The first seals, all open.
    keys: Vec<(String, Key)>,
    seals: bool,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("keys", &self.ids().collect::<Vec<_>>()).field("seals", &self.seals).finish()
    }
}

impl Vault {
    /// The keys of a file: one a line, in base 64; empty lines and such as begin with `#` count for nothing. The first one seals, if `seals`
    /// says that new values are to be sealed.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn parse(text: &SecretString, seals: bool) -> Result<Self, KeyFileError> {
        let mut keys: Vec<(String, Key)> = Vec::new();
        for (index, line) in text.expose_secret().lines().enumerate() {
            let (line, content) = (index + 1, line.trim());
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let bytes = STANDARD.decode(content).ok().and_then(|bytes| <[u8; BYTES]>::try_from(bytes).ok());
            let key = bytes.ok_or(KeyFileError::NoKey { line })?;
            let id = id(&key);
            if keys.iter().any(|(known, _)| *known == id) {
                return Err(KeyFileError::Twice { line, key: id });
            }
            keys.push((id, Arc::new(SecretBox::new(Box::new(key)))));
        }
        if keys.is_empty() { Err(KeyFileError::Empty) } else { Ok(Self { keys, seals }) }
    }

    /// Ids of the keys, the one that seals first.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|(id, _)| id.as_str())
    }

    /// Whether new values are sealed.
    pub fn seals(&self) -> bool {
        self.seals
    }

    /// A value as it is to be stored in a column of a row, whose uuid is given.
    ///
    /// # Errors
    /// [`VaultError::TooLong`].
    pub fn store(&self, column: Column, row: &str, clear: &SecretString) -> Result<Stored, VaultError> {
        let Some((id, key)) = self.keys.first().filter(|_| self.seals) else {
            return Ok(Stored(clear.expose_secret().to_owned()));
        };
        let text = format!("{PREFIX}{id}:{}", super::close(key, &column.of(row), clear.expose_secret()));
        if text.len() > column.room() {
            return Err(VaultError::TooLong { column, row: row.to_owned(), length: text.len() });
        }
        Ok(Stored(text))
    }

    /// The clear value of a column of a row, whichever form it is stored in.
    ///
    /// # Errors
    /// [`VaultError::NoKey`], [`VaultError::Broken`].
    pub fn open(&self, column: Column, row: &str, stored: &Stored) -> Result<SecretString, VaultError> {
        let Some(rest) = stored.0.strip_prefix(PREFIX) else {
            return Ok(stored.0.clone().into());
        };
        let (id, sealed) = rest.split_once(':').unwrap_or((rest, ""));
        let Some((id, key)) = self.keys.iter().find(|(known, _)| known == id) else {
            let rule = if self.keys.is_empty() { NO_FILE } else { NOT_HELD };
            return Err(VaultError::NoKey { column, row: row.to_owned(), key: id.chars().take(ID).collect(), rule });
        };
        super::open(key, &column.of(row), sealed).ok_or_else(|| VaultError::Broken { column, row: row.to_owned(), key: id.clone() })
    }

    /// Whether a value has the form that is written now.
    pub fn is_current(&self, stored: &Stored) -> bool {
        stored.key() == self.ids().next().filter(|_| self.seals)
    }
}

/// A key's id: enough to tell keys apart, and nothing to guess them by.
fn id(key: &[u8; BYTES]) -> String {
    let mut hash = Sha256::new();
    hash.update(b"magnum column key v1\0");
    hash.update(key);
    hash.finalize().iter().take(ID / 2).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(keys: &[u8], seals: bool) -> Vault {
        let lines: Vec<String> = keys.iter().map(|byte| STANDARD.encode([*byte; BYTES])).collect();
        Vault::parse(&format!("# keys\n\n{}\n", lines.join("\n")).into(), seals).expect("keys")
    }

    #[test]
    fn a_value_opens_in_its_own_place_only() {
        let vault = file(&[1], true);
        let stored = vault.store(Column::TrusteePassword, "row", &"the password".into()).expect("room");
        assert!(stored.text().starts_with(PREFIX) && !stored.text().contains("password"), "{}", stored.text());
        assert_eq!(vault.open(Column::TrusteePassword, "row", &stored).expect("opens").expose_secret(), "the password");
        let key = stored.key().expect("sealed").to_owned();
        for (column, row) in [(Column::TrusteePassword, "other"), (Column::Passphrase, "row")] {
            let wanted = VaultError::Broken { column, row: row.into(), key: key.clone() };
            assert_eq!(vault.open(column, row, &stored).map(|_| ()), Err(wanted));
        }
        assert_eq!(format!("{stored:?}"), format!("Stored({key})"));
    }

    #[test]
    fn what_is_clear_is_read_and_what_is_sealed_never_taken_for_clear() {
        let (none, clear, sealing) = (Vault::default(), file(&[1], false), file(&[1], true));
        let plain = none.store(Column::Passphrase, "row", &"abcdefgh2345".into()).expect("room");
        assert_eq!((plain.text(), plain.key()), ("abcdefgh2345", None));
        for vault in [&none, &clear, &sealing] {
            assert_eq!(vault.open(Column::Passphrase, "row", &plain).expect("clear").expose_secret(), "abcdefgh2345");
        }
        assert!(none.is_current(&plain) && clear.is_current(&plain) && !sealing.is_current(&plain));
        let sealed = sealing.store(Column::Passphrase, "row", &"abcdefgh2345".into()).expect("room");
        assert!(clear.open(Column::Passphrase, "row", &sealed).is_ok() && !clear.is_current(&sealed) && sealing.is_current(&sealed));
        let refused = none.open(Column::Passphrase, "row", &sealed).expect_err("no key").to_string();
        for word in ["x509keypair.private_key_passphrase of row", "[certificates] seal_key_file is not set", sealed.key().expect("sealed")]
        {
            assert!(refused.contains(word), "{refused}");
        }
        let other = file(&[2], true).open(Column::Passphrase, "row", &sealed).expect_err("another key").to_string();
        assert!(other.contains("[certificates] seal_key_file does not hold"), "{other}");
        for broken in ["sealed:v1:", "sealed:v1:00000000", "sealed:v1:00000000:AAAA"] {
            assert!(sealing.open(Column::Passphrase, "row", &Stored(broken.into())).is_err(), "{broken}");
        }
        let cut = Stored(sealed.text()[..sealed.text().len() - 8].to_owned());
        assert!(matches!(sealing.open(Column::Passphrase, "row", &cut), Err(VaultError::Broken { .. })));
    }

    #[test]
    fn the_first_key_seals_and_all_open() {
        let (old, both) = (file(&[1], true), file(&[2, 1], true));
        let stored = old.store(Column::PrivateKey, "row", &"key".into()).expect("room");
        assert_eq!(both.open(Column::PrivateKey, "row", &stored).expect("opens").expose_secret(), "key");
        assert!(!both.is_current(&stored), "sealed by the second key");
        let again = both.store(Column::PrivateKey, "row", &"key".into()).expect("room");
        assert!(both.is_current(&again) && again.key() == file(&[2], true).ids().next());
        assert!(old.open(Column::PrivateKey, "row", &again).is_err());
    }

    #[test]
    fn a_value_that_has_no_room_is_refused() {
        let vault = file(&[1], true);
        assert!(vault.store(Column::TrusteePassword, "row", &"p".repeat(149).into()).is_ok());
        let refused = vault.store(Column::TrusteePassword, "row", &"p".repeat(150).into()).expect_err("too long");
        assert_eq!(
            refused.to_string(),
            "cluster.trustee_password of row is too long to be sealed: the column takes 255 characters, and it would have 259"
        );
        assert!(file(&[1], false).store(Column::TrusteePassword, "row", &"p".repeat(255).into()).is_ok());
    }

    #[test]
    fn a_file_that_is_none_is_refused_with_its_line_and_without_its_content() {
        let good = STANDARD.encode([7; BYTES]);
        let twice = format!("{good}\n{good}");
        for (text, wanted) in [
            ("", KeyFileError::Empty),
            ("# only words\n", KeyFileError::Empty),
            ("\nsecretword\n", KeyFileError::NoKey { line: 2 }),
            ("c2hvcnQ=\n", KeyFileError::NoKey { line: 1 }),
            (twice.as_str(), KeyFileError::Twice { line: 2, key: file(&[7], true).ids().next().expect("a key").to_owned() }),
        ] {
            let error = Vault::parse(&text.to_owned().into(), true).expect_err(text);
            assert_eq!(error, wanted);
            assert!(!error.to_string().contains("secretword") && !error.to_string().contains(&good));
        }
        let text = format!("{:?}", file(&[7], true));
        assert!(!text.contains(&good) && !text.contains("[7"), "{text}");
    }
}
