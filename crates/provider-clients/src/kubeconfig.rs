//! What a kubeconfig says of its current context: where the API is, whom to trust, who we are.
//!
//! Tokens and client certificates only, as with upstream's driver: a program to run (`exec`), a password or a connection that is not
//! verified is refused by name and not passed over.

use std::fmt;
use std::io;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use secrecy::SecretString;
use serde::Deserialize;

/// A kubeconfig's current context, with every file it names read in.
#[derive(Clone)]
pub struct Kubeconfig {
    /// `https://host:port`.
    pub server: String,
    /// PEM; none: whom the system trusts.
    pub ca: Option<Vec<u8>>,
    pub identity: Identity,
}

/// Who we are towards the API.
#[derive(Clone)]
pub enum Identity {
    Token(SecretString),
    /// Certificate and key, PEM, one after the other.
    Certificate(SecretString),
}

/// Why a kubeconfig cannot be used; names what is wrong and never its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kubeconfig: {0}")]
pub struct KubeconfigError(pub String);

impl fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let identity = match self.identity {
            Identity::Token(_) => "token",
            Identity::Certificate(_) => "certificate",
        };
        f.debug_struct("Kubeconfig").field("server", &self.server).field("identity", &identity).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct File {
    #[serde(default, rename = "current-context")]
    current: String,
    #[serde(default)]
    contexts: Vec<Context>,
    #[serde(default)]
    clusters: Vec<Cluster>,
    #[serde(default)]
    users: Vec<User>,
}

#[derive(Deserialize)]
struct Context {
    name: String,
    context: ContextBody,
}

#[derive(Deserialize)]
struct ContextBody {
    cluster: String,
    user: String,
}

#[derive(Deserialize)]
struct Cluster {
    name: String,
    cluster: ClusterBody,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct ClusterBody {
    server: String,
    certificate_authority: Option<String>,
    certificate_authority_data: Option<String>,
    insecure_skip_tls_verify: Option<bool>,
    tls_server_name: Option<String>,
    proxy_url: Option<String>,
}

#[derive(Deserialize)]
struct User {
    name: String,
    user: UserBody,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct UserBody {
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<String>,
    client_certificate: Option<String>,
    client_certificate_data: Option<String>,
    client_key: Option<String>,
    client_key_data: Option<String>,
    exec: Option<serde_json::Value>,
    auth_provider: Option<serde_json::Value>,
    username: Option<String>,
}

impl Kubeconfig {
    /// Reads the text of a kubeconfig; `read` gives the content of a file that it names (a relative name is relative to the kubeconfig).
    ///
    /// # Errors
    /// What is missing, malformed or not supported.
    pub fn parse(text: &str, read: &dyn Fn(&str) -> io::Result<Vec<u8>>) -> Result<Self, KubeconfigError> {
        let wrong = |what: String| KubeconfigError(what);
        // The parser's own words would quote the text, and with it a token.
        let file: File = serde_saphyr::from_str(text).map_err(|_| wrong("it is no YAML of a kubeconfig's shape".into()))?;
        let named = |what: &str, name: &str| wrong(format!("it has no {what} named {name:?}"));
        let context = file.contexts.iter().find(|c| c.name == file.current).ok_or_else(|| named("context", &file.current))?;
        let cluster = &context.context.cluster;
        let cluster = &file.clusters.iter().find(|c| c.name == *cluster).ok_or_else(|| named("cluster", cluster))?.cluster;
        let user = &context.context.user;
        let user = &file.users.iter().find(|u| u.name == *user).ok_or_else(|| named("user", user))?.user;
        let whose = |kind: &str, name: &str| format!("of the {kind} {name:?}");
        let (of_cluster, of_user) = (whose("cluster", &context.context.cluster), whose("user", &context.context.user));
        let by_token = format!("{of_user}: give it a token, a tokenFile, or client-certificate and client-key");
        let refused = [
            (cluster.insecure_skip_tls_verify == Some(true), "insecure-skip-tls-verify", &of_cluster),
            (cluster.tls_server_name.is_some(), "tls-server-name", &of_cluster),
            (cluster.proxy_url.is_some(), "proxy-url", &of_cluster),
            (user.exec.is_some(), "exec", &by_token),
            (user.auth_provider.is_some(), "auth-provider", &by_token),
            (user.username.is_some(), "username", &by_token),
        ];
        if let Some((_, key, whose)) = refused.iter().find(|(is_there, ..)| *is_there) {
            return Err(wrong(format!("{key} is not supported ({whose})")));
        }
        if !cluster.server.starts_with("https://") && !cluster.server.starts_with("http://") {
            return Err(wrong("server must be an http or https address".into()));
        }
        let load = |key: &str, data: &Option<String>, path: &Option<String>| -> Result<Option<Vec<u8>>, KubeconfigError> {
            match (data, path) {
                (Some(data), _) => {
                    let plain: String = data.split_whitespace().collect();
                    BASE64_STANDARD.decode(plain).map(Some).map_err(|_| wrong(format!("{key}-data is no base64")))
                }
                (None, Some(path)) => read(path).map(Some).map_err(|error| wrong(format!("{key}: {error}"))),
                (None, None) => Ok(None),
            }
        };
        let ca = load("certificate-authority", &cluster.certificate_authority_data, &cluster.certificate_authority)?;
        let certificate = load("client-certificate", &user.client_certificate_data, &user.client_certificate)?;
        let key = load("client-key", &user.client_key_data, &user.client_key)?;
        let text = |bytes: Vec<u8>, key: &str| String::from_utf8(bytes).map_err(|_| wrong(format!("{key} is no text")));
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => {
                let (certificate, key) = (text(certificate, "client-certificate")?, text(key, "client-key")?);
                Identity::Certificate(format!("{certificate}\n{key}\n").into())
            }
            (Some(_), None) | (None, Some(_)) => return Err(wrong("client-certificate and client-key must be given together".into())),
            (None, None) => match (&user.token, &user.token_file) {
                (Some(token), _) => Identity::Token(token.trim().to_owned().into()),
                (None, Some(path)) => {
                    let token = read(path).map_err(|error| wrong(format!("tokenFile: {error}")))?;
                    Identity::Token(text(token, "tokenFile")?.trim().to_owned().into())
                }
                (None, None) => return Err(wrong("the user has neither a client certificate nor a token".into())),
            },
        };
        Ok(Self { server: cluster.server.trim_end_matches('/').to_owned(), ca, identity })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(cluster: &str, user: &str) -> Result<Kubeconfig, KubeconfigError> {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: other, cluster: {{server: https://x}}}}, {{name: c, cluster: {cluster}}}]\n\
             users: [{{name: u, user: {user}}}]\n"
        );
        Kubeconfig::parse(&text, &|name| match name {
            "ca.pem" => Ok(b"authority".to_vec()),
            "token" => Ok(b"from-file\n".to_vec()),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        })
    }

    #[test]
    fn a_token_or_a_certificate_inline_or_in_a_file_is_read() {
        let config = parse("{server: 'https://h:6443/', certificate-authority: ca.pem}", "{token: hunter22}").expect("good");
        assert_eq!((config.server.as_str(), config.ca.as_deref()), ("https://h:6443", Some(&b"authority"[..])));
        assert!(matches!(config.identity, Identity::Token(_)) && !format!("{config:?}").contains("hunter22"));
        let config = parse("{server: http://h, certificate-authority-data: Y2E=}", "{tokenFile: token}").expect("good");
        assert_eq!(config.ca.as_deref(), Some(&b"ca"[..]));
        let config = parse("{server: http://h}", "{client-certificate-data: Yw==, client-key-data: aw==, token: t}").expect("good");
        assert!(matches!(config.identity, Identity::Certificate(_)));
    }

    #[test]
    fn what_is_wrong_is_named_and_no_secret_is_told() {
        let good = "{server: https://h}";
        for (cluster, user, says) in [
            ("{server: https://h, insecure-skip-tls-verify: true}", "{token: t}", "insecure-skip-tls-verify is not supported"),
            ("{server: https://h, proxy-url: http://p}", "{token: t}", "proxy-url is not supported"),
            (good, "{exec: {command: x}}", "exec is not supported (of the user \"u\": give it a token"),
            (good, "{auth-provider: {name: oidc}, token: hunter22}", "auth-provider is not supported (of the user"),
            (good, "{username: a, password: hunter22}", "username is not supported"),
            (good, "{}", "neither a client certificate nor a token"),
            (good, "{client-key-data: aw==}", "must be given together"),
            (good, "{client-certificate: gone.pem, client-key: gone.pem}", "client-certificate: "),
            ("{server: https://h, certificate-authority-data: '%%%'}", "{token: t}", "certificate-authority-data is no base64"),
            ("{server: h}", "{token: t}", "server must be"),
        ] {
            let error = parse(cluster, user).expect_err(says).to_string();
            assert!(error.contains(says) && !error.contains("hunter22"), "{error}");
        }
        let error = Kubeconfig::parse("token: [hunter22", &|_| Ok(vec![])).expect_err("no YAML").to_string();
        assert!(!error.contains("hunter22"), "{error}");
        assert!(Kubeconfig::parse("current-context: z", &|_| Ok(vec![])).is_err_and(|e| e.0.contains("no context named \"z\"")));
    }
}
