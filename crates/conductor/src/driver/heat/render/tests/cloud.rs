//! The cloud provider: who is told what, and what the cluster is made of with it.

use std::io::Write as _;
use std::process::Stdio;

use secrecy::SecretString;

use super::*;

const PASSWORD: &str = "trustee-password";

/// Programs of the cloud provider run, with this login.
pub(super) fn given() -> &'static CloudProvider {
    static GIVEN: OnceLock<CloudProvider> = OnceLock::new();
    GIVEN.get_or_init(|| CloudProvider::Given(Box::new(access("authority", true))))
}

/// The same, with authorities of the cloud's services.
pub(super) fn given_with(ca: &str) -> CloudProvider {
    CloudProvider::Given(Box::new(access(ca, true)))
}

/// The same in a cloud without Octavia.
pub(super) fn without_load_balancers() -> CloudProvider {
    CloudProvider::Given(Box::new(access("", false)))
}

fn access(ca: &str, has_load_balancers: bool) -> Access {
    Access {
        auth_url: "https://keystone.example:5000/v3".into(),
        user_id: "trustee".into(),
        password: SecretString::from(PASSWORD),
        trust_id: "trust".into(),
        region: Some("RegionOne".into()),
        verify: true,
        ca: ca.into(),
        floating_network: "public-id".into(),
        has_load_balancers,
    }
}

fn addon(data: &str, name: &str) -> Value {
    serde_json::from_str(&content(data, &format!("/etc/kubernetes-bootstrap/addons/{name}"))).expect("JSON")
}

fn lines(data: &str) -> Vec<String> {
    content(data, "/etc/kubernetes-bootstrap/addons.list").lines().map(str::to_owned).collect()
}

/// Arguments of kubelet, as `name=value`.
fn kubelet(data: &str) -> Vec<String> {
    let text = content(data, "/etc/kubernetes-bootstrap/join.yaml");
    let join: Value = serde_json::from_str(&text).expect("JSON");
    told(&join["nodeRegistration"]["kubeletExtraArgs"])
}

#[test]
fn masters_are_given_the_login_and_workers_only_wait_for_the_cloud() {
    let none = labels(&[]);
    for distro in DISTROS {
        let rendered = done(&StackInput { distro, cloud: given(), openstack_ca: "authority", ..input(&none) });
        assert_eq!(rendered.parameters["cloud_provider_enabled"], true);
        let (master, worker) = (user_data(&rendered, "master"), user_data(&rendered, "worker"));
        let secret = addon(master, "cloud-config.json");
        assert_eq!((&secret["kind"], &secret["metadata"]["name"]), (&"Secret".into(), &"cloud-config".into()));
        // The node fills it in from the file.
        assert_eq!(secret["data"]["ca.crt"], "@CLOUD_CA@");
        assert_eq!(content(master, "/etc/kubernetes-bootstrap/cloud-ca.crt"), "authority\n");
        let told: String = contents(worker).into_iter().map(|(_, content)| content).collect();
        for word in [PASSWORD, "\"trust\"", "cloud.conf", "cloud-config"] {
            assert!(!told.contains(word), "{word}");
        }
        for data in [master, worker] {
            assert!(kubelet(data).contains(&"cloud-provider=external".to_owned()));
            assert!(content(data, "/etc/kubernetes-bootstrap/node.env").contains("CLOUD_PROVIDER='external'\n"));
        }
    }
}

#[test]
fn a_cluster_without_the_cloud_provider_knows_nothing_of_it() {
    let some = labels(&[("cloud_provider_tag", "v1.34.1")]);
    let rendered = done(&StackInput { volume_driver: Some("cinder"), ..input(&some) });
    assert_eq!(rendered.parameters["cloud_provider_enabled"], false);
    for kind in ["master", "worker"] {
        let data = user_data(&rendered, kind);
        assert!(!kubelet(data).iter().any(|argument| argument.starts_with("cloud-provider")));
        assert!(contents(data).iter().all(|(path, _)| !path.contains("/addons/") || path.contains("/keystone-")));
    }
    assert!(lines(user_data(&rendered, "master")).iter().all(|line| !line.contains("cloud-provider-openstack")));
}

#[test]
fn load_balancers_are_made_as_the_labels_say_and_bear_the_clusters_uuid() {
    let some = labels(&[("octavia_provider", "ovn"), ("octavia_lb_healthcheck", "false"), ("kube_tag", "v1.34.1")]);
    let rendered = done(&StackInput { cloud: given(), ..input(&some) });
    let master = user_data(&rendered, "master");
    let config = addon(master, "cloud-config.json")["stringData"]["cloud.conf"].as_str().expect("a text").to_owned();
    for line in [
        "auth-url=\"https://keystone.example:5000/v3\"",
        "user-id=\"trustee\"",
        "password=\"trustee-password\"",
        "trust-id=\"trust\"",
        "region=\"RegionOne\"",
        "ca-file=\"/etc/config/ca.crt\"",
        "enabled=\"true\"",
        "subnet-id=\"@SUBNET_ID@\"",
        "floating-network-id=\"public-id\"",
        "lb-provider=\"ovn\"",
        "lb-method=\"SOURCE_IP_PORT\"",
        "create-monitor=\"false\"",
    ] {
        assert!(config.lines().any(|found| found == line), "{line}\n{config}");
    }
    let set = &addon(master, "cloud-controller-manager.json")["items"][1];
    let container = &set["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.k8s.io/provider-os/openstack-cloud-controller-manager:v1.34.1");
    let uuid = serde_json::json!("--cluster-name=7d1b2c3e-4f50-4617-8283-94a5b6c7d8e9");
    assert!(container["args"].as_array().expect("a list").contains(&uuid));
    // It comes before whatever waits for it.
    assert!(lines(master)[0].starts_with("openstack-cloud-controller-manager file:///etc/kubernetes-bootstrap/addons/cloud-config.json"));
}

#[test]
fn what_the_cloud_has_not_is_not_asked_of_it() {
    let none = labels(&[]);
    let cloud = without_load_balancers();
    let rendered = done(&StackInput { cloud: &cloud, ..input(&none) });
    let secret = addon(user_data(&rendered, "master"), "cloud-config.json");
    assert!(secret.get("data").is_none() && secret["metadata"].get("annotations").is_none(), "{secret}");
    let config = secret["stringData"]["cloud.conf"].as_str().expect("a text");
    assert!(config.contains("enabled=\"false\"\n") && !config.contains("lb-provider") && !config.contains("ca-file"), "{config}");
}

#[test]
fn new_credentials_replace_the_pods_that_use_them() {
    let none = labels(&[]);
    let of = |cloud: &CloudProvider| {
        let rendered = done(&StackInput { cloud, ..input(&none) });
        let set = addon(user_data(&rendered, "master"), "cloud-controller-manager.json")["items"][1].clone();
        set["spec"]["template"]["metadata"]["annotations"]["magnum.openstack.org/cloud-config"].as_str().expect("a text").to_owned()
    };
    let renewed = Access { password: SecretString::from("another"), ..access("authority", true) };
    assert_eq!(of(given()), of(given()));
    assert_ne!(of(given()), of(&CloudProvider::Given(Box::new(renewed))));
    assert_ne!(of(given()), of(&given_with("another authority")));
}

#[test]
fn images_of_a_private_registry_are_taken_from_there() {
    let some = labels(&[("container_infra_prefix", "registry.example/k8s/"), ("cloud_provider_tag", "v1.33.9")]);
    let rendered = done(&StackInput { cloud: given(), ..input(&some) });
    let set = &addon(user_data(&rendered, "master"), "cloud-controller-manager.json")["items"][1];
    let image = &set["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "registry.example/k8s/openstack-cloud-controller-manager:v1.33.9");
}

#[test]
fn a_master_is_not_made_before_the_login_is_looked_up() {
    let none = labels(&[]);
    let present = StackInput { cloud: &CloudProvider::Present, ..input(&none) };
    assert_eq!(render(&present).err().expect("refused").field, "cloud_provider_enabled");
    let worker = worker_user_data(&present).expect("a worker needs no login");
    assert!(kubelet(&worker).contains(&"cloud-provider=external".to_owned()));
}

#[test]
fn volumes_of_cinder_come_with_its_volume_driver() {
    let csi = |pairs: &[(&str, &str)], volume_driver| {
        let some = labels(pairs);
        let rendered = done(&StackInput { cloud: given(), volume_driver, ..input(&some) });
        let all = lines(user_data(&rendered, "master"));
        all.into_iter().filter(|line| line.starts_with("cinder-csi ")).collect::<Vec<_>>()
    };
    assert_eq!(csi(&[], None), Vec::<String>::new());
    assert_eq!(csi(&[("cinder_csi_enabled", "false")], Some("cinder")), Vec::<String>::new());
    let usual = csi(&[], Some("cinder"));
    assert_eq!(usual.len(), 5);
    assert!(usual[0].ends_with("/v1.36.0/manifests/cinder-csi-plugin/csi-cinder-driver.yaml"), "{usual:?}");
    let tagged =
        csi(&[("csi_attacher_tag", "v4.9.0"), ("csi_resizer_tag", "v1.12.0"), ("cinder_csi_plugin_tag", "v1.33.9")], Some("cinder"));
    assert!(
        tagged.iter().all(|line| line.contains("/v1.33.9/") && line.ends_with(" csi-attacher=v4.9.0,csi-resizer=v1.12.0")),
        "{tagged:?}"
    );
}

/// Runs a function of the master's script over a manifest: whether it ends well, and what it makes of it.
fn edited(manifest: &str, command: &str) -> (bool, String) {
    let script = include_str!("../../scripts/master.sh");
    let function = &script[script.find("name_cluster() {").expect("the function")..];
    let function = &function[..function.find("\n}\n").expect("its end") + 3];
    let whole = format!(
        "STATE=$(mktemp -d)\ntrap 'rm -rf \"$STATE\"' EXIT\ncat > \"$STATE/addon.yaml\"\n{function}{command}\ncat \"$STATE/addon.yaml\""
    );
    let mut bash = Command::new("bash");
    bash.args(["-euc", &whole]).env("CLUSTER_UUID", "the-uuid").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = bash.spawn().expect("bash runs");
    child.stdin.take().expect("a pipe").write_all(manifest.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    (output.status.success(), String::from_utf8(output.stdout).expect("text"))
}

#[test]
fn volumes_bear_the_clusters_uuid_or_the_master_fails() {
    let manifest = "env:\n  - name: CLOUD_CONFIG\n    value: /etc/config/cloud.conf\n  - name: CLUSTER_NAME\n    value: kubernetes\n";
    let controller = "name_cluster https://example/cinder-csi-controllerplugin.yaml";
    let (good, text) = edited(manifest, controller);
    assert!(good && text.ends_with("  - name: CLUSTER_NAME\n    value: \"the-uuid\"\n"), "{text}");
    assert!(text.contains("value: /etc/config/cloud.conf\n"));
    assert!(!edited("env: []\n", controller).0);
    assert!(edited("env: []\n", "name_cluster https://example/cinder-csi-nodeplugin.yaml").0);
}
