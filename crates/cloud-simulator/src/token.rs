//! A Keystone token: what it stands for and how it is shown.
//!
//! Roles are fixed when the token is made, as Keystone shows them; a lost role takes effect with the next token.

use serde_json::{Map, Value, json};

use crate::{
    catalog,
    clock::{self, Moment},
    keystone::Store,
};

/// What a token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Unscoped,
    Project(String),
    Domain(String),
    System,
    Trust { trust: String, project: String },
}

/// An application credential, as a token tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HadBy {
    pub(crate) id: String,
    /// It cannot be used to make trusts.
    pub(crate) restricted: bool,
}

/// A token that was issued.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) id: String,
    /// Whom the holder acts as: the trustor when a trust impersonates.
    pub(crate) user: String,
    pub(crate) scope: Scope,
    /// Role ids, the implied ones included.
    pub(crate) roles: Vec<String>,
    /// Role names, in the same order.
    pub(crate) role_names: Vec<String>,
    pub(crate) methods: Vec<String>,
    pub(crate) audit_ids: Vec<String>,
    /// The application credential that it was had by.
    pub(crate) application_credential: Option<HadBy>,
    pub(crate) issued_at: Moment,
    pub(crate) expires_at: Moment,
}

impl Token {
    pub(crate) fn is_valid(&self, now: Moment) -> bool {
        self.expires_at > now
    }

    pub(crate) fn has_role(&self, name: &str) -> bool {
        self.role_names.iter().any(|role| role == name)
    }

    pub(crate) fn project_id(&self) -> Option<&str> {
        match &self.scope {
            Scope::Project(project) | Scope::Trust { project, .. } => Some(project),
            Scope::Unscoped | Scope::Domain(_) | Scope::System => None,
        }
    }

    pub(crate) fn domain_id(&self) -> Option<&str> {
        match &self.scope {
            Scope::Domain(domain) => Some(domain),
            _ => None,
        }
    }

    pub(crate) fn trust_id(&self) -> Option<&str> {
        match &self.scope {
            Scope::Trust { trust, .. } => Some(trust),
            _ => None,
        }
    }

    /// The body that Keystone answers with when it issues or validates the token.
    pub(crate) fn view(&self, store: &Store, with_catalog: Option<(&str, Option<&str>)>) -> Value {
        let mut view = Map::new();
        view.insert("methods".to_owned(), json!(self.methods));
        view.insert("user".to_owned(), store.user_view_in_token(&self.user));
        view.insert("audit_ids".to_owned(), json!(self.audit_ids));
        view.insert("expires_at".to_owned(), json!(clock::precise(self.expires_at)));
        view.insert("issued_at".to_owned(), json!(clock::precise(self.issued_at)));
        if let Some(project) = self.project_id() {
            view.insert("project".to_owned(), store.project_view_in_token(project));
            view.insert("is_domain".to_owned(), json!(false));
            if let Some(of_admins) = &store.admin_project {
                view.insert("is_admin_project".to_owned(), json!(project == of_admins.as_str()));
            }
        }
        if let Some(domain) = self.domain_id() {
            view.insert("domain".to_owned(), store.domain_view_in_token(domain));
        }
        if self.scope == Scope::System {
            view.insert("system".to_owned(), json!({"all": true}));
        }
        if self.scope != Scope::Unscoped {
            let roles: Vec<Value> = self.roles.iter().zip(&self.role_names).map(|(id, name)| json!({"id": id, "name": name})).collect();
            view.insert("roles".to_owned(), json!(roles));
            if let Some((base, container_infra)) = with_catalog {
                view.insert("catalog".to_owned(), catalog::catalog(base, container_infra, self.project_id(), &store.withdrawn));
            }
        }
        if let Some(HadBy { id, restricted }) = &self.application_credential {
            view.insert("application_credential".to_owned(), json!({"id": id, "restricted": restricted}));
        }
        if let Some(trust) = self.trust_id().and_then(|id| store.trusts.get(id)) {
            view.insert(
                "OS-TRUST:trust".to_owned(),
                json!({
                    "id": trust.id,
                    "impersonation": trust.impersonation,
                    "trustor_user": {"id": trust.trustor},
                    "trustee_user": {"id": trust.trustee},
                }),
            );
        }
        json!({"token": view})
    }
}
