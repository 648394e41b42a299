//! What a values document needs to know of the cloud, asked with the cluster's own credential: whoever asked for the operation, it is the
//! cluster's project whose networks and volume types count.

use std::collections::HashMap;

use model::capi::cleaned;
use model::nodegroup::Nodegroup;
use model::operation::OutcomeCode;
use provider_clients::{Flavor, Image, Session};
use serde_json::Value;

use super::Bench;
use super::seen::Seen;
use super::values::{self, Found};
use crate::outcome::Failure;

fn user_error(text: String) -> Failure {
    Failure::fail(OutcomeCode::User, text)
}

/// Looks it up.
///
/// # Errors
/// What is not there or says too little, by its name.
pub(super) async fn look_up(bench: &Bench<'_>, session: &Session) -> Result<Found, Failure> {
    let (cluster, template) = (&bench.rows.cluster, bench.rows.target(session)?.template);
    let image = template.image_id.clone().unwrap_or_default();
    let images = session.glance();
    let neutron = session.neutron();
    let cinder = session.cinder();
    let keystone = session.keystone();
    let (images, external, network, subnet, types, auth_url) = futures::try_join!(
        async { Ok::<_, Failure>(images.find_images(&image).await?) },
        async {
            let Some(name) = template.external_network_id.as_deref() else { return Ok(None) };
            let found = neutron.find_networks(name, Some(true)).await?;
            one(found.into_iter().map(|n| n.id).collect(), "external network", name).map(Some)
        },
        async {
            let Some(name) = cluster.fixed_network.as_deref() else { return Ok(None) };
            let found = neutron.find_networks(name, Some(false)).await?;
            one(found.into_iter().map(|n| n.id).collect(), "network", name).map(Some)
        },
        async {
            let Some(name) = cluster.fixed_subnet.as_deref() else { return Ok(None) };
            let found = neutron.find_subnets(name).await?;
            one(found.into_iter().map(|n| n.id).collect(), "subnet", name).map(Some)
        },
        async {
            match cinder.volume_types().await {
                Ok(types) => Ok(types),
                // A cloud without volumes.
                Err(error) if error.kind() == provider_clients::ErrorKind::NoEndpoint => Ok(Vec::new()),
                Err(error) => Err(error.into()),
            }
        },
        async { Ok(keystone.public_endpoint().await?) },
    )?;
    let found = chosen(bench, images, &image).await?;
    let property = |name: &str, value: Option<String>| {
        value.filter(|v| !v.is_empty()).ok_or_else(|| user_error(format!("image {image} lacks the property {name}")))
    };
    Ok(Found {
        kube_version: values::kube_version(&property("kube_version", found.kube_version)?),
        os_distro: property("os_distro", found.os_distro)?,
        image_id: found.id,
        group_images: HashMap::new(),
        external_network_id: external,
        network_id: network,
        subnet_id: subnet,
        volume_types: types.into_iter().map(|t| t.name).collect(),
        auth_url: auth_url.to_string(),
        project_id: cluster.project().0,
    })
}

/// The image that a name means. Another image decides on the replacement of every machine: of several of a name it is that which the machines have.
async fn chosen(bench: &Bench<'_>, mut found: Vec<Image>, name: &str) -> Result<Image, Failure> {
    if found.len() > 1 {
        let released = bench.released().await?;
        found.retain(|image| released["machineImageId"] == image.id.as_str());
        return found.pop().ok_or_else(|| several("image", name));
    }
    found.pop().ok_or_else(|| user_error(format!("image {name} is not there")))
}

/// The images that groups have beside the release's, by the group's uuid. All nodes run the control plane's version: an image of another one
/// is what is left of an earlier upgrade, and does not count. Nor does one that the last document does not give to a group that has machines: upstream's
/// driver never looks at it, and brings all groups along. Where Glance does not have it any more, or has several of its name, the group keeps what it has: nodes
/// are not replaced because an image was tidied away.
///
/// # Errors
/// Where `new`, a group that is about to be made, names an image that its nodes could not join from.
pub(super) async fn own_images(
    bench: &Bench<'_>,
    session: &Session,
    groups: &[Nodegroup],
    (of_all, seen): (&Found, &Seen),
    new: Option<&Nodegroup>,
) -> Result<HashMap<String, String>, Failure> {
    let common = bench.rows.template.as_ref().and_then(|template| template.image_id.as_ref());
    let mut images = HashMap::new();
    let mut released = None;
    for group in groups.iter().filter(|group| !group.is_default() && !group.is_master()) {
        let Some(name) = group.image_id.as_ref().filter(|name| Some(*name) != common) else { continue };
        let is_new = new.is_some_and(|new| new.uuid == group.uuid);
        if released.is_none() {
            released = Some(bench.released().await?);
        }
        let given = released.as_ref().filter(|_| !is_new).and_then(|document| image_of(document, group));
        if !is_new && given.is_none() && seen.deployment(&group.name).is_some() {
            continue;
        }
        let mut found = match session.glance().find_images(name).await {
            Err(error) if !is_new && !error.repeating_may_mend() => Vec::new(),
            found => found?,
        };
        if found.len() > 1 {
            if is_new {
                return Err(several("image", name));
            }
            found.retain(|image| given.as_ref() == Some(&image.id));
        }
        let found = found.pop();
        let version = found.as_ref().and_then(|image| image.kube_version.as_deref()).map(values::kube_version);
        match (found, version) {
            (Some(image), Some(version)) if version == of_all.kube_version => {
                images.insert(group.uuid.clone(), image.id);
            }
            (Some(_), Some(_)) if !is_new => {}
            _ if !is_new => images.extend(given.map(|image| (group.uuid.clone(), image))),
            (None, _) => return Err(user_error(format!("nodegroup {}: image {name} is not there", group.name))),
            (Some(_), version) => {
                let is_for = version.map_or_else(|| "lacks the property kube_version".to_owned(), |v| format!("is for Kubernetes {v}"));
                let rule = format!("nodegroup {}: image {name} {is_for}, and the cluster runs {}", group.name, of_all.kube_version);
                return Err(user_error(rule));
            }
        }
    }
    Ok(images)
}

/// The image of its own that a document gives a group.
fn image_of(document: &Value, group: &Nodegroup) -> Option<String> {
    let name = cleaned(&group.name);
    let found = document["nodeGroups"].as_array()?.iter().find(|one| one["name"] == name.as_str())?;
    found["machineImageId"].as_str().map(str::to_owned)
}

fn one(mut ids: Vec<String>, what: &str, name: &str) -> Result<String, Failure> {
    match (ids.pop(), ids.is_empty()) {
        (Some(id), true) => Ok(id),
        (Some(_), false) => Err(several(what, name)),
        (None, _) => Err(user_error(format!("{what} {name} is not there"))),
    }
}

fn several(what: &str, name: &str) -> Failure {
    user_error(format!("{what} {name}: there are several of this name"))
}

/// Whether every group has a flavor that a node of Kubernetes can live on. Returns all flavors that there are.
///
/// # Errors
/// The first that has not, and why.
pub(super) async fn check_flavors(bench: &Bench<'_>, session: &Session, groups: &[Nodegroup]) -> Result<Vec<Flavor>, Failure> {
    let flavors = session.nova().flavors().await?;
    let settings = &bench.capi.settings;
    for group in groups {
        let wanted = group.flavor_id.as_deref().unwrap_or_default();
        let minimum = (settings.minimum_flavor_ram, settings.minimum_flavor_vcpus);
        check_flavor(&flavors, wanted, minimum).map_err(|rule| user_error(format!("nodegroup {}: {rule}", group.name)))?;
    }
    Ok(flavors)
}

fn check_flavor(flavors: &[Flavor], wanted: &str, (ram, vcpus): (u64, u64)) -> Result<(), String> {
    let Some(flavor) = Flavor::named(flavors, wanted) else {
        return Err(format!("flavor {wanted} is not there"));
    };
    if flavor.ram < ram {
        return Err(format!("flavor {wanted} has {} MiB of memory; {ram} are needed", flavor.ram));
    }
    if flavor.vcpus < vcpus {
        return Err(format!("flavor {wanted} has {} CPUs; {vcpus} are needed", flavor.vcpus));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flavor_that_is_missing_is_told_apart_from_one_that_is_too_small() {
        let flavor = |id: &str, name: &str, ram, vcpus| Flavor { id: id.into(), name: name.into(), ram, vcpus, ..Flavor::default() };
        let all = [flavor("1", "tiny", 512, 1), flavor("2", "thin", 4096, 1), flavor("3", "good", 4096, 2)];
        let says = |wanted: &str| check_flavor(&all, wanted, (2048, 2));
        assert_eq!((says("3"), says("good")), (Ok(()), Ok(())));
        for (wanted, rule) in [("gone", "not there"), ("tiny", "512 MiB"), ("2", "1 CPUs")] {
            assert!(says(wanted).is_err_and(|text| text.contains(rule)), "{wanted}");
        }
    }
}
