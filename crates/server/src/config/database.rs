//! `[database]`: where the truth is kept. Reads the URLs of SQLAlchemy.

use secrecy::SecretString;

use super::options::section;
use super::transport::{decode, host_and_port};
use super::value::Value;

section! {
    /// The database and how many connections to hold.
    Database {
        /// `mysql+pymysql://user:password@host:port/database[?charset=utf8&ssl_ca=/path]`, or `sqlite:////absolute/path`.
        /// A driver suffix such as `+pymysql` is accepted and has no meaning here.
        connection: Option<DatabaseUrl>,
        /// More parameters of the connection's URL: `ssl_ca=/path&charset=utf8`.
        connection_parameters: MysqlParameters = "",
        /// Connections kept open by a process.
        max_pool_size: u32 = "5",
        /// Connections that may be opened beyond max_pool_size while there is need; -1 for any number.
        max_overflow: i32 = "50",
        /// Seconds to wait for a free connection.
        pool_timeout: u64 = "30",
        /// Seconds after which an idle connection is replaced; -1 never.
        connection_recycle_time: i64 = "3600",
        /// Attempts to reach the database at start; -1 means for ever.
        max_retries: i32 = "10",
        /// Seconds between these attempts.
        retry_interval: u64 = "10",
    }
}

/// A database address.
#[derive(Debug, Clone)]
pub enum DatabaseUrl {
    /// MariaDB or MySQL.
    Mysql(MysqlUrl),
    /// A file of SQLite, or `:memory:`.
    Sqlite { path: String },
}

/// The parts of a MariaDB address.
#[derive(Debug, Clone)]
pub struct MysqlUrl {
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: SecretString,
    pub database: String,
    pub parameters: MysqlParameters,
}

/// What follows the `?` of a MariaDB address, as far as it means something here.
#[derive(Debug, Clone, Default)]
pub struct MysqlParameters {
    pub charset: Option<String>,
    /// Given: TLS, and the server's certificate must descend from this file's.
    pub ssl_ca: Option<String>,
    /// The certificate that we show, and its key.
    pub ssl_cert: Option<String>,
    pub ssl_key: Option<String>,
    /// Whether the server's certificate must bear the server's name. It must in any case; who says otherwise is told so.
    pub ssl_check_hostname: Option<bool>,
    /// Others of Python's drivers that ask for TLS and do not say whom to believe.
    pub ssl_others: Vec<String>,
}

impl Value for MysqlParameters {
    fn parse(text: &str) -> Result<Self, String> {
        let mut read = Self::default();
        for (key, value) in url::form_urlencoded::parse(text.as_bytes()) {
            let place = match &*key {
                "charset" => &mut read.charset,
                "ssl_ca" => &mut read.ssl_ca,
                "ssl_cert" => &mut read.ssl_cert,
                "ssl_key" => &mut read.ssl_key,
                "ssl_check_hostname" => {
                    let told = bool::parse(&value).map_err(|rule| format!("a URL whose parameter ssl_check_hostname is {rule}"))?;
                    read.ssl_check_hostname = Some(told);
                    continue;
                }
                other => {
                    read.ssl_others.extend(asks_for_tls(other, &value).then(|| other.to_owned()));
                    continue;
                }
            };
            *place = Some(value.into_owned()).filter(|value| !value.is_empty());
        }
        Ok(read)
    }
}

impl MysqlParameters {
    /// These, and of `others` what these do not say.
    fn or(self, others: Self) -> Self {
        Self {
            charset: self.charset.or(others.charset),
            ssl_ca: self.ssl_ca.or(others.ssl_ca),
            ssl_cert: self.ssl_cert.or(others.ssl_cert),
            ssl_key: self.ssl_key.or(others.ssl_key),
            ssl_check_hostname: self.ssl_check_hostname.or(others.ssl_check_hostname),
            ssl_others: [self.ssl_others, others.ssl_others].concat(),
        }
    }
}

impl DatabaseUrl {
    /// Adds parameters, which count above those that it has.
    pub(super) fn with(self, more: &MysqlParameters) -> Self {
        match self {
            Self::Mysql(url) => Self::Mysql(MysqlUrl { parameters: more.clone().or(url.parameters), ..url }),
            sqlite @ Self::Sqlite { .. } => sqlite,
        }
    }
}

impl Value for DatabaseUrl {
    const SECRET: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or("a URL of the form mysql+pymysql://user:password@host:port/database")?;
        let dialect = scheme.split('+').next().unwrap_or(scheme);
        match dialect {
            "mysql" | "mariadb" => mysql(rest).map(Self::Mysql),
            "sqlite" => sqlite(rest),
            _ => Err("a mysql or sqlite URL: no other database is supported".to_owned()),
        }
    }
}

fn sqlite(rest: &str) -> Result<DatabaseUrl, String> {
    let rest = rest.split('?').next().unwrap_or_default();
    let path = match rest.strip_prefix('/') {
        Some(path) => path,
        None if rest.is_empty() => "",
        None => return Err("sqlite:///relative/path or sqlite:////absolute/path".to_owned()),
    };
    Ok(DatabaseUrl::Sqlite { path: if path.is_empty() { ":memory:" } else { path }.to_owned() })
}

fn mysql(rest: &str) -> Result<MysqlUrl, String> {
    // SQLAlchemy takes the text up to the first @ as the login; a password may hold / and ?, a user name neither.
    let (login, rest) = match rest.split_once('@') {
        Some((login, after)) if !login.split(':').next().unwrap_or_default().contains('/') => (login, after),
        _ => ("", rest),
    };
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (address, database) = rest.split_once('/').unwrap_or((rest, ""));
    if address.contains('@') {
        return Err("a URL in whose password @ is written %40".to_owned());
    }
    if database.is_empty() {
        return Err("a URL that names the database: mysql+pymysql://user:password@host:port/database".to_owned());
    }
    let (host, port) = host_and_port(address)?;
    Ok(MysqlUrl {
        host: if host.is_empty() { "localhost".to_owned() } else { host },
        port: port.unwrap_or(3306),
        user: decode(user)?,
        password: decode(password)?.into(),
        database: decode(database)?,
        parameters: MysqlParameters::parse(query)?,
    })
}

/// Whether a parameter, of those that PyMySQL and mysqlclient know beside ours, wants the connection to be encrypted.
fn asks_for_tls(key: &str, value: &str) -> bool {
    let is_true = bool::parse(value).unwrap_or(true);
    match key {
        "ssl_disabled" => false,
        "ssl_mode" => !matches!(value.to_ascii_uppercase().as_str(), "" | "DISABLED"),
        "ssl" | "ssl_verify_cert" | "ssl_verify_identity" => is_true,
        other => other.starts_with("ssl_") && !value.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn mysql_urls_are_taken_apart() {
        for (text, wanted) in [
            ("mysql://magnum:pw@db/magnum", ("db", 3306, "magnum", "pw", "magnum")),
            ("mysql+pymysql://m:p%40%2F@db:3307/x", ("db", 3307, "m", "p@/", "x")),
            ("mysql+pymysql://m:p/?:#@db/x", ("db", 3306, "m", "p/?:#", "x")),
            ("mariadb+mariadbconnector://m:p@[fd00::1]:3306/x", ("fd00::1", 3306, "m", "p", "x")),
            ("mysql://m@db/x", ("db", 3306, "m", "", "x")),
            ("mysql:///x", ("localhost", 3306, "", "", "x")),
        ] {
            let DatabaseUrl::Mysql(url) = DatabaseUrl::parse(text).expect(text) else {
                panic!("{text} is not MySQL");
            };
            let seen = (&*url.host, url.port, &*url.user, url.password.expose_secret(), &*url.database);
            assert_eq!(seen, wanted, "{text}");
        }
    }

    #[test]
    fn query_parameters_of_mysql_are_read() {
        let parameters = |text: &str| match DatabaseUrl::parse(text).expect(text) {
            DatabaseUrl::Mysql(url) => url.parameters,
            DatabaseUrl::Sqlite { .. } => panic!("{text} is not MySQL"),
        };
        let seen = parameters("mysql+pymysql://m:p@db/x?charset=utf8&ssl_ca=/etc/ca%20x.pem&other=1&ssl_key=");
        assert_eq!((seen.charset.as_deref(), seen.ssl_ca.as_deref()), (Some("utf8"), Some("/etc/ca x.pem")));
        assert_eq!((seen.ssl_key, seen.ssl_check_hostname), (None, None));
        let seen = parameters("mysql://m:p@db/x?ssl_ca=/ca&ssl_cert=/c&ssl_key=/k&ssl_check_hostname=false");
        assert_eq!((seen.ssl_cert.as_deref(), seen.ssl_key.as_deref(), seen.ssl_check_hostname), (Some("/c"), Some("/k"), Some(false)));
        assert!(seen.ssl_others.is_empty());
        let seen = parameters("mysql://m:p@db/x?ssl_ca=/old&ssl_mode=DISABLED&ssl_verify_cert=false&ssl_capath=");
        assert!(seen.ssl_others.is_empty(), "{seen:?}");
        let more =
            MysqlParameters::parse("ssl_ca=/new&ssl_capath=/etc/ssl/certs&ssl_mode=REQUIRED&ssl_verify_identity=true").expect("good");
        let both = more.or(seen);
        assert_eq!(both.ssl_ca.as_deref(), Some("/new"));
        assert_eq!(both.ssl_others, ["ssl_capath", "ssl_mode", "ssl_verify_identity"]);
        let rule = DatabaseUrl::parse("mysql://m:hunter2@db/x?ssl_check_hostname=perhaps").expect_err("no boolean");
        assert!(rule.contains("ssl_check_hostname") && !rule.contains("hunter2"), "{rule}");
    }

    #[test]
    fn sqlite_urls_name_a_file() {
        for (text, wanted) in [
            ("sqlite:///magnum.db", "magnum.db"),
            ("sqlite:////var/lib/magnum.db?timeout=3", "/var/lib/magnum.db"),
            ("sqlite://", ":memory:"),
            ("sqlite:///:memory:", ":memory:"),
        ] {
            let DatabaseUrl::Sqlite { path } = DatabaseUrl::parse(text).expect(text) else {
                panic!("{text} is not SQLite");
            };
            assert_eq!(path, wanted, "{text}");
        }
    }

    #[test]
    fn wrong_urls_are_refused_without_repeating_them() {
        for text in [
            "hunter2",
            "postgresql://m:hunter2@db/x",
            "mysql://m:hunter2@db",
            "mysql://m:a@hunter2@db/x",
            "mysql://m:hunter2@db:port/x",
            "sqlite://hunter2",
        ] {
            let rule = DatabaseUrl::parse(text).expect_err(text);
            assert!(!rule.contains("hunter2"), "{rule}");
        }
    }

    #[test]
    fn the_password_is_not_printed() {
        let url = DatabaseUrl::parse("mysql://m:hunter2@db/x").expect("url");
        assert!(!format!("{url:?}").contains("hunter2"));
    }
}
