//! What programs inside a cluster are given to reach the cloud: the login of the cluster's trustee, and where to make load balancers.
//!
//! Only masters are told, and Kubernetes by them; a worker's first boot holds none of it.

use model::json::Labels;
use model::operation::OutcomeCode;
use model::seal::vault::Vault;
use provider_clients::{ErrorKind, Service};
use secrecy::SecretString;
use serde_json::Value;

use super::addons::{AUTO_SCALING, CINDER};
use super::dual_stack::{self, DualStack};
use super::keystone_auth::{self, Keystone};
use super::parameters::choices;
use super::render::RenderError;
use crate::context::Settings;
use crate::driver::Target;
use crate::outcome::Failure;
use crate::plan::Seen;

/// The parameter of a stack that says whether its cluster has a cloud provider. Not a label, nor an option: either may change while the
/// nodes stay, and a node that waits for a cloud provider which is not there takes no pods.
pub(super) const PARAMETER: &str = "cloud_provider_enabled";

/// Longest text of authorities that masters are given: beside it, all else must fit into the user data that Nova takes.
pub(super) const CA_LIMIT: usize = 6 * 1024;

/// Whether the programs of the OpenStack cloud provider run in a cluster.
pub(crate) enum CloudProvider {
    /// They do not.
    Absent,
    /// They do: nodes wait for them when they register.
    Present,
    /// They do, and this is what they get.
    Given(Box<Access>),
}

impl CloudProvider {
    /// Whether they run at all.
    pub fn is_there(&self) -> bool {
        !matches!(self, Self::Absent)
    }

    /// As a stack says it that was made by a template of ours.
    pub fn seen(seen: &Seen) -> Self {
        if seen.has_cloud_provider { Self::Present } else { Self::Absent }
    }
}

/// What the nodes of a cluster are told of the cloud. May hold a secret: no `Debug`.
pub(crate) struct CloudFacts {
    pub provider: CloudProvider,
    /// Where users log in with Keystone; masters alone are told.
    pub keystone: Option<Keystone>,
    /// Whether masters are given a key for what is secret in etcd.
    pub has_secrets_key: bool,
    /// Where nodes have addresses of both versions of IP.
    pub dual_stack: Option<DualStack>,
}

impl CloudFacts {
    /// Of workers, which join what `seen` is.
    pub fn workers(seen: &Seen) -> Self {
        let (provider, dual_stack) = (CloudProvider::seen(seen), DualStack::seen(seen));
        Self { provider, keystone: None, has_secrets_key: seen.has_secrets_key, dual_stack }
    }
}

/// How programs inside the cluster reach the cloud. Holds a secret: no `Debug`.
pub(crate) struct Access {
    /// Keystone's public address.
    pub auth_url: String,
    pub user_id: String,
    pub password: SecretString,
    pub trust_id: String,
    pub region: Option<String>,
    /// Whether certificates of the cloud's services are checked.
    pub verify: bool,
    /// Who signed those, PEM; empty: whom the image trusts.
    pub ca: String,
    /// Id of the network that floating addresses come from.
    pub floating_network: String,
    /// Whether the cloud has Octavia.
    pub has_load_balancers: bool,
}

/// Whether the stack's parameter says so; Heat shows a boolean as it was given, or as text.
pub(super) fn is_on(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Bool(is_on)) => *is_on,
        Some(Value::String(text)) => text.eq_ignore_ascii_case("true"),
        _ => false,
    }
}

/// What a new cluster is to have, by its labels and what the operator allows.
struct Asked {
    keystone: bool,
    provider: bool,
}

/// What a new cluster is told.
///
/// # Errors
/// When its labels ask for what the operator does not allow, and as [`access`].
pub(in crate::driver) async fn of_new(settings: &Settings, vault: &Vault, target: &Target<'_>) -> Result<CloudFacts, Failure> {
    let asked = asked(settings, target)?;
    let keystone = match asked.keystone {
        true => {
            let policy = keystone_auth::policy_of(settings.keystone_policy.as_deref(), &target.cluster.project().0);
            Some(Keystone { url: keystone_url(target).await?, policy: Some(policy) })
        }
        false => None,
    };
    let provider = match asked.provider {
        true => CloudProvider::Given(Box::new(access(settings, vault, target).await?)),
        false => CloudProvider::Absent,
    };
    let dual_stack = dual_stack::of_new(target).await?;
    Ok(CloudFacts { provider, keystone, has_secrets_key: settings.encrypt_secrets, dual_stack })
}

/// The same as far as it is known before the cluster has a trustee: enough to count what it takes.
///
/// # Errors
/// When its labels ask for what the operator does not allow, or for a subnet that is not there.
pub(super) async fn before_anything(settings: &Settings, target: &Target<'_>) -> Result<CloudFacts, Failure> {
    let asked = asked(settings, target)?;
    Ok(CloudFacts {
        provider: if asked.provider { CloudProvider::Present } else { CloudProvider::Absent },
        keystone: asked.keystone.then(|| Keystone { url: String::new(), policy: None }),
        has_secrets_key: settings.encrypt_secrets,
        dual_stack: dual_stack::of_new(target).await?,
    })
}

fn asked(settings: &Settings, target: &Target<'_>) -> Result<Asked, Failure> {
    let labels = target.cluster.labels();
    let keystone = has_keystone_auth(&labels, settings.keystone_auth, settings.verify_ca);
    let keystone = keystone.map_err(|error| Failure::fail(OutcomeCode::User, error.to_string()))?;
    Ok(Asked { keystone, provider: has_provider(settings, target)? })
}

/// What new masters of a cluster that is there are told; its stack says what it has.
///
/// # Errors
/// As [`access`].
pub(in crate::driver) async fn of_masters(
    settings: &Settings,
    vault: &Vault,
    target: &Target<'_>,
    seen: &Seen,
) -> Result<CloudFacts, Failure> {
    let provider = match CloudProvider::seen(seen) {
        CloudProvider::Present => CloudProvider::Given(Box::new(access(settings, vault, target).await?)),
        other => other,
    };
    let keystone = match seen.has_keystone_auth {
        true => Some(Keystone { url: keystone_url(target).await?, policy: None }),
        false => None,
    };
    Ok(CloudFacts { provider, keystone, has_secrets_key: seen.has_secrets_key, dual_stack: DualStack::seen(seen) })
}

/// Whether users of a new cluster log in with Keystone: unless its label says otherwise, as upstream. The webhook checks Keystone's
/// certificate always.
fn has_keystone_auth(labels: &Labels, is_allowed: bool, verify: bool) -> Result<bool, RenderError> {
    let wanted = choices::truth(labels, keystone_auth::PARAMETER)?;
    let rule = match (is_allowed, verify) {
        (true, true) => return Ok(wanted.unwrap_or(true)),
        (false, _) => "must not be true where [kubernetes] keystone_auth is off",
        (true, false) => {
            "must not be true where certificates of the cloud are not checked ([drivers] verify_ca): the webhook checks them always"
        }
    };
    if wanted == Some(true) { Err(RenderError::new(keystone_auth::PARAMETER, rule)) } else { Ok(false) }
}

async fn keystone_url(target: &Target<'_>) -> Result<String, Failure> {
    Ok(target.session.keystone().public_endpoint().await?.to_string())
}

/// What its label says, else `[trust] cluster_user_trust`, as upstream.
fn has_provider(settings: &Settings, target: &Target<'_>) -> Result<bool, Failure> {
    let labels = target.cluster.labels();
    let wanted = choices::truth(&labels, PARAMETER).map_err(|error| Failure::fail(OutcomeCode::User, error.to_string()))?;
    if target.template.volume_driver.as_deref() == Some(CINDER) && !wanted.unwrap_or(settings.cluster_user_trust) {
        let text = "cloud_provider_enabled: must not be false with the volume driver cinder; without the label, [trust] cluster_user_trust decides";
        return Err(Failure::fail(OutcomeCode::User, text));
    }
    let scales = choices::truth(&labels, AUTO_SCALING).map_err(|error| Failure::fail(OutcomeCode::User, error.to_string()))?;
    if scales == Some(true)
        && let Err(rule) = may_scale(wanted.unwrap_or(settings.cluster_user_trust), settings.verify_ca)
    {
        return Err(Failure::fail(OutcomeCode::User, format!("{AUTO_SCALING}: {rule}")));
    }
    match wanted {
        Some(true) if !settings.cluster_user_trust => {
            let text = "cloud_provider_enabled: must not be true where [trust] cluster_user_trust is off: nodes are given no login";
            Err(Failure::fail(OutcomeCode::User, text))
        }
        Some(wanted) => Ok(wanted),
        None => Ok(settings.cluster_user_trust),
    }
}

/// Whether an autoscaler could do its work.
fn may_scale(has_login: bool, verify: bool) -> Result<(), &'static str> {
    match (has_login, verify) {
        (false, _) => {
            Err("must not be true without the OpenStack cloud provider, whose login the autoscaler has: see cloud_provider_enabled")
        }
        (true, false) => Err("must not be true where certificates of the cloud are not checked: the autoscaler checks them always"),
        (true, true) => Ok(()),
    }
}

/// Looks up what programs inside the cluster need.
///
/// # Errors
/// When the authorities do not fit, when the external network is not exactly one, when trustee or trust are missing, and whatever the cloud's services say.
async fn access(settings: &Settings, vault: &Vault, target: &Target<'_>) -> Result<Access, Failure> {
    let (cluster, session) = (target.cluster, target.session);
    let login = (cluster.trustee_user_id.clone(), cluster.trustee_password(vault)?, cluster.trust_id.clone());
    let (Some(user_id), Some(password), Some(trust_id)) = login else {
        return Err(Failure::fail(OutcomeCode::Internal, "the cluster's trust is incomplete"));
    };
    if settings.openstack_ca.len() > CA_LIMIT {
        tracing::error!("[drivers] openstack_ca_file is too large for the first boot of nodes");
        let text =
            format!("[drivers] openstack_ca_file: must have at most {CA_LIMIT} bytes; name only who signed the cloud's own certificates");
        return Err(Failure::fail(OutcomeCode::Internal, text));
    }
    let name = target.template.external_network_id.as_deref().unwrap_or_default();
    let mut found = session.neutron().find_networks(name, Some(true)).await?;
    let floating_network = match (found.pop(), found.is_empty()) {
        (Some(network), true) => network.id,
        (None, _) => return Err(Failure::fail(OutcomeCode::User, format!("external_network_id: there is no external network {name}"))),
        (Some(_), false) => {
            let text = format!("external_network_id: {name} is the name of {} external networks; take an id", found.len() + 1);
            return Err(Failure::fail(OutcomeCode::User, text));
        }
    };
    let has_load_balancers = match session.endpoint(Service::LoadBalancer).await {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::NoEndpoint => false,
        Err(error) => return Err(error.into()),
    };
    Ok(Access {
        auth_url: keystone_url(target).await?,
        user_id,
        password,
        trust_id,
        region: settings.region.clone(),
        verify: settings.verify_ca,
        ca: settings.openstack_ca.clone(),
        floating_network,
        has_load_balancers,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stack_that_says_nothing_has_no_cloud_provider() {
        assert!(!CloudProvider::seen(&Seen::default()).is_there());
        assert!(CloudProvider::seen(&Seen { has_cloud_provider: true, ..Seen::default() }).is_there());
    }

    #[test]
    fn an_autoscaler_needs_a_login_and_a_cloud_that_it_can_believe() {
        assert_eq!(may_scale(true, true), Ok(()));
        assert!(may_scale(false, true).is_err_and(|rule| rule.contains("without the OpenStack cloud provider")));
        assert!(may_scale(true, false).is_err_and(|rule| rule.contains("are not checked")));
    }

    #[test]
    fn users_log_in_with_keystone_unless_somebody_says_otherwise() {
        let of = |value: &str, is_allowed, verify| {
            let labels = [("keystone_auth_enabled".to_owned(), value.to_owned())];
            has_keystone_auth(&Labels(labels.into_iter().filter(|(_, value)| !value.is_empty()).collect()), is_allowed, verify)
        };
        assert_eq!(of("", true, true), Ok(true));
        assert_eq!(of("false", true, true), Ok(false));
        for (is_allowed, verify, word) in [(false, true, "keystone_auth is off"), (true, false, "verify_ca"), (false, false, "is off")] {
            assert_eq!(of("", is_allowed, verify), Ok(false));
            assert_eq!(of("false", is_allowed, verify), Ok(false));
            assert!(of("true", is_allowed, verify).is_err_and(|error| error.field == "keystone_auth_enabled" && error.rule.contains(word)));
        }
        assert!(of("maybe", true, true).is_err());
    }

    #[test]
    fn the_parameter_is_read_however_heat_shows_it_and_older_stacks_have_none() {
        for (value, want) in
            [(json!(true), true), (json!("True"), true), (json!("true"), true), (json!(false), false), (json!("False"), false)]
        {
            assert_eq!(is_on(Some(&value)), want, "{value}");
        }
        assert!(!is_on(None));
    }
}
