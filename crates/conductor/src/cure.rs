//! What most likely helps, for failures that the cloud has words of its own for.
//!
//! The cloud says what went wrong in it; who asked for the cluster needs to know which of his choices that touches. The phrases are those of
//! Heat, Nova, Neutron, Cinder, Octavia, Glance and Keystone of 2025.1, which have hardly changed in ten years.

/// One kind of failure.
struct Cure {
    /// Any of these, in lower case, is in the reason.
    phrases: &'static [&'static str],
    text: &'static str,
}

/// The first that fits is told: those that say most come first.
const CURES: &[Cure] = &[
    Cure {
        phrases: &["no valid host was found", "exceeded maximum number of retries", "not enough hosts available"],
        text: "no compute host has room for such a node: take a smaller flavor or fewer nodes, another availability_zone, or the label \
               nodes_affinity_policy=soft-anti-affinity if a strict policy keeps nodes apart; then retry",
    },
    Cure {
        phrases: &["no more ip addresses available", "ipaddressgenerationfailure", "no available ip addresses"],
        text: "a network has no free addresses: release floating IPs or ports that nobody needs, or take another external_network_id or \
               fixed_subnet; without floating IPs (floating_ip_enabled=false) nodes need none of the external network",
    },
    Cure {
        phrases: &["quota", "limit exceeded", "overlimit"],
        text: "have the project's quota raised, or take fewer or smaller nodes or remove what the project does not need; then retry",
    },
    Cure {
        phrases: &["too small for requested image", "is larger than", "smaller than the minimum size", "larger than image"],
        text: "the image does not fit: take a flavor with more disk and memory, or a larger volume with the label boot_volume_size",
    },
    Cure {
        phrases: &["is not reachable from subnet", "external gateway", "externalgatewayforfloatingipnotfound"],
        text: "the given subnet is on no router that leads to the external network: connect it (openstack router add subnet), or make the \
               cluster without floating IPs",
    },
    Cure {
        phrases: &["waitconditiontimeout", "of 1 received"],
        text: "a node did not tell that it is ready: look at its console (openstack console log show). Mostly it cannot reach Keystone, Heat \
               or the place that programs and images come from: see http_proxy, https_proxy, dns_nameserver, container_infra_prefix, the \
               router of the network and the floating IPs; a slow cloud needs a longer create_timeout, and tokens of Keystone that live longer than \
               that, for nodes have three quarters of the shorter of the two",
    },
    Cure {
        phrases: &["waitconditionfailure"],
        text: "a node could not be set up and said why; its console has the rest (openstack console log show)",
    },
    Cure {
        phrases: &["invalid key_name", "the key ("],
        text: "Heat does not find the key pair for the user who owns the stack: see that it is there (openstack keypair list), or name another",
    },
    Cure {
        phrases: &["availability zone"],
        text: "name an availability zone that is there (openstack availability zone list) with the label availability_zone",
    },
    Cure {
        phrases: &["volume type", "the volumetype ("],
        text: "name a volume type that is there (openstack volume type list) with the label boot_volume_type, docker_volume_type or \
               etcd_volume_type",
    },
    Cure {
        phrases: &["did not finish being created", "block device mapping is invalid"],
        text: "the storage did not make a volume in time: see the volumes of the project (openstack volume list), another volume type, or a \
               cluster without volumes; then retry",
    },
    Cure {
        phrases: &["' is not enabled", "does not support a requested"],
        text: "this cloud's Octavia does not take the load balancer's provider: name another with the label octavia_provider \
               (openstack loadbalancer provider list)",
    },
    Cure {
        phrases: &["still in use", "ports in use", "in use.", "still has ports"],
        text: "something that the cluster did not make uses what is to go: see the ports of its network (openstack port list), remove them, and \
               ask again",
    },
    Cure {
        phrases: &["delegated tokens cannot manage trusts"],
        text: "this cloud's Keystone makes no trusts for application credentials: ask with a password",
    },
    Cure {
        phrases: &["could not find trust", "trustor", "trust has expired"],
        text: "whoever made the cluster has lost a role or left, and what he delegated ended with it: rotate its credentials as a member of its \
               project, or have an administrator transfer the cluster",
    },
    Cure {
        phrases: &["policy does not allow", "policy doesn't allow", "not authorized to perform", "disallowed by policy"],
        text: "a role is missing in the project, such as load-balancer_member at Octavia or creator at Barbican: have it given to whoever makes \
               clusters, and let him rotate the cluster's credentials",
    },
    Cure {
        phrases: &["the image (", "the flavor (", "the network (", "the subnet (", "is not active", "flavornotfound", "imagenotfound"],
        text: "see that what the template and its labels name is still there, and that the project may use it",
    },
    Cure {
        phrases: &["messagingtimeout", "timed out waiting for a reply", "create timed out", "update timed out"],
        text: "the cloud was busy, or a node took long: retry, with a longer create_timeout if it needs one, where tokens of Keystone live longer than \
               that",
    },
];

/// What the cloud said, with the likely cure where one is known. (What this service says itself tells what to do already.)
pub(crate) fn told(reason: &str) -> String {
    match of(reason) {
        Some(cure) => format!("{}. Likely cure: {cure}", reason.trim_end_matches(['.', ' '])),
        None => reason.to_owned(),
    }
}

/// What most likely helps where a step has taken all the time that there was.
pub(crate) fn of_step(step: &str) -> &'static str {
    match step {
        "stack" | "stack gone" | "replacement" => {
            "see what Heat is at (openstack stack resource list -n 2, stack event list). Where nothing of it moves nobody may be at work on it any more, as \
             after the end of a heat-engine: have the operator of the cloud end it (heat-manage reset_stack_status), then retry"
        }
        "machines" | "network" | "release gone" => {
            "see what Cluster API is at (kubectl describe the Cluster, its machines and the OpenStackCluster in the project's namespace of the management \
             cluster). Mostly a server does not come up, or a node is not drained because of a PodDisruptionBudget; then retry"
        }
        "helm" | "namespace" | "prepared" | "found" | "name" => {
            "see that the management cluster answers (magnum-status upgrade check) and what helm says of the release (helm status); then retry"
        }
        "authorities" => {
            "see that the deployments of [capi_helm] controller_deployments come up, and why a ClusterResourceSet is not applied (kubectl describe \
             clusterresourceset in the project's namespace); then retry"
        }
        "kubernetes" | "load balancers" | "load balancers gone" => {
            "see the load balancers and floating IPs of the cluster (openstack loadbalancer list): one that stays in PENDING_* is for the operator of \
             Octavia to fail over or reset; then ask again"
        }
        "volumes" | "volumes gone" => {
            "see the volumes of the cluster (openstack volume list): one that stays attached is detached from the server that is gone, one that stays at \
             work is for the operator of Cinder to reset; then ask again"
        }
        "trust" | "trustee" | "stack_owner" | "credential" | "credentials" => {
            "see that Keystone answers and lets the service's admin of the trustee domain do his work; last_error of the operation says what it said. Then \
             retry"
        }
        "certificates" | "secrets" => {
            "see that what keeps certificates answers (Barbican, or the management cluster); last_error of the operation says what it said. Then retry"
        }
        "quota" => "have the project's quota raised, or remove what the project does not need; then retry",
        _ => "last_error of the operation says what the cloud said last; then retry",
    }
}

fn of(reason: &str) -> Option<&'static str> {
    let lower = reason.to_lowercase();
    CURES.iter().find(|cure| cure.phrases.iter().any(|phrase| lower.contains(phrase))).map(|cure| cure.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sentences of OpenStack's services, as they reach a stack's reason.
    const SAID: &[(&str, &str)] = &[
        (
            "ResourceInError: resources.node: Went to status ERROR due to \"Message: No valid host was found. , Code: 500\"",
            "smaller flavor",
        ),
        ("Forbidden: resources.node: Quota exceeded for cores: Requested 4, but already used 18 of 20 cores (HTTP 403)", "quota raised"),
        ("OverQuotaClient: resources.floating_ip: Quota exceeded for resources: ['floatingip'].", "quota raised"),
        ("IpAddressGenerationFailureClient: resources.floating_ip: No more IP addresses available on network 2f.", "no free addresses"),
        ("BadRequest: resources.node: Flavor's disk is too small for requested image. Flavor disk is 1 bytes", "more disk and memory"),
        (
            "NotFound: resources.ip: External network 7 is not reachable from subnet 8. Therefore, cannot associate Port",
            "router add subnet",
        ),
        (
            "WaitConditionTimeout: resources.kube_masters.resources[0].resources.ready: 0 of 1 received",
            "tokens of Keystone that live longer",
        ),
        ("WaitConditionFailure: resources.ready: kubeadm: exit status 1", "said why"),
        ("Property error: resources.node.properties.key_name: Error validating value 'k': The Key (k) could not be found.", "key pair"),
        ("BadRequest: resources.node: The requested availability zone is not available (HTTP 400)", "zone that is there"),
        ("Error validating value 'fast': The VolumeType (fast) could not be found.", "volume type that is there"),
        ("Build of instance 1 aborted: Volume 2 did not finish being created even after we waited 3 seconds", "volume in time"),
        ("octavia: create load balancer: 400: Provider 'ovn' is not enabled.", "octavia_provider"),
        ("Conflict: resources.network: There are one or more ports still in use on the network.", "ask again"),
        (
            "keystone trust_list: 403 Forbidden: You are not authorized to perform: Delegated tokens cannot manage trusts..",
            "ask with a password",
        ),
        ("keystone: log in: 404: Could not find trust: 5.", "rotate its credentials"),
        ("octavia: list load balancers: 403: Policy does not allow this request to be performed.", "role is missing"),
        ("Error validating value 'm1.big': The Flavor (m1.big) could not be found.", "still there"),
        ("heat: CREATE_FAILED Create timed out", "longer create_timeout if it needs one, where tokens"),
    ];

    #[test]
    fn what_the_cloud_says_has_its_cure() {
        for (said, cure) in SAID {
            let text = told(said);
            assert!(text.starts_with(said.trim_end_matches('.')) && text.contains(cure), "{said}: {text}");
        }
        assert_eq!(SAID.len(), CURES.len() + 1, "one for each kind, two for quotas");
    }

    #[test]
    fn what_steps_wait_for_has_its_cure() {
        let general = of_step("");
        let without: Vec<&str> = model::operation::STEPS.iter().copied().filter(|step| of_step(step) == general).collect();
        // Neither is waited in: the one looks for things at once, the other ends in a bounded time.
        assert_eq!(without, ["nodes", "report"]);
    }

    #[test]
    fn nothing_is_guessed() {
        for said in ["heat: CREATE_FAILED Resource CREATE failed: resources.trusted_images: Unknown", "the volume is not there"] {
            assert_eq!(told(said), said);
        }
    }
}
