//! Who we are towards Keystone, and the body that says so.

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};

/// What a session proves itself with. `Debug` shows no secret.
#[derive(Clone, Debug)]
pub enum Credential {
    /// Logs in, and again when the token ends.
    Password { user: UserRef, password: SecretString, scope: Scope },
    /// A token somebody else got, used as it is and never renewed.
    Token(SecretString),
    /// Logs in with an application credential, whose token is for its project, and again when the token ends.
    Application { id: String, secret: SecretString },
}

/// A user: an id, or a name with its domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserRef {
    pub id: Option<String>,
    pub name: Option<String>,
    pub domain_id: Option<String>,
    pub domain_name: Option<String>,
}

/// What a token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Unscoped,
    Project { id: Option<String>, name: Option<String>, domain_id: Option<String>, domain_name: Option<String> },
    Domain { id: Option<String>, name: Option<String> },
    Trust { id: String },
}

/// The body of a login with a password.
pub(crate) fn login(user: &UserRef, password: &SecretString, scope: &Scope) -> Value {
    let mut who = named(&user.id, &user.name, &user.domain_id, &user.domain_name);
    who.insert("password".into(), password.expose_secret().into());
    let scope = match scope {
        Scope::Unscoped => json!("unscoped"),
        Scope::Project { id, name, domain_id, domain_name } => json!({"project": named(id, name, domain_id, domain_name)}),
        Scope::Domain { id, name } => json!({"domain": named(id, name, &None, &None)}),
        Scope::Trust { id } => json!({"OS-TRUST:trust": {"id": id}}),
    };
    json!({"auth": {"identity": {"methods": ["password"], "password": {"user": who}}, "scope": scope}})
}

/// The body of a login with an application credential.
pub(crate) fn login_as_application(id: &str, secret: &SecretString) -> Value {
    let credential = json!({"id": id, "secret": secret.expose_secret()});
    json!({"auth": {"identity": {"methods": ["application_credential"], "application_credential": credential}}})
}

/// `{id}` when there is an id, else `{name, domain}`.
fn named(id: &Option<String>, name: &Option<String>, domain_id: &Option<String>, domain_name: &Option<String>) -> Map<String, Value> {
    let mut map = Map::new();
    if let Some(id) = id {
        map.insert("id".into(), id.as_str().into());
        return map;
    }
    if let Some(name) = name {
        map.insert("name".into(), name.as_str().into());
    }
    match (domain_id, domain_name) {
        (Some(id), _) => map.insert("domain".into(), json!({"id": id})),
        (None, Some(name)) => map.insert("domain".into(), json!({"name": name})),
        (None, None) => None,
    };
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> UserRef {
        UserRef { name: Some("magnum".into()), domain_name: Some("Default".into()), ..UserRef::default() }
    }

    #[test]
    fn a_login_says_user_and_scope() {
        let project = Scope::Project { id: None, name: Some("service".into()), domain_id: Some("default".into()), domain_name: None };
        let body = login(&user(), &"pw".into(), &project);
        assert_eq!(
            body["auth"]["identity"]["password"]["user"],
            json!({"name": "magnum", "domain": {"name": "Default"}, "password": "pw"})
        );
        assert_eq!(body["auth"]["scope"], json!({"project": {"name": "service", "domain": {"id": "default"}}}));
        let by_id = UserRef { id: Some("u".into()), ..user() };
        let body = login(&by_id, &"pw".into(), &Scope::Trust { id: "t".into() });
        assert_eq!(body["auth"]["identity"]["password"]["user"], json!({"id": "u", "password": "pw"}));
        assert_eq!(body["auth"]["scope"], json!({"OS-TRUST:trust": {"id": "t"}}));
        assert_eq!(login(&user(), &"pw".into(), &Scope::Unscoped)["auth"]["scope"], json!("unscoped"));
    }

    #[test]
    fn a_credential_does_not_print_its_secret() {
        let login = Credential::Password { user: user(), password: "hunter2".into(), scope: Scope::Unscoped };
        assert!(!format!("{login:?} {:?}", Credential::Token("gAAAA-token".into())).contains("hunter2"));
        assert!(!format!("{:?}", Credential::Application { id: "i".into(), secret: "hunter2".into() }).contains("hunter2"));
        assert!(!format!("{:?}", Credential::Token("gAAAA-token".into())).contains("gAAAA"));
    }
}
