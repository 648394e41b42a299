//! Who calls: the token, asked of Keystone once and believed for a while.
//!
//! The cache is bounded and keyed by the token's hash, so that no token stands in memory longer than its request. Many requests with one
//! token wait for one answer. A token that Keystone does not know is remembered for a few seconds only. Where memcached is configured, processes
//! tell each other ([`shared`]).

pub(crate) mod memcached;
mod shared;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::id::{ProjectId, UserId};
use moka::Expiry;
use moka::future::Cache;
use provider_clients::{Cloud, CloudError, Session, TokenInfo};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use crate::error::ApiError;
use crate::server::Metrics;
use shared::Shared;
pub use shared::TokenSharing;

/// Bytes that tokens take at most, about: some ten thousand of a cloud of ten services.
const MEMORY: u64 = 32 * 1024 * 1024;
/// What remembering one takes beside what Keystone said of it.
const OVERHEAD: usize = 200;
/// How long a refusal is remembered.
const REFUSED: Duration = Duration::from_secs(5);

/// The user behind a request.
pub struct Caller {
    pub user_id: UserId,
    pub user_name: String,
    pub user_domain_id: Option<String>,
    pub project_id: Option<ProjectId>,
    pub project_name: Option<String>,
    pub roles: Vec<String>,
    /// By the policy rule `context_is_admin`.
    pub is_admin: bool,
    pub token: SecretString,
    /// What Keystone said of the token.
    pub info: Arc<TokenInfo>,
}

impl Caller {
    /// Of a validated token; `is_admin` is for the policy to say.
    pub fn new(token: SecretString, info: Arc<TokenInfo>) -> Self {
        Self {
            user_id: UserId(info.user_id.clone()),
            user_name: info.user_name.clone(),
            user_domain_id: Some(info.user_domain_id.clone()).filter(|d| !d.is_empty()),
            project_id: info.project_id.clone().map(ProjectId),
            project_name: info.project_name.clone(),
            roles: info.roles.clone(),
            is_admin: false,
            token,
            info,
        }
    }
}

impl Caller {
    /// Refuses a caller in whose name no trust can be made, as far as his token says it (see `cloud_checks::must_delegate`).
    pub fn must_delegate(&self) -> Result<(), ApiError> {
        if self.info.expires_at <= model::time::now() {
            let text =
                "A cluster acts for its creator by a trust, and Keystone makes none with a token that has expired. Ask with a new one.";
            return Err(ApiError::Forbidden(text.into()));
        }
        if !self.info.may_not_delegate {
            return Ok(());
        }
        let text = "A cluster acts for its creator by a trust, and Keystone makes none with the token of a restricted application credential. \
                    Ask with a password, or with an application credential that was created with --unrestricted.";
        Err(ApiError::Forbidden(text.into()))
    }
}

/// How old a token may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// Not expired.
    Valid,
    /// Expired too, as far as Keystone still knows it.
    Expired,
}

/// Which service tokens count (`[keystone_authtoken]`).
#[derive(Clone, Debug)]
pub struct ServiceTokens {
    /// Roles of which one is enough (`service_token_roles`).
    pub roles: Vec<String>,
    /// Whether a role is needed at all (`service_token_roles_required`).
    pub are_roles_required: bool,
}

impl Default for ServiceTokens {
    fn default() -> Self {
        Self { roles: vec!["service".into()], are_roles_required: true }
    }
}

impl ServiceTokens {
    /// How old the caller's token may be beside a service token of these roles; none: that token is refused. Only a role makes up for
    /// expiry: where none is required, any user's token would otherwise bring anybody's back to life (as keystonemiddleware has it).
    fn allows(&self, roles: &[String]) -> Option<Age> {
        match roles.iter().any(|role| self.roles.contains(role)) {
            true => Some(Age::Expired),
            false => (!self.are_roles_required).then_some(Age::Valid),
        }
    }
}

type Key = [u8; 32];

/// What is remembered of a token: what Keystone said, or that it knows none.
#[derive(Clone)]
struct Known {
    info: Option<Arc<TokenInfo>>,
    until: Duration,
}

struct Lifetime;

impl Expiry<Key, Known> for Lifetime {
    fn expire_after_create(&self, _: &Key, known: &Known, _: Instant) -> Option<Duration> {
        Some(known.until)
    }
}

/// Asks Keystone about tokens.
pub struct Identity {
    cache: Cache<Key, Known>,
    believed: Duration,
    shared: Option<Shared>,
    metrics: Metrics,
}

impl Identity {
    /// Believes an answer for `believed`, and never beyond the token's end; zero asks each time. `sharing`: where other processes tell what
    /// they have been answered.
    pub fn new(believed: Duration, sharing: Option<TokenSharing>, metrics: Metrics) -> Self {
        let weight = |_: &Key, known: &Known| {
            let bytes = OVERHEAD + known.info.as_ref().map_or(0, |info| info.size());
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        let cache = Cache::builder().weigher(weight).max_capacity(MEMORY).expire_after(Lifetime).build();
        Self { cache, believed, shared: sharing.filter(|_| !believed.is_zero()).map(Shared::new), metrics }
    }

    /// What Keystone says of a token, asked as `service`.
    ///
    /// # Errors
    /// [`ApiError::Unauthenticated`] for one that is not known, or too old; [`ApiError::KeystoneDown`].
    pub async fn validate(&self, cloud: &Cloud, service: &Session, token: &SecretString, age: Age) -> Result<Arc<TokenInfo>, ApiError> {
        let key = key(token, age);
        let asked = AtomicBool::new(false);
        let shared = self.shared.as_ref().filter(|_| age == Age::Valid);
        let ask = async {
            if let Some(shared) = shared
                && let Some(known) = shared.find(&key, self.believed).await
            {
                return Ok(known);
            }
            asked.store(true, Ordering::Relaxed);
            let info = cloud.validate(service, token, age == Age::Expired).await?.map(Arc::new);
            let until = match &info {
                Some(_) if age == Age::Expired => self.believed,
                Some(info) => (info.expires_at - model::time::now()).to_std().unwrap_or_default().min(self.believed),
                None => REFUSED.min(self.believed),
            };
            if let (Some(shared), Some(info)) = (shared, &info) {
                shared.tell(&key, info, until).await;
            }
            Ok::<_, CloudError>(Known { info, until })
        };
        let known = self.cache.try_get_with(key, ask).await;
        self.metrics.token_looked_up(!asked.load(Ordering::Relaxed));
        let known = known.map_err(|error| ApiError::KeystoneDown(error.to_string()))?;
        match known.info {
            // The cache drops entries a little late.
            Some(info) if age == Age::Expired || info.expires_at > model::time::now() => Ok(info),
            _ => Err(ApiError::Unauthenticated),
        }
    }

    /// How old the caller's token may be, by the token of the service that sends the request on (`X-Service-Token`): one that counts allows
    /// a token that has expired while the service was at work. Who shows one that does not count is refused, whoever the caller is.
    ///
    /// # Errors
    /// [`ApiError::Unauthenticated`], [`ApiError::KeystoneDown`].
    pub async fn age(&self, cloud: &Cloud, service: &Session, token: Option<&SecretString>, rule: &ServiceTokens) -> Result<Age, ApiError> {
        let Some(token) = token else { return Ok(Age::Valid) };
        let info = self.validate(cloud, service, token, Age::Valid).await?;
        rule.allows(&info.roles).ok_or_else(|| {
            tracing::info!(user.id = %info.user_id, "a service token without any of [keystone_authtoken] service_token_roles is refused");
            ApiError::Unauthenticated
        })
    }
}

/// What is remembered under which name. Apart by age: what is refused when it has expired is known otherwise.
fn key(token: &SecretString, age: Age) -> Key {
    let mut hash = Sha256::new();
    hash.update([u8::from(age == Age::Expired)]);
    hash.update(token.expose_secret().as_bytes());
    hash.finalize().into()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn one_role_of_the_list_makes_a_service_token_count() {
        let roles = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let strict = ServiceTokens { roles: roles(&["service", "glue"]), are_roles_required: true };
        let lax = ServiceTokens { are_roles_required: false, ..strict.clone() };
        for (held, counts) in [(&["member", "glue"][..], true), (&["service"], true), (&["Service", "member"], false), (&[], false)] {
            assert_eq!(strict.allows(&roles(held)), counts.then_some(Age::Expired), "{held:?}");
            let age = if counts { Age::Expired } else { Age::Valid };
            assert_eq!(lax.allows(&roles(held)), Some(age), "{held:?}");
        }
    }

    #[test]
    fn who_has_expired_delegates_nothing() {
        let fresh = caller("p", "u", &["member"]);
        assert!(fresh.must_delegate().is_ok());
        let info = TokenInfo { expires_at: model::time::now() - Duration::from_secs(1), ..(*fresh.info).clone() };
        let refused = Caller::new("token".into(), Arc::new(info)).must_delegate().expect_err("expired");
        assert!(refused.to_string().contains("expired"), "{refused}");
    }

    /// A caller of domain `users`.
    pub(crate) fn caller(project: &str, user: &str, roles: &[&str]) -> Caller {
        let info = TokenInfo {
            user_id: user.into(),
            user_name: user.into(),
            user_domain_id: "users".into(),
            project_id: Some(project.into()),
            roles: roles.iter().map(|r| (*r).to_owned()).collect(),
            expires_at: model::time::now() + Duration::from_secs(3600),
            ..TokenInfo::default()
        };
        Caller::new("token".into(), Arc::new(info))
    }
}
