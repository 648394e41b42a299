//! Whether a rule holds for a caller and a target.

use super::check::Check;
use super::rules::Rules;
use super::target::{NONE, Target, boolean};
use crate::identity::Caller;

/// One question to the rules.
pub struct Question<'a> {
    pub rules: &'a Rules,
    pub caller: &'a Caller,
    pub target: &'a Target<'a>,
}

impl Question<'_> {
    /// Whether the rule of this name holds. One that nobody defined does not.
    pub fn holds(&self, rule: &str) -> bool {
        // Rules that lead to each other without end, or very far, are refused when they are loaded.
        self.rules.find(rule).is_some_and(|check| self.eval(check))
    }

    fn eval(&self, check: &Check) -> bool {
        let attribute = |name: &str| self.target.get(name);
        match check {
            Check::Always => true,
            Check::Never => false,
            Check::Not(inner) => !self.eval(inner),
            Check::All(checks) => checks.iter().all(|c| self.eval(c)),
            Check::Any(checks) => checks.iter().any(|c| self.eval(c)),
            Check::Rule(name) => self.holds(name),
            Check::Role(role) => role.expand(attribute).is_some_and(|role| {
                let role = role.to_lowercase();
                self.caller.roles.iter().any(|held| held.to_lowercase() == role)
            }),
            Check::Attribute { path, value } => value.expand(attribute).is_some_and(|wanted| held(self.caller, path).is(&wanted)),
            Check::Constant { constant, value } => value.expand(attribute).is_some_and(|wanted| constant.text == wanted),
        }
    }
}

/// What a caller's attribute holds.
enum Held<'a> {
    Nothing,
    One(&'a str),
    /// A list: a rule means any of it.
    Each(&'a [String]),
}

impl Held<'_> {
    fn is(&self, wanted: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::One(text) => *text == wanted,
            Self::Each(texts) => texts.iter().any(|text| text == wanted),
        }
    }
}

type Read = fn(&Caller) -> Held<'_>;

/// What a rule can ask of the caller, by upstream's names.
#[rustfmt::skip]
const ATTRIBUTES: &[(&str, Read)] = &[
    ("user_id", |c| text(&c.user_id.0)),
    ("project_id", |c| maybe(c.project_id.as_ref().map(|p| p.0.as_str()))),
    ("is_admin", |c| Held::One(boolean(c.is_admin))),
    // Upstream's own rule about trustees asks for `domain_id`, by which it means the user's.
    ("domain_id", |c| maybe(c.user_domain_id.as_deref())),
    ("roles", |c| Held::Each(&c.roles)),
    ("user", |c| text(&c.user_id.0)),
    ("user_name", |c| text(&c.user_name)),
    ("user_domain_id", |c| maybe(c.user_domain_id.as_deref())),
    ("user_domain_name", |c| text(&c.info.user_domain_name)),
    ("user_domain", |c| maybe(c.user_domain_id.as_deref())),
    ("project", |c| maybe(c.project_id.as_ref().map(|p| p.0.as_str()))),
    ("tenant", |c| maybe(c.project_id.as_ref().map(|p| p.0.as_str()))),
    ("tenant_id", |c| maybe(c.project_id.as_ref().map(|p| p.0.as_str()))),
    ("project_name", |c| maybe(c.project_name.as_deref())),
    ("project_domain", |c| maybe(c.info.project_domain_id.as_deref())),
    ("project_domain_id", |c| maybe(c.info.project_domain_id.as_deref())),
    ("project_domain_name", |c| maybe(c.info.project_domain_name.as_deref())),
    ("domain", |c| maybe(c.info.domain_id.as_deref())),
    ("system_scope", |c| maybe(c.info.system_scope.then_some("all"))),
    ("trust_id", |c| maybe(c.info.trust_id.as_deref())),
    ("is_admin_project", |c| Held::One(boolean(c.info.is_admin_project))),
    ("read_only", |_| Held::One("False")),
    ("show_deleted", |_| Held::One("False")),
    ("all_tenants", |_| Held::One("False")),
    // Paths into what Keystone said of the token: what it did not say is not there.
    ("auth_token_info.token.user.id", |c| text(&c.info.user_id)),
    ("auth_token_info.token.user.name", |c| text(&c.info.user_name)),
    ("auth_token_info.token.user.domain.id", |c| text(&c.info.user_domain_id)),
    ("auth_token_info.token.user.domain.name", |c| text(&c.info.user_domain_name)),
    ("auth_token_info.token.project.id", |c| said(c.info.project_id.as_deref())),
    ("auth_token_info.token.project.name", |c| said(c.info.project_name.as_deref())),
    ("auth_token_info.token.project.domain.id", |c| said(c.info.project_domain_id.as_deref())),
    ("auth_token_info.token.project.domain.name", |c| said(c.info.project_domain_name.as_deref())),
    ("auth_token_info.token.domain.id", |c| said(c.info.domain_id.as_deref())),
    ("auth_token_info.token.domain.name", |c| said(c.info.domain_name.as_deref())),
    ("auth_token_info.token.application_credential.id", |c| said(c.info.application_credential_id.as_deref())),
    ("auth_token_info.token.roles.name", |c| Held::Each(&c.info.roles)),
    ("auth_token_info.token.methods", |c| Held::Each(&c.info.methods)),
];

fn held<'a>(caller: &'a Caller, path: &str) -> Held<'a> {
    ATTRIBUTES.iter().find(|(name, _)| *name == path).map_or(Held::Nothing, |(_, read)| read(caller))
}

/// Whether callers can have this attribute at all; for warnings about misspelled ones.
pub fn is_known(path: &str) -> bool {
    ATTRIBUTES.iter().any(|(name, _)| *name == path)
}

fn text(value: &str) -> Held<'_> {
    Held::One(if value.is_empty() { NONE } else { value })
}

fn maybe(value: Option<&str>) -> Held<'_> {
    text(value.unwrap_or_default())
}

fn said(value: Option<&str>) -> Held<'_> {
    value.map_or(Held::Nothing, Held::One)
}
