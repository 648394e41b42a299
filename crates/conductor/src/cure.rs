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
        text: "no compute host has room for such a node: take a smaller flavor or fewer nodes, or another availability_zone, and retry. Where a strict \
               policy keeps nodes apart, the operator of this service can say soft-anti-affinity in [cluster] nodes_affinity_policy, for clusters that \
               are made from then on",
    },
    Cure {
        phrases: &["no more ip addresses available", "ipaddressgenerationfailure", "no available ip addresses"],
        text: "a network has no free addresses: release floating IPs or ports that nobody needs, or take another external_network_id or \
               fixed_subnet; without floating IPs (floating_ip_enabled=false) nodes need none of the external network",
    },
    Cure {
        // Heat says it in a sentence that begins as those of quotas do.
        phrases: &["maximum resources per stack"],
        text: "Heat takes no more resources in this stack: take fewer nodes in this group and more nodegroups, each of which is a stack of its own \
               (openstack coe nodegroup create), or have the operator of the cloud raise max_resources_per_stack in heat.conf; then retry",
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
        text: "a node did not tell that it is ready: its console tells how far it came (openstack console log show), and \
               /var/log/kubernetes-bootstrap.log on it what was said there. Mostly it cannot reach Keystone, Heat or the place that programs and images \
               come from: see http_proxy, https_proxy, dns_nameserver, container_infra_prefix, the router of the network and the floating IPs; a slow \
               cloud needs a longer create_timeout, and tokens of Keystone that live longer than that, for nodes have three quarters of the shorter of \
               the two",
    },
    Cure {
        phrases: &["waitconditionfailure"],
        text: "a node could not be set up and said why; its console has the steps before (openstack console log show), and \
               /var/log/kubernetes-bootstrap.log on it all that was said",
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
        phrases: &["messagingtimeout", "timed out waiting for a reply"],
        text: "a service of the cloud waited in vain for the answer of another one, as under a load of many nodes that are made at once: retry, or take \
               fewer nodes first and resize then. Where it comes again, have the operator of the cloud raise rpc_response_timeout in heat.conf",
    },
    Cure {
        phrases: &["create timed out", "update timed out"],
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
    use model::driver::DriverName;
    use model::labels::Effect;

    use super::*;

    /// Sentences of OpenStack's services, as they reach a stack's reason.
    const SAID: &[(&str, &str)] = &[
        (
            "ResourceInError: resources.node: Went to status ERROR due to \"Message: No valid host was found. , Code: 500\"",
            "smaller flavor",
        ),
        ("Forbidden: resources.node: Quota exceeded for cores: Requested 4, but already used 18 of 20 cores (HTTP 403)", "quota raised"),
        ("OverQuotaClient: resources.floating_ip: Quota exceeded for resources: ['floatingip'].", "quota raised"),
        ("RequestLimitExceeded: resources.kube_minions: Request limit exceeded: Maximum resources per stack exceeded.", "more nodegroups"),
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
        (
            "MessagingTimeout: resources.kube_minions.resources[41]: Timed out waiting for a reply to message ID 2ecfb7e8756f",
            "rpc_response_timeout in heat.conf",
        ),
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

    /// Names that are neither a label, nor an attribute of clusters and their templates, nor an option of ours: whoever adds one has looked it up.
    const OF_OTHERS: &[&str] = &[
        // What the API tells of an operation.
        "last_error",
        // Heat's.
        "max_resources_per_stack",
        "reset_stack_status",
        "rpc_response_timeout",
    ];
    const FILES: &[&str] = &["heat.conf", "/var/log/kubernetes-bootstrap.log"];
    const PROGRAMS: &[&str] = &["heat-manage", "helm", "kubectl", "magnum-status", "openstack"];
    /// How commands begin that are there, as python-openstackclient's and the other programs' own documents have them.
    const COMMANDS: &[&str] = &[
        "heat-manage reset_stack_status",
        "helm status",
        "kubectl describe",
        "magnum-status upgrade check",
        "openstack availability zone list",
        "openstack coe nodegroup create",
        "openstack console log show",
        "openstack keypair list",
        "openstack loadbalancer list",
        "openstack loadbalancer provider list",
        "openstack port list",
        "openstack router add subnet",
        "openstack stack resource list",
        "openstack volume list",
        "openstack volume type list",
    ];

    /// A label that has an effect.
    fn is_label(name: &str) -> bool {
        DriverName::K8sFedoraCoreosV1.label(name).is_some_and(|label| label.effect != Effect::Unused)
    }

    fn is_attribute(name: &str) -> bool {
        include_str!("../../model/src/schema.rs").contains(&format!(" {name} -> "))
    }

    fn is_option(section: &str, name: &str) -> bool {
        let mut sections = include_str!("../../../docs/configuration.md").split("\n### ");
        let options = sections.find_map(|text| text.strip_prefix(&format!("[{section}]\n")));
        options.is_some_and(|options| options.contains(&format!("\n| {name} | ")))
    }

    /// A word without what ends it in a sentence.
    fn bare(word: &str) -> &str {
        word.trim_matches(['(', ')', ',', ';', ':', '.'])
    }

    /// What a cure names and nobody has.
    fn unknown(cure: &str) -> Vec<&str> {
        let mut odd = Vec::new();
        // `the label one, another or a third`.
        for rest in cure.split(" label ").skip(1) {
            let names = rest.split(' ').map(bare).take_while(|word| word.contains('_') || *word == "or").filter(|word| *word != "or");
            odd.extend(names.filter(|name| !is_label(name.split('=').next().unwrap_or(name))));
        }
        let mut section = None;
        for word in cure.split(' ').map(bare) {
            let name = word.split('=').next().unwrap_or(word);
            let is_name = name.contains('_') && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
            let is_known = match section.take() {
                Some(section) => is_option(section, name),
                None => !is_name || is_label(name) || is_attribute(name) || OF_OTHERS.contains(&name),
            };
            let is_file = word.starts_with('/') || word.ends_with(".conf");
            if !is_known || (is_file && !FILES.contains(&word)) {
                odd.push(word);
            }
            section = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
        }
        // Commands are in brackets; a second one there leaves out its program.
        let commands = cure.split('(').skip(1).map(|rest| rest.split([',', ')']).next().unwrap_or(rest));
        let commands: Vec<&str> =
            commands.filter(|text| text.split(' ').next().is_some_and(|program| PROGRAMS.contains(&program))).collect();
        odd.extend(commands.iter().filter(|text| !COMMANDS.iter().any(|known| format!("{text} ").starts_with(&format!("{known} ")))));
        if cure.matches("openstack ").count() != commands.iter().filter(|text| text.starts_with("openstack ")).count() {
            odd.push("a command outside of brackets");
        }
        odd
    }

    #[test]
    fn a_cure_names_what_is_there() {
        let steps = model::operation::STEPS.iter().copied().chain([""]).map(of_step);
        for cure in CURES.iter().map(|cure| cure.text).chain(steps) {
            assert_eq!(unknown(cure), [""; 0], "{cure}");
        }
        // That file is what nodes write.
        assert!(include_str!("driver/heat/scripts/common.sh").contains(&format!("\nLOG={}\n", FILES[1])));
        for (cure, odd) in [
            ("give the label nodes_affinity_policy=soft-affinity", "nodes_affinity_policy=soft-affinity"),
            ("see the labels of it, or the label boot_volume_size or docker_volume_size", "docker_volume_size"),
            ("another volume with the label etcd_tag", "etcd_tag"),
            ("see dns_nameservers, https_proxy", "dns_nameservers"),
            ("the operator sets [cluster] create_timeout", "create_timeout"),
            ("see /var/log/other.log", "/var/log/other.log"),
            ("more is said in nova.conf", "nova.conf"),
            ("see what there is (openstack volume types list)", "openstack volume types list"),
            ("ask openstack volume list", "a command outside of brackets"),
        ] {
            assert!(unknown(cure).contains(&odd), "{cure}: {:?}", unknown(cure));
        }
    }

    #[test]
    fn nothing_is_guessed() {
        for said in ["heat: CREATE_FAILED Resource CREATE failed: resources.trusted_images: Unknown", "the volume is not there"] {
            assert_eq!(told(said), said);
        }
    }
}
