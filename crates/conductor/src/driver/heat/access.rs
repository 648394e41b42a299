//! What programs inside a cluster are given to reach the cloud: the login of the cluster's trustee, and where to make load balancers.
//!
//! Only masters are told, and Kubernetes by them; a worker's first boot holds none of it.

use model::json::Labels;
use model::operation::OutcomeCode;
use model::seal::vault::Vault;
use provider_clients::{ErrorKind, Service, Session};
use secrecy::SecretString;
use serde_json::Value;

use super::addons::{AUTO_SCALING, CINDER};
use super::dual_stack::{self, DualStack};
use super::given_network::{self, GivenNetwork};
use super::ingress::{self, Ingress};
use super::keystone_auth::{self, Keystone};
use super::parameters::choices;
use super::render::RenderError;
use super::{api_name, auto_healer, monitoring};
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
    /// Whether the cluster is watched from inside; masters alone are told.
    pub has_monitoring: bool,
    /// Where nodes are on a network that is there; in a cluster that is there too, as far as they are told of it.
    pub given: Option<GivenNetwork>,
    /// Where nodes have addresses of both versions of IP.
    pub dual_stack: Option<DualStack>,
    /// The name of the API in DNS; masters alone are told.
    pub api_name: Option<String>,
    /// How long tokens of Keystone live, in seconds; none where that is not known. With one that Heat draws a node tells that it became one.
    pub token_seconds: Option<u32>,
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
    /// Who needs that provider's login.
    users: UsersOfLogin,
    monitoring: bool,
    /// Of the API in DNS.
    api_name: Option<String>,
}

/// What a new cluster is told.
///
/// # Errors
/// When its labels ask for what the operator does not allow, or it names a network that is not there, and as [`access`].
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
        true => {
            asked.users.find_in(target.session).await?;
            CloudProvider::Given(Box::new(access(settings, vault, target).await?))
        }
        false => CloudProvider::Absent,
    };
    let given = given_network::of_new(target).await?;
    let dual_stack = dual_stack::of_new(target, given.as_ref())?;
    Ok(CloudFacts {
        provider,
        keystone,
        has_secrets_key: settings.encrypt_secrets,
        has_monitoring: asked.monitoring,
        given,
        dual_stack,
        api_name: asked.api_name,
        token_seconds: token_seconds(target).await?,
    })
}

/// The same as far as it is known before the cluster has a trustee: enough to count what it takes.
///
/// # Errors
/// When its labels ask for what the operator does not allow or the cloud does not have, or it names a network or subnet that is not there.
pub(super) async fn before_anything(settings: &Settings, target: &Target<'_>) -> Result<CloudFacts, Failure> {
    let asked = asked(settings, target)?;
    if asked.provider {
        asked.users.find_in(target.session).await?;
    }
    let given = given_network::of_new(target).await?;
    let dual_stack = dual_stack::of_new(target, given.as_ref())?;
    Ok(CloudFacts {
        provider: if asked.provider { CloudProvider::Present } else { CloudProvider::Absent },
        keystone: asked.keystone.then(|| Keystone { url: String::new(), policy: None }),
        has_secrets_key: settings.encrypt_secrets,
        has_monitoring: asked.monitoring,
        given,
        dual_stack,
        api_name: asked.api_name,
        // Only what nodes are made with depends on it.
        token_seconds: None,
    })
}

fn asked(settings: &Settings, target: &Target<'_>) -> Result<Asked, Failure> {
    let labels = target.cluster.labels();
    let keystone = has_keystone_auth(&labels, settings.keystone_auth, settings.verify_ca).map_err(refused)?;
    let api_name = api_name::of_new(&labels, target.cluster.display_name()).map_err(refused)?;
    let users = UsersOfLogin::read(&labels).map_err(refused)?;
    let monitoring = monitoring::asked_for(&labels).map_err(refused)?.is_some();
    Ok(Asked { keystone, provider: has_provider(settings, target, &users)?, users, monitoring, api_name })
}

/// What new masters of a cluster that is there are told; its stack says what it has.
///
/// # Errors
/// As [`access`] and [`of_workers`].
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
    let (given, dual_stack) = given_network::of_more(target, seen).await?;
    Ok(CloudFacts {
        provider,
        keystone,
        has_secrets_key: seen.has_secrets_key,
        has_monitoring: seen.has_monitoring,
        given,
        dual_stack,
        api_name: seen.api_name.clone(),
        token_seconds: token_seconds(target).await?,
    })
}

/// What new workers are told, which join what `seen` is: where they are, and nothing of the cloud.
///
/// # Errors
/// When the network that the stack was made of is not there as it was, and whatever Heat and Neutron say.
pub(in crate::driver) async fn of_workers(target: &Target<'_>, seen: &Seen) -> Result<CloudFacts, Failure> {
    let (given, dual_stack) = given_network::of_more(target, seen).await?;
    let provider = CloudProvider::seen(seen);
    let (has_secrets_key, has_monitoring) = (seen.has_secrets_key, seen.has_monitoring);
    let token_seconds = token_seconds(target).await?;
    Ok(CloudFacts { provider, keystone: None, has_secrets_key, has_monitoring, given, dual_stack, api_name: None, token_seconds })
}

/// How long tokens of Keystone live, as the session's own tells. Those that nodes have for their signals live as long: Heat draws each with the
/// password of a user that it makes for the node's handle (`stack_domain_user_token` of its Keystone client).
async fn token_seconds(target: &Target<'_>) -> Result<Option<u32>, Failure> {
    let lives = target.session.info().await?.lifetime();
    Ok(lives.map(|lives| u32::try_from(lives.as_secs()).unwrap_or(u32::MAX)))
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
fn has_provider(settings: &Settings, target: &Target<'_>, users: &UsersOfLogin) -> Result<bool, Failure> {
    let labels = target.cluster.labels();
    let wanted = choices::truth(&labels, PARAMETER).map_err(refused)?;
    if target.template.volume_driver.as_deref() == Some(CINDER) && !wanted.unwrap_or(settings.cluster_user_trust) {
        let text = "cloud_provider_enabled: must not be false with the volume driver cinder; without the label, [trust] cluster_user_trust decides";
        return Err(Failure::fail(OutcomeCode::User, text));
    }
    users.may_be(wanted.unwrap_or(settings.cluster_user_trust), settings.verify_ca).map_err(refused)?;
    match wanted {
        Some(true) if !settings.cluster_user_trust => {
            let text = "cloud_provider_enabled: must not be true where [trust] cluster_user_trust is off: nodes are given no login";
            Err(Failure::fail(OutcomeCode::User, text))
        }
        Some(wanted) => Ok(wanted),
        None => Ok(settings.cluster_user_trust),
    }
}

/// What was asked for cannot be made.
pub(super) fn refused(error: RenderError) -> Failure {
    Failure::fail(OutcomeCode::User, error.to_string())
}

/// What a new cluster is asked to have that works with the cluster's login.
struct UsersOfLogin {
    scales: bool,
    heals: bool,
    has_octavia_ingress: bool,
}

impl UsersOfLogin {
    fn read(labels: &Labels) -> Result<Self, RenderError> {
        Ok(Self {
            scales: choices::truth(labels, AUTO_SCALING)? == Some(true),
            heals: auto_healer::is_asked_for(labels)?,
            has_octavia_ingress: ingress::asked_for(labels)? == Some(Ingress::Octavia),
        })
    }

    /// Whether they could do their work.
    fn may_be(&self, has_login: bool, verify: bool) -> Result<(), RenderError> {
        let all = [
            (self.scales, AUTO_SCALING, "true", "the autoscaler"),
            (self.heals, auto_healer::LABEL, "true", "the auto healer"),
            (self.has_octavia_ingress, ingress::LABEL, "octavia", "that controller"),
        ];
        if let Some((_, label, value, who)) = all.into_iter().find(|(is_wanted, ..)| *is_wanted && !has_login) {
            let rule =
                format!("must not be {value} without the OpenStack cloud provider, whose login {who} has: see cloud_provider_enabled");
            return Err(RenderError::new(label, rule));
        }
        if self.scales && !verify {
            let rule = "must not be true where certificates of the cloud are not checked: the autoscaler checks them always";
            return Err(RenderError::new(AUTO_SCALING, rule));
        }
        Ok(())
    }

    /// Whether the cloud has what they do not start without.
    async fn find_in(&self, session: &Session) -> Result<(), Failure> {
        if self.has_octavia_ingress && !has(session, Service::LoadBalancer).await? {
            return Err(refused(RenderError::new(ingress::LABEL, "must not be octavia in a cloud without Octavia")));
        }
        if self.heals && !has(session, Service::BlockStorage).await? {
            return Err(refused(RenderError::new(
                auto_healer::LABEL,
                "must not be true in a cloud without Cinder, which the auto healer asks",
            )));
        }
        Ok(())
    }
}

/// Whether the cloud has a service.
async fn has(session: &Session, service: Service) -> Result<bool, Failure> {
    match session.endpoint(service).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NoEndpoint => Ok(false),
        Err(error) => Err(error.into()),
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
    let has_load_balancers = has(session, Service::LoadBalancer).await?;
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
    fn what_works_with_the_login_needs_it_and_the_autoscaler_a_cloud_that_it_can_believe() {
        let of = |label: &str, value: &str, has_login, verify| {
            let labels = Labels([(label.to_owned(), value.to_owned())].into_iter().collect());
            UsersOfLogin::read(&labels).expect("good labels").may_be(has_login, verify)
        };
        for (label, value) in [("auto_scaling_enabled", "true"), ("auto_healing_enabled", "true"), ("ingress_controller", "octavia")] {
            assert_eq!(of(label, value, true, true), Ok(()), "{label}");
            let error = of(label, value, false, true).expect_err(label);
            assert!(error.field == label && error.rule.contains("without the OpenStack cloud provider"), "{error}");
        }
        assert!(of("auto_scaling_enabled", "true", true, false).is_err_and(|error| error.rule.contains("are not checked")));
        assert_eq!(of("auto_healing_enabled", "true", true, false), Ok(()));
        assert_eq!(of("ingress_controller", "nginx", false, false), Ok(()));
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
