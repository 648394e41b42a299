//! Trusts, with Keystone's rules: only the trustor, or a token that acts as the trustor, makes and deletes them; no role is
//! handed on that is not held; a trust is handed on only as often as it allows, and what was made from it ends with it; of those that end
//! there is one for each end between the same two. (Keystone does not even take one like a removed one. This one forgets what was removed.)
//!
//! Keystone also lets an administrator delete any trust. This one does not, so that our clients never come to need it.

use serde_json::{Value, json};

use crate::{
    clock::{self, Moment},
    http::{Answer, Call, Outcome, Refusal},
    keystone::{Store, Trust, auth::optional_time, denied, missing, no_links},
    state::{World, hex_id},
    token::Token,
};

/// How often a trust may be handed on at most, and is where nobody says otherwise (`[trust] max_redelegation_count`).
const MOST_REDELEGATIONS: u64 = 3;

/// What is asked for.
pub(crate) struct NewTrust {
    pub(crate) trustor: String,
    pub(crate) trustee: String,
    pub(crate) project: Option<String>,
    pub(crate) impersonation: bool,
    /// Role ids.
    pub(crate) roles: Vec<String>,
    pub(crate) expires_at: Option<Moment>,
    pub(crate) allow_redelegation: bool,
    pub(crate) redelegation_count: Option<u64>,
}

pub(crate) fn create(world: &mut World, call: &Call) -> Outcome {
    let body = call.json()?;
    let given = &body["trust"];
    let text = |key: &str| given[key].as_str().map(str::to_owned);
    let required = |key: &str| text(key).ok_or_else(|| Refusal::bad_request(format!("'{key}' is a required property")));
    let wanted = NewTrust {
        trustor: required("trustor_user_id")?,
        trustee: required("trustee_user_id")?,
        project: text("project_id"),
        impersonation: given["impersonation"].as_bool().ok_or_else(|| Refusal::bad_request("'impersonation' is a required property"))?,
        roles: world.keystone.named_roles(&given["roles"])?,
        expires_at: optional_time(&given["expires_at"])?,
        allow_redelegation: given["allow_redelegation"].as_bool().unwrap_or(false),
        redelegation_count: given["redelegation_count"].as_u64(),
    };
    let trust = world.keystone.make_trust(call.token()?, wanted, call.now)?;
    Answer::with(201, json!({"trust": world.keystone.trust_view(&trust)}))
}

pub(crate) fn list(world: &mut World, call: &Call) -> Outcome {
    let token = call.token()?;
    world.keystone.check_delegation(token)?;
    let (trustor, trustee) = (call.query("trustor_user_id"), call.query("trustee_user_id"));
    let is_own = |asked: Option<&str>| asked == Some(token.user.as_str());
    if !(is_own(trustor) || is_own(trustee) || token.has_role("admin")) {
        return Err(denied("identity:list_trusts"));
    }
    let store = &world.keystone;
    let trusts: Vec<Value> = store
        .trusts
        .values()
        .filter(|trust| trustor.is_none_or(|user| user == trust.trustor) && trustee.is_none_or(|user| user == trust.trustee))
        .map(listed)
        .collect();
    Answer::ok(json!({"trusts": trusts, "links": no_links()}))
}

pub(crate) fn show(world: &mut World, call: &Call) -> Outcome {
    let id = call.at(3);
    let token = call.token()?;
    world.keystone.check_delegation(token)?;
    let trust = world.keystone.live_trust(id, call.now).ok_or_else(|| missing("trust", id))?;
    if token.user != trust.trustor && token.user != trust.trustee && !token.has_role("admin") {
        return Err(denied("identity:get_trust"));
    }
    Answer::ok(json!({"trust": world.keystone.trust_view(trust)}))
}

pub(crate) fn delete(world: &mut World, call: &Call) -> Outcome {
    let id = call.at(3);
    world.keystone.check_delegation(call.token()?)?;
    let trust = world.keystone.trusts.get(id).ok_or_else(|| missing("trust", id))?;
    if call.token()?.user != trust.trustor {
        return Err(denied("identity:delete_trust"));
    }
    world.keystone.delete_trust(id);
    Answer::empty(204)
}

impl Store {
    /// A trust that exists and has not expired.
    pub(crate) fn live_trust(&self, id: &str, now: Moment) -> Option<&Trust> {
        self.trusts.get(id).filter(|trust| trust.expires_at.is_none_or(|end| end > now))
    }

    /// Who came by a delegation that is no trust has nothing to do with trusts, since Keystone 27.1.
    fn check_delegation(&self, token: &Token) -> Result<(), Refusal> {
        match token.application_credential.is_some() && !self.trusts_by_credential {
            true => Err(denied("Delegated tokens cannot manage trusts.")),
            false => Ok(()),
        }
    }

    /// Makes a trust for whoever holds this token, by the rules.
    pub(crate) fn make_trust(&mut self, token: &Token, wanted: NewTrust, now: Moment) -> Result<Trust, Refusal> {
        if token.user != wanted.trustor {
            return Err(denied("identity:create_trust"));
        }
        self.check_delegation(token)?;
        if token.application_credential.as_ref().is_some_and(|known| known.restricted) {
            let message = "Using method 'application_credential' is not allowed for managing trusts.";
            return Err(Refusal::forbidden(message));
        }
        if !self.users.contains_key(&wanted.trustee) {
            return Err(missing("user", &wanted.trustee));
        }
        if let Some(project) = &wanted.project {
            if !self.projects.contains_key(project) {
                return Err(missing("project", project));
            }
            if wanted.roles.is_empty() {
                return Err(Refusal::forbidden("At least one role should be specified."));
            }
            let held = self.roles_of(&wanted.trustor, project);
            if let Some(role) = wanted.roles.iter().find(|role| !held.contains(role)) {
                return Err(missing("role", role));
            }
        }
        let parent = match token.trust_id() {
            Some(id) => Some(self.live_trust(id, now).ok_or_else(|| missing("trust", id))?),
            None => None,
        };
        let asked = wanted.redelegation_count;
        let may_be_handed_on = wanted.allow_redelegation && asked != Some(0);
        if let Some(count) = asked.filter(|count| may_be_handed_on && *count > MOST_REDELEGATIONS) {
            let message = format!("Requested redelegation depth of {count} is greater than allowed {MOST_REDELEGATIONS}.");
            return Err(Refusal::forbidden(message));
        }
        let most = match parent {
            Some(parent) => {
                for ancestor in self.pedigree(parent) {
                    check_handing_on(self, ancestor, &wanted)?;
                }
                let left = parent.redelegation_count - 1;
                if may_be_handed_on && asked.is_some_and(|asked| asked != left) {
                    let message = "Modifying \"redelegation_count\" upon redelegation is forbidden. Omitting this parameter is advised.";
                    return Err(Refusal::forbidden(message));
                }
                left
            }
            None => asked.unwrap_or(MOST_REDELEGATIONS),
        };
        let count = if may_be_handed_on { most } else { 0 };
        let expires_at = wanted.expires_at.or(parent.and_then(|parent| parent.expires_at));
        let is_between =
            |trust: &Trust| trust.trustor == wanted.trustor && trust.trustee == wanted.trustee && trust.project == wanted.project;
        let is_same = |trust: &Trust| is_between(trust) && trust.impersonation == wanted.impersonation && trust.expires_at == expires_at;
        if expires_at.is_some() && self.trusts.values().any(is_same) {
            return Err(Refusal::new(409, "Conflict", "Conflict occurred attempting to store trust - Duplicate entry."));
        }
        let trust = Trust {
            id: hex_id(),
            trustor: wanted.trustor,
            trustee: wanted.trustee,
            project: wanted.project,
            impersonation: wanted.impersonation,
            roles: wanted.roles,
            expires_at,
            redelegation_count: count,
            redelegated_from: parent.map(|parent| parent.id.clone()),
        };
        self.trusts.insert(trust.id.clone(), trust.clone());
        Ok(trust)
    }

    /// A trust and those that it was handed on from, the nearest first.
    fn pedigree<'a>(&'a self, trust: &'a Trust) -> impl Iterator<Item = &'a Trust> {
        std::iter::successors(Some(trust), move |trust| trust.redelegated_from.as_deref().and_then(|id| self.trusts.get(id)))
    }

    fn named_roles(&self, given: &Value) -> Result<Vec<String>, Refusal> {
        let mut roles = Vec::new();
        for named in given.as_array().into_iter().flatten() {
            let asked = named["id"].as_str().or(named["name"].as_str()).unwrap_or_default();
            let role = self
                .roles
                .values()
                .find(|role| Some(role.id.as_str()) == named["id"].as_str() || Some(role.name.as_str()) == named["name"].as_str());
            roles.push(role.ok_or_else(|| missing("role", asked))?.id.clone());
        }
        Ok(roles)
    }

    fn trust_view(&self, trust: &Trust) -> Value {
        let roles: Vec<Value> = trust
            .roles
            .iter()
            .filter_map(|id| self.roles.get(id))
            .map(|role| json!({"id": role.id, "name": role.name, "links": {}}))
            .collect();
        let mut view = listed(trust);
        view["roles"] = json!(roles);
        view["roles_links"] = json!({});
        view
    }
}

/// As a list shows it: without roles.
fn listed(trust: &Trust) -> Value {
    json!({
        "id": trust.id,
        "trustor_user_id": trust.trustor,
        "trustee_user_id": trust.trustee,
        "project_id": trust.project,
        "impersonation": trust.impersonation,
        "expires_at": trust.expires_at.map(clock::precise),
        "deleted_at": null,
        "remaining_uses": null,
        "redelegation_count": trust.redelegation_count,
        "redelegated_trust_id": trust.redelegated_from,
        "links": {},
    })
}

fn check_handing_on(store: &Store, parent: &Trust, wanted: &NewTrust) -> Result<(), Refusal> {
    if parent.redelegation_count == 0 {
        return Err(Refusal::forbidden(format!("Remaining redelegation depth of 0 out of allowed range of [0..{MOST_REDELEGATIONS}].")));
    }
    if wanted.impersonation && !parent.impersonation {
        return Err(Refusal::forbidden("Impersonation is not allowed because redelegated trust does not specify impersonation."));
    }
    let mut delegated = parent.roles.clone();
    store.add_implied(&mut delegated);
    if !wanted.roles.iter().all(|role| delegated.contains(role)) {
        return Err(Refusal::forbidden("Some of requested roles are not in redelegated trust."));
    }
    if let (Some(asked), Some(end)) = (wanted.expires_at, parent.expires_at)
        && asked > end
    {
        return Err(Refusal::forbidden("Requested expiration time is more than redelegated trust can provide."));
    }
    Ok(())
}
