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
        /// Connections kept open by a process.
        max_pool_size: u32 = "5",
        /// Connections that may be opened beyond max_pool_size while there is need.
        max_overflow: u32 = "50",
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
    pub charset: Option<String>,
    /// Given: TLS, and the server's certificate must descend from this file's.
    pub ssl_ca: Option<String>,
    /// The certificate that we show, and its key.
    pub ssl_cert: Option<String>,
    pub ssl_key: Option<String>,
    /// Whether the server's certificate must bear the server's name. It must in any case; who says otherwise is told so.
    pub ssl_check_hostname: bool,
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
    let mut url = MysqlUrl {
        host: if host.is_empty() { "localhost".to_owned() } else { host },
        port: port.unwrap_or(3306),
        user: decode(user)?,
        password: decode(password)?.into(),
        database: decode(database)?,
        charset: None,
        ssl_ca: None,
        ssl_cert: None,
        ssl_key: None,
        ssl_check_hostname: true,
    };
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let place = match &*key {
            "charset" => &mut url.charset,
            "ssl_ca" => &mut url.ssl_ca,
            "ssl_cert" => &mut url.ssl_cert,
            "ssl_key" => &mut url.ssl_key,
            "ssl_check_hostname" => {
                url.ssl_check_hostname =
                    bool::parse(&value).map_err(|rule| format!("a URL whose parameter ssl_check_hostname is {rule}"))?;
                continue;
            }
            _ => continue,
        };
        *place = Some(value.into_owned()).filter(|value| !value.is_empty());
    }
    Ok(url)
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
        let text = "mysql+pymysql://m:p@db/x?charset=utf8&ssl_ca=/etc/ca%20x.pem&other=1&ssl_key=";
        let DatabaseUrl::Mysql(url) = DatabaseUrl::parse(text).expect(text) else {
            panic!("{text} is not MySQL");
        };
        assert_eq!(url.charset.as_deref(), Some("utf8"));
        assert_eq!(url.ssl_ca.as_deref(), Some("/etc/ca x.pem"));
        assert_eq!((url.ssl_key, url.ssl_check_hostname), (None, true));
        let text = "mysql://m:p@db/x?ssl_ca=/ca&ssl_cert=/c&ssl_key=/k&ssl_check_hostname=false";
        let DatabaseUrl::Mysql(url) = DatabaseUrl::parse(text).expect(text) else { panic!("{text} is not MySQL") };
        assert_eq!((url.ssl_cert.as_deref(), url.ssl_key.as_deref(), url.ssl_check_hostname), (Some("/c"), Some("/k"), false));
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
