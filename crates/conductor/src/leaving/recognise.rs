//! Telling what Kubernetes made for a cluster from everything else in the project.
//!
//! The uuid of the cluster is proof, where the programs of Kubernetes put it: in descriptions, names, tags and metadata, in exactly the
//! form that they use. The cluster's name is none: others may bear it, clusters of ours and clusters that we know nothing of.

use provider_clients::{FloatingIp, LoadBalancer, Volume};

/// Where the Cinder plugin puts the name of its cluster.
const VOLUME_KEY: &str = "cinder.csi.openstack.org/cluster";

/// What the names and tags of load balancers begin with, before the name of the cluster: of services, and of the Octavia ingress controller.
const PREFIXES: [&str; 2] = ["kube_service_", "kube_ingress_"];

/// What a cluster may be called in what Kubernetes makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    pub uuid: &'a str,
    pub name: &'a str,
}

/// Whose a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The cluster's.
    Ours,
    /// The cluster's and another one's as well.
    Shared,
    /// Somebody made it, and the cluster uses it, or one that is called so.
    Used,
    /// Of a cluster that is called as this one is.
    Namesake,
    /// Not the cluster's.
    Foreign,
}

/// What one mark on a thing says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Ours,
    Namesake,
    Other,
}

/// Whose load balancer it is.
///
/// Description and name say who made it. A tag says who uses it: the cloud provider tags one, too, that a user made and that an annotation of a service
/// (`loadbalancer.openstack.org/load-balancer-id`) names, and leaves it there when the service goes.
pub(crate) fn load_balancer(balancer: &LoadBalancer, names: Names<'_>) -> Verdict {
    let described = cluster_of(&balancer.description, "Kubernetes ").map(|cluster| mark(cluster, names));
    let named = PREFIXES.iter().find_map(|prefix| prefixed(&balancer.name, prefix, names));
    let tagged = balancer.tags.iter().filter_map(|tag| PREFIXES.iter().find_map(|prefix| prefixed(tag, prefix, names)));
    let is_made = described.is_some() || named.is_some();
    match judge(described.into_iter().chain(named).chain(tagged)) {
        Verdict::Ours | Verdict::Namesake if !is_made => Verdict::Used,
        verdict => verdict,
    }
}

/// Whose floating IP it is. One that somebody made by hand is nobody's, whatever it leads to.
pub(crate) fn floating_ip(address: &FloatingIp, names: Names<'_>) -> Verdict {
    judge(cluster_of(&address.description, "Floating IP for Kubernetes ").map(|cluster| mark(cluster, names)).into_iter())
}

/// Whose volume it is.
pub(crate) fn volume(volume: &Volume, names: Names<'_>) -> Verdict {
    judge(volume.metadata.get(VOLUME_KEY).map(|cluster| mark(cluster, names)).into_iter())
}

fn judge(marks: impl Iterator<Item = Mark>) -> Verdict {
    let (mut ours, mut namesake, mut other) = (false, false, false);
    for mark in marks {
        match mark {
            Mark::Ours => ours = true,
            Mark::Namesake => namesake = true,
            Mark::Other => other = true,
        }
    }
    match (ours, namesake, other) {
        (true, _, false) => Verdict::Ours,
        (true, _, true) => Verdict::Shared,
        (false, true, false) => Verdict::Namesake,
        (false, _, _) => Verdict::Foreign,
    }
}

/// The cluster at the end of a description such as `Kubernetes external service default/web from cluster <cluster>`.
fn cluster_of<'a>(description: &'a str, start: &str) -> Option<&'a str> {
    let (what, cluster) = description.strip_prefix(start)?.split_once(" from cluster ")?;
    (!what.trim().is_empty() && !cluster.is_empty()).then_some(cluster)
}

fn mark(cluster: &str, names: Names<'_>) -> Mark {
    match cluster {
        _ if cluster == names.uuid => Mark::Ours,
        _ if cluster == names.name => Mark::Namesake,
        _ => Mark::Other,
    }
}

/// What a name or a tag such as `kube_service_<cluster>_default_web` says; none when it is not of this form.
fn prefixed(text: &str, prefix: &str, names: Names<'_>) -> Option<Mark> {
    let rest = text.strip_prefix(prefix)?;
    let is_of =
        |cluster: &str| !cluster.is_empty() && rest.strip_prefix(cluster).is_some_and(|rest| rest.len() > 1 && rest.starts_with('_'));
    Some(match () {
        () if is_of(names.uuid) => Mark::Ours,
        () if is_of(names.name) => Mark::Namesake,
        () => Mark::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "7a6f9b9e-5b0c-4a57-9d1c-6a3b1f0e2d11";
    const OTHER: &str = "1c1d0f86-0f3e-4d2c-8f9a-2b7f43d9c522";
    const NAMES: Names<'_> = Names { uuid: UUID, name: "blue" };

    fn described(description: String) -> Verdict {
        load_balancer(&LoadBalancer { description, ..LoadBalancer::default() }, NAMES)
    }

    fn balancer(name: String, tags: &[String]) -> Verdict {
        load_balancer(&LoadBalancer { name, tags: tags.to_vec(), ..LoadBalancer::default() }, NAMES)
    }

    #[test]
    fn load_balancers_are_known_by_the_clusters_uuid_at_the_end_of_their_description() {
        for (text, verdict) in [
            (format!("Kubernetes external service default/web from cluster {UUID}"), Verdict::Ours),
            (format!("Kubernetes external service web from cluster {UUID}"), Verdict::Ours),
            (format!("Kubernetes Ingress default/web from cluster {UUID}"), Verdict::Ours),
            (format!("Kubernetes external service default/web from cluster {OTHER}"), Verdict::Foreign),
            ("Kubernetes external service default/web from cluster blue".to_owned(), Verdict::Namesake),
            ("Kubernetes external service default/web from cluster kubernetes".to_owned(), Verdict::Foreign),
            (format!("Kubernetes external service default/web from cluster {UUID}-2"), Verdict::Foreign),
            (format!("Kubernetes external service default/web from cluster {UUID} of old"), Verdict::Foreign),
            (format!("Kubernetes external service default/web from cluster {}", &UUID[..35]), Verdict::Foreign),
            (format!("Kubernetes external service x from cluster {OTHER} from cluster {UUID}"), Verdict::Foreign),
            (format!("kubernetes external service default/web from cluster {UUID}"), Verdict::Foreign),
            (format!("not a Kubernetes external service from cluster {UUID}"), Verdict::Foreign),
            (format!("Kubernetes from cluster {UUID}"), Verdict::Foreign),
            (format!("Kubernetes  from cluster {UUID}"), Verdict::Foreign),
            (format!("Kubernetes {UUID}"), Verdict::Foreign),
            ("Kubernetes external service default/web from cluster ".to_owned(), Verdict::Foreign),
            (UUID.to_owned(), Verdict::Foreign),
            (String::new(), Verdict::Foreign),
        ] {
            assert_eq!(described(text.clone()), verdict, "{text}");
        }
    }

    #[test]
    fn load_balancers_are_known_by_the_clusters_uuid_in_their_name_and_by_tags_alone_as_used() {
        let service = |cluster: &str| format!("kube_service_{cluster}_default_web");
        assert_eq!(balancer(service(UUID), &[]), Verdict::Ours);
        assert_eq!(balancer(format!("kube_ingress_{UUID}_default_web"), &[]), Verdict::Ours);
        // Somebody made it, and had a service use it.
        assert_eq!(balancer("mine".into(), &[service(UUID)]), Verdict::Used);
        assert_eq!(balancer("mine".into(), &[service("blue")]), Verdict::Used);
        assert_eq!(balancer("mine".into(), &[service(OTHER)]), Verdict::Foreign);
        assert_eq!(balancer(service(UUID), &[service(UUID)]), Verdict::Ours);
        assert_eq!(balancer(service("blue"), &[]), Verdict::Namesake);
        assert_eq!(balancer(service("blue2"), &[]), Verdict::Foreign);
        assert_eq!(balancer(format!("kube_service_{UUID}"), &[]), Verdict::Foreign);
        assert_eq!(balancer(format!("kube_service_{UUID}_"), &[]), Verdict::Foreign);
        assert_eq!(balancer(format!("kube_service_{UUID}x_web"), &[]), Verdict::Foreign);
        assert_eq!(balancer(format!("x{}", service(UUID)), &[]), Verdict::Foreign);
        assert_eq!(balancer("mine".into(), &["magnum".into(), UUID.into()]), Verdict::Foreign);
    }

    #[test]
    fn a_load_balancer_that_another_cluster_uses_as_well_is_shared() {
        let service = |cluster: &str| format!("kube_service_{cluster}_default_web");
        assert_eq!(balancer(service(UUID), &[service(UUID), service(OTHER)]), Verdict::Shared);
        assert_eq!(balancer(service(OTHER), &[service(UUID)]), Verdict::Shared);
        let both = LoadBalancer {
            name: service(UUID),
            description: format!("Kubernetes external service default/web from cluster {OTHER}"),
            ..LoadBalancer::default()
        };
        assert_eq!(load_balancer(&both, NAMES), Verdict::Shared);
        assert_eq!(balancer("mine".into(), &[service(UUID), service(OTHER)]), Verdict::Shared);
    }

    #[test]
    fn a_cluster_without_a_name_has_no_namesakes() {
        let names = Names { uuid: UUID, name: "" };
        let balancer = LoadBalancer { name: "kube_service__web".into(), ..LoadBalancer::default() };
        assert_eq!(load_balancer(&balancer, names), Verdict::Foreign);
    }

    #[test]
    fn floating_ips_are_known_by_their_description_only() {
        for (text, verdict) in [
            (format!("Floating IP for Kubernetes external service default/web from cluster {UUID}"), Verdict::Ours),
            (format!("Floating IP for Kubernetes ingress web in namespace default from cluster {UUID}"), Verdict::Ours),
            (format!("Floating IP for Kubernetes external service default/web from cluster {OTHER}"), Verdict::Foreign),
            ("Floating IP for Kubernetes external service default/web from cluster blue".to_owned(), Verdict::Namesake),
            (format!("Floating IP for Kubernetes external service default/web from cluster {UUID}."), Verdict::Foreign),
            (format!("Kubernetes external service default/web from cluster {UUID}"), Verdict::Foreign),
            (format!("mine, Floating IP for Kubernetes x from cluster {UUID}"), Verdict::Foreign),
            (String::new(), Verdict::Foreign),
        ] {
            let address = FloatingIp { description: text.clone(), ..FloatingIp::default() };
            assert_eq!(floating_ip(&address, NAMES), verdict, "{text}");
        }
    }

    #[test]
    fn volumes_are_known_by_their_metadata_only() {
        for (key, value, verdict) in [
            (VOLUME_KEY, UUID, Verdict::Ours),
            (VOLUME_KEY, "blue", Verdict::Namesake),
            (VOLUME_KEY, "kubernetes", Verdict::Foreign),
            (VOLUME_KEY, OTHER, Verdict::Foreign),
            (VOLUME_KEY, "", Verdict::Foreign),
            ("cluster", UUID, Verdict::Foreign),
        ] {
            let one = Volume { metadata: [(key.to_owned(), value.to_owned())].into(), ..Volume::default() };
            assert_eq!(volume(&one, NAMES), verdict, "{key}: {value}");
        }
        let named = Volume { name: format!("pvc-{UUID}"), ..Volume::default() };
        assert_eq!(volume(&named, NAMES), Verdict::Foreign);
    }
}
