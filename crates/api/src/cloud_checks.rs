//! What a request names in other OpenStack services, looked up with the caller's token: all at once, each once, under one deadline.

mod lately;

use std::future::Future;
use std::time::Duration;

use model::driver::DriverName;
use provider_clients::{CloudError, ErrorKind, Flavor, Image, Keystone, Network, Session, Subnet};

use crate::context::Context;
use crate::error::ApiError;
pub use lately::Lately;
use lately::{Key, Shelf};

/// What to look up; absent names are not looked for.
#[derive(Default)]
pub struct Wanted<'a> {
    pub flavors: Vec<&'a str>,
    pub image: Option<&'a str>,
    pub external_network: Option<&'a str>,
    pub fixed_network: Option<&'a str>,
    pub fixed_subnet: Option<&'a str>,
    pub keypair: Option<&'a str>,
}

/// What was found.
#[derive(Default)]
pub struct Found {
    /// The wanted flavors, or all that there are.
    flavors: Vec<Flavor>,
    image: Vec<Image>,
    external: Vec<Network>,
    fixed: Vec<Network>,
    subnets: Vec<Subnet>,
    keypair: bool,
}

/// Asks Nova, Glance and Neutron.
pub async fn look_up(cx: &Context, wanted: &Wanted<'_>) -> Result<Found, ApiError> {
    within(cx.shared.settings.cloud_check_deadline, ask(cx, &session(cx), wanted)).await
}

/// Asks with the caller's token.
pub fn session(cx: &Context) -> Session {
    cx.shared.cloud.session_known(cx.caller.token.clone(), cx.caller.info.clone()).with_request_id(cx.request_id.clone())
}

/// Ways to log in by which nothing is delegated: of whom they are all, Keystone is not asked whether he may make a trust.
const IN_PERSON: [&str; 9] = ["external", "kerberos", "mapped", "openid", "password", "saml2", "token", "totp", "x509"];

/// Refuses a caller in whose name no trust can be made, before anything is begun that needs one. (What a cluster of Cluster API needs is an
/// application credential: Keystone makes it for whoever has an unrestricted one.)
pub async fn must_delegate(cx: &Context, driver: Option<DriverName>) -> Result<(), ApiError> {
    cx.caller.must_delegate()?;
    if driver == Some(DriverName::K8sCapiHelmV1) {
        return Ok(());
    }
    let (info, deadline) = (&cx.caller.info, cx.shared.settings.cloud_check_deadline);
    if let Some(id) = &info.trust_id {
        let asked = async { session(cx).keystone().trust(id).await.map_err(failed) };
        if !within(deadline, asked).await?.is_some_and(|trust| trust.impersonation && trust.redelegation_count > 0) {
            let text = "A cluster acts for its creator by a trust, and the trust that you act by may not be handed on. Ask with a password, or \
                        by a trust with impersonation and allow_redelegation.";
            return Err(ApiError::Forbidden(text.into()));
        }
    } else if !info.methods.iter().all(|method| IN_PERSON.contains(&method.as_str())) {
        let asked = async { session(cx).keystone().may_manage_trusts(&info.user_id).await.map_err(failed) };
        if !within(deadline, asked).await? {
            let text = "A cluster acts for its creator by a trust, and this cloud's Keystone makes none with the token of an application \
                        credential. Ask with a password.";
            return Err(ApiError::Forbidden(text.into()));
        }
    }
    Ok(())
}

/// Whether Keystone has a project of this id.
pub async fn project_exists(cx: &Context, id: &str) -> Result<bool, ApiError> {
    let ask = async |keystone: Keystone| Ok(keystone.project(id).await?.is_some());
    keystone_says(cx, "whether there is such a project", ask).await
}

/// Whether a user has any role in a project, by himself or by a group.
pub async fn has_a_role(cx: &Context, user: &str, project: &str) -> Result<bool, ApiError> {
    let ask = async |keystone: Keystone| keystone.has_a_role(user, project).await;
    keystone_says(cx, "what the user may do in the cluster's project", ask).await
}

/// Asks Keystone as the service: an admin by this service's policy may have no right there.
async fn keystone_says(cx: &Context, what: &str, ask: impl AsyncFnOnce(Keystone) -> Result<bool, CloudError>) -> Result<bool, ApiError> {
    let session = cx.shared.service.clone().with_request_id(cx.request_id.clone());
    let asked = async {
        ask(session.keystone()).await.or_else(|error| match error.kind() {
            // A name that nothing could have.
            ErrorKind::Invalid => Ok(false),
            _ => {
                let text = format!("Keystone could not be asked {what}. Try again.");
                Err(ApiError::Cloud { text, detail: error.to_string() })
            }
        })
    };
    within(cx.shared.settings.cloud_check_deadline, asked).await
}

async fn ask(cx: &Context, session: &Session, wanted: &Wanted<'_>) -> Result<Found, ApiError> {
    let lately = &cx.shared.lately;
    let key = |name: &str| Key::new(&cx.caller, name);
    let image = async {
        let Some(name) = wanted.image else { return Ok(Vec::new()) };
        let ask = async {
            session.glance().find_images(name).await.map_err(|e| match e.status() {
                Some(403) => ApiError::Forbidden(format!("Image {name} is not readable for you.")),
                _ => failed(e),
            })
        };
        known(&lately.images, key(name), ask, has_distro).await
    };
    let network = async |name: Option<&str>, external: Option<bool>| {
        let Some(name) = name else { return Ok(Vec::new()) };
        let shelf = if external.is_some() { &lately.external_networks } else { &lately.networks };
        let ask = async { session.neutron().find_networks(name, external).await.map_err(failed) };
        known(shelf, key(name), ask, |_| true).await
    };
    let subnets = async {
        let Some(name) = wanted.fixed_subnet else { return Ok(Vec::new()) };
        let ask = async { session.neutron().find_subnets(name).await.map_err(failed) };
        known(&lately.subnets, key(name), ask, |_| true).await
    };
    let keypair = async {
        let Some(name) = wanted.keypair else { return Ok(Vec::new()) };
        let ask = async { Ok(session.nova().keypair(name).await.map_err(failed)?.map(|_| ()).into_iter().collect()) };
        known(&lately.keypairs, key(name), ask, |()| true).await
    };
    let (flavors, image, external, fixed, subnets, keypair) = futures::try_join!(
        flavors(cx, session, &wanted.flavors),
        image,
        network(wanted.external_network, Some(true)),
        network(wanted.fixed_network, None),
        subnets,
        keypair
    )?;
    Ok(Found { flavors, image, external, fixed, subnets, keypair: !keypair.is_empty() })
}

/// Nova tells of all flavors in one answer.
async fn flavors(cx: &Context, session: &Session, wanted: &[&str]) -> Result<Vec<Flavor>, ApiError> {
    let shelf = &cx.shared.lately.flavors;
    let mut found = Vec::with_capacity(wanted.len());
    for name in wanted {
        found.extend(shelf.find(&Key::new(&cx.caller, name)).await);
    }
    if found.len() == wanted.len() {
        return Ok(found);
    }
    let all = session.nova().flavors().await.map_err(failed)?;
    for name in wanted {
        if let Some(flavor) = Flavor::named(&all, name) {
            shelf.keep(Key::new(&cx.caller, name), flavor.clone()).await;
        }
    }
    Ok(all)
}

/// Whether an image says what it is made of (C-18).
fn has_distro(image: &Image) -> bool {
    image.os_distro.as_deref().is_some_and(|distro| !distro.is_empty())
}

/// What is on the shelf, else what the cloud answers, which is kept when it is one thing alone and `is_sound`.
async fn known<T: Clone + Send + Sync + 'static>(
    shelf: &Shelf<T>,
    key: Key,
    ask: impl Future<Output = Result<Vec<T>, ApiError>>,
    is_sound: impl Fn(&T) -> bool,
) -> Result<Vec<T>, ApiError> {
    if let Some(thing) = shelf.find(&key).await {
        return Ok(vec![thing]);
    }
    let found = ask.await?;
    if let [alone] = &found[..]
        && is_sound(alone)
    {
        shelf.keep(key, alone.clone()).await;
    }
    Ok(found)
}

/// What the cloud answers in time.
pub async fn within<T>(deadline: Duration, work: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    match tokio::time::timeout(deadline, work).await {
        Ok(result) => result,
        Err(_) => {
            let text = format!("The cloud did not answer within {} seconds while the request was checked. Try again.", deadline.as_secs());
            Err(ApiError::Cloud { detail: text.clone(), text })
        }
    }
}

/// A failed look-up, in words for the user: service, operation, reason.
fn failed(error: CloudError) -> ApiError {
    if error.is_unauthorized() {
        return ApiError::Unauthenticated;
    }
    let service = error.service();
    match error.kind() {
        _ if error.status() == Some(403) => ApiError::Forbidden(format!("{service} refused the request's checks ({error}).")),
        // A name that no service could have (empty, or dots).
        ErrorKind::Invalid => ApiError::Invalid(format!("{service} has nothing of this name ({error}).")),
        _ => {
            let advice = if error.retry_may_help() { " Try again." } else { "" };
            let text = format!("{service} could not be asked while the request was checked ({error}).{advice}");
            ApiError::Cloud { text, detail: error.to_string() }
        }
    }
}

impl Found {
    /// The image and its `os_distro` (rules C-17 to C-20).
    pub fn image(&self, name: &str) -> Result<&Image, ApiError> {
        let image = self.only_image(name)?;
        if has_distro(image) { Ok(image) } else { Err(ApiError::Invalid(format!("Image {name} doesn't contain os_distro field."))) }
    }

    /// The image, whether it says what it is made of or not (C-17, C-18).
    pub fn only_image(&self, name: &str) -> Result<&Image, ApiError> {
        match &self.image[..] {
            [] => Err(ApiError::Invalid(format!("Unable to find image {name}."))),
            [one] => Ok(one),
            _ => Err(ApiError::Conflict(format!("Multiple images exist with same name {name}. Please use the image id instead."))),
        }
    }

    /// A flavor of this id or name (C-14, C-21).
    pub fn flavor(&self, name: &str) -> Result<&Flavor, ApiError> {
        Flavor::named(&self.flavors, name).ok_or_else(|| ApiError::Invalid(format!("Unable to find flavor {name}.")))
    }

    /// Root disk rules (C-14, C-15): a flavor without disk needs a boot volume.
    pub fn root_disk(&self, name: &str, boot_volume_size: i64) -> Result<(), ApiError> {
        if boot_volume_size > 0 {
            return Ok(());
        }
        let flavor = self.flavor(name)?;
        if flavor.disk == 0 && boot_volume_size == 0 {
            return Err(ApiError::Invalid(format!("Flavor {name} has no root disk: it needs the label boot_volume_size.")));
        }
        Ok(())
    }

    /// Whether a node of this flavor has the memory that an image needs, and, where it is known, a disk for it: a volume of this many GB, if that is above
    /// 0, and otherwise what the flavor has. Nova and Cinder refuse the same, of each node; to Nova a flavor of no disk is one as large as the image.
    pub fn room(&self, image: &Image, flavor: &str, boot_volume_size: Option<i64>) -> Result<(), ApiError> {
        let (flavor, needed) = (self.flavor(flavor)?, image.disk());
        if flavor.ram < image.min_ram {
            let text = format!("Image {} needs {} MB of memory, and flavor {} has {}.", image.name, image.min_ram, flavor.name, flavor.ram);
            return Err(ApiError::Invalid(text));
        }
        let Some(volume) = boot_volume_size else { return Ok(()) };
        let (size, whose) = match u64::try_from(volume) {
            Ok(size @ 1..) => (size, "the boot volume".to_owned()),
            _ => (flavor.disk, format!("flavor {}", flavor.name)),
        };
        if (1..needed).contains(&size) {
            return Err(ApiError::Invalid(format!("Image {} needs a disk of {needed} GB, and {whose} has {size}.", image.name)));
        }
        Ok(())
    }

    /// The networks that were wanted (C-22 to C-24).
    pub fn networks(&self, wanted: &Wanted<'_>) -> Result<(), ApiError> {
        one("external network", wanted.external_network, self.external.len())?;
        one("network", wanted.fixed_network, self.fixed.len())?;
        one("subnet", wanted.fixed_subnet, self.subnets.len())
    }

    /// The key pair (C-25).
    pub fn keypair(&self, name: &str) -> Result<(), ApiError> {
        if self.keypair { Ok(()) } else { Err(ApiError::Missing(format!("Unable to find keypair {name}."))) }
    }
}

fn one(what: &str, wanted: Option<&str>, found: usize) -> Result<(), ApiError> {
    match (wanted, found) {
        (None, _) | (Some(_), 1) => Ok(()),
        (Some(name), 0) => Err(ApiError::Invalid(format!("Unable to find {what} {name}."))),
        (Some(name), _) => {
            Err(ApiError::Conflict(format!("Multiple {what}s exist with same name {name}. Please use the {what} id instead.")))
        }
    }
}
