//! Real machines from the first-boot documents that the Heat driver writes: cloud-init or Ignition, and systemd run them to the end, with
//! stand-ins for what is downloaded. `cargo xtask node` makes the image, builds this, and runs it in namespaces of its own.

mod data;
mod machine;
mod restarts;
mod site;
mod successors;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
use serde_json::{Value, json};
use tests::client::{self, text};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

use data::{Image, UserData};
use machine::{Machine, address, free_address, gateway};
use site::{HEAT, SIGNAL_TOKEN, SITES, Signal, Site, arch};

/// A boot takes seconds, and a bootstrap as long; but others may be at work on this machine.
const BOOT: Duration = Duration::from_secs(300);

/// The steps that every node begins with.
const INSTALLED: [&str; 4] = ["kernel settings", "container runtime", "Kubernetes binaries", "services"];

/// What the API server reads of the webhook of Keystone.
const WEBHOOK: &str = "/etc/kubernetes-bootstrap/keystone-webhook.json";
const AUTHORIZERS: &str = "/etc/kubernetes-bootstrap/authorizers.json";
const AUDIT_POLICY: &str = "/etc/kubernetes-bootstrap/audit-policy.json";
const SECRETS_AT_REST: &str = "/etc/kubernetes-bootstrap/secrets-at-rest.json";
/// As Heat keeps it for a cluster.
const SECRETS_KEY: &str = "c2VjcmV0cyBvZiB0aGlzIGNsdXN0ZXIgYXJlIGhlcmU=";
const LOG: &str = "/var/log/kubernetes-bootstrap.log";
const UNIT: &str = "/etc/systemd/system/kubernetes-bootstrap.service";

/// Volumes that Cinder made for a node, and where they are mounted.
const DATA_VOLUME: (&str, &str) = ("5b0f1a7e-93c4-4d2b-8f16-0a9b8c7d6e5f", "/var/lib/containerd");
const ETCD_VOLUME: (&str, &str) = ("c4d3e2f1-6a5b-4c7d-9e8f-1a2b3c4d5e6f", "/var/lib/etcd-volume");

/// How a node joins.
const JOIN: &str = "kubeadm join --config /var/lib/kubernetes-bootstrap/join.yaml";
/// What the stand-ins were called with.
const CALLS: &str = "/var/lib/stand-ins/calls";

#[derive(Parser)]
#[command(about = "Boots nodes; run it through `cargo xtask node`")]
struct Arguments {
    /// The folder of the image's files
    #[arg(long)]
    image: PathBuf,
    /// A folder for the machines
    #[arg(long)]
    folder: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("node: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { image, folder } = arguments;
    let site = Site::start(folder, data::CONTAINERD).await?;
    let nodes = Nodes { image, folder, site: &site };
    let Given { usual, three_masters, short_of_time } = documents(folder, &site).await?;
    // Each machine has a number and a network of its own.
    let mut numbers = 0..;
    let mut next = || numbers.next().context("a number");
    for [master, worker] in &usual {
        let image = UserData::of(worker, &[])?.image;
        nodes.master(next()?, master).await.with_context(|| format!("a master of {image:?}"))?;
        println!("ok - {image:?}: a master begins its cluster, tells Heat once, and is a master again when all its processes were killed");
        nodes
            .interrupted_worker(next()?, worker)
            .await
            .with_context(|| format!("a worker of {image:?} that is killed while it is made"))?;
        println!("ok - {image:?}: a worker that is killed while it is made goes on, joins, and tells Heat once");
    }
    nodes.spoiled_worker(next()?, &usual[0][1]).await.context("a worker with a spoiled download")?;
    println!(
        "ok - a worker with a download that is not what its sum says tells Heat which, and that it is no node, and takes that back before it joins"
    );
    nodes.restarts([next()?, next()?, next()?], &usual[0], &three_masters).await?;
    let numbers = [next()?, next()?, next()?, next()?, next()?, next()?];
    nodes.successions(numbers, &three_masters, &short_of_time).await
}

/// What Heat would give to the masters and to the workers of clusters.
struct Given {
    /// Of every image that nodes are made of.
    usual: Vec<[String; 2]>,
    /// Of a cluster whose API is reached through a load balancer.
    three_masters: [String; 2],
    /// Of one that was given the fewest minutes in which all of this can happen.
    short_of_time: [String; 2],
}

/// The clusters are made as any cluster is, through the API.
async fn documents(folder: &Path, site: &Site) -> Result<Given> {
    let authority = folder.join("cloud-ca.pem");
    std::fs::write(&authority, &site.cloud).context("write the cloud's authority")?;
    let environment = [
        ("OS_TRUST__CLUSTER_USER_TRUST".to_owned(), "true".to_owned()),
        ("OS_DRIVERS__OPENSTACK_CA_FILE".to_owned(), authority.display().to_string()),
    ];
    let options = Options { environment: environment.into(), usual_keys: true, ..Options::default() };
    let world = World::start(Mix::Embedded, options).await?;
    let three_masters = |template: &mut Value, cluster: &mut Value| {
        template["master_lb_enabled"] = json!(true);
        cluster["master_count"] = json!(3);
    };
    let short_of_time = |_: &mut Value, cluster: &mut Value| cluster["create_timeout"] = json!(5);
    let given = Given {
        usual: vec![
            made(&world, "ubuntu", |_, _| {}).await?,
            made(&world, "fedora-coreos", |_, _| {}).await?,
            made(&world, "flatcar", |_, _| {}).await?,
        ],
        three_masters: made(&world, "ubuntu", three_masters).await?,
        short_of_time: made(&world, "fedora-coreos", short_of_time).await?,
    };
    world.finish().await?;
    Ok(given)
}

/// Makes a cluster of this image; `change` is given its template and itself before they are asked for. It is gone again in the end.
async fn made(world: &World, image: &str, change: impl FnOnce(&mut Value, &mut Value)) -> Result<[String; 2]> {
    let demo = world.demo();
    let (mut template, mut cluster) = (client::template(image), client::cluster("blue", ""));
    template["image_id"] = json!(image);
    // Manifests of these are held to no sum, which stand-ins would not have.
    cluster["labels"] = json!({"containerd_version": data::CONTAINERD, "flannel_tag": "v0.27.2", "metrics_server_tag": "v0.8.0"});
    change(&mut template, &mut cluster);
    cluster["cluster_template_id"] = json!(demo.post("/v1/clustertemplates", &template).await?.expect(201)?.uuid()?);
    let cluster = demo.post("/v1/clusters", &cluster).await?.expect(202)?.uuid()?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let stacks = world.cloud.stacks();
    let parameter = |name: &str| {
        let found = stacks.iter().find_map(|stack| stack.parameters.get(name)).and_then(Value::as_str);
        found.map(str::to_owned).with_context(|| format!("no {name}"))
    };
    let documents = [parameter("master_user_data")?, parameter("worker_user_data")?];
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    Ok(documents)
}

struct Nodes<'a> {
    image: &'a Path,
    folder: &'a Path,
    site: &'a Site,
}

impl Nodes<'_> {
    async fn machine(&self, number: u8, data: &UserData) -> Result<Machine> {
        let hosts: Vec<&str> = SITES.into_iter().chain([HEAT]).collect();
        Machine::install(self.image, self.folder, number, data, &hosts, &self.site.public).await
    }

    /// The only signal to an address, once there is one.
    async fn signal(&self, machine: &Machine, path: &str) -> Result<Signal> {
        let heard = wait::until("a signal", BOOT, async || Ok(Seen::from_option(self.site.signals(path).into_iter().next(), "no signal")));
        heard.await.with_context(|| machine.last_words())
    }

    async fn master(&self, number: u8, document: &str) -> Result<()> {
        let path = &format!("/v1/signals/{number}");
        let (own, api) = (address(number).to_string(), free_address(number).to_string());
        let data = first_master(document, number, path, &[("DATA_VOLUME", DATA_VOLUME.0), ("ETCD_VOLUME", ETCD_VOLUME.0)])?;
        let mut machine = self.machine(number, &data).await?;
        machine.attach(DATA_VOLUME.0).await?;
        machine.attach(ETCD_VOLUME.0).await?;
        machine.boot()?;
        let signal = self.signal(&machine, path).await?;
        ensure!(signal.status == "SUCCESS" && signal.reason == "blue-master-0 is ready", "{signal:?}\n{}", machine.last_words());

        has_ended(&machine, data.image).await?;
        is_as_written(&machine, &data)?;
        let addons: Vec<String> = machine
            .read("/etc/kubernetes-bootstrap/addons.list")?
            .lines()
            .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
            .collect();
        ensure!(addons.iter().any(|name| name == "openstack-cloud-controller-manager"), "{addons:?}");
        let network = setting(&machine, "NETWORK_DRIVER")?;
        let etcd = format!("volume of {}", ETCD_VOLUME.1);
        let begun = [etcd.as_str(), "address of the API", "kubeadm init", "holding the address of the API"].map(str::to_owned);
        let added = addons.iter().map(|name| format!("add-on {name}"));
        let ended = ["cloud provider", "readiness of the node", "end"].map(str::to_owned);
        let steps: Vec<String> =
            installed_with_volume().into_iter().chain(begun).chain([format!("pod network {network}")]).chain(added).chain(ended).collect();
        let told = told_steps(&machine)?;
        ensure!(told == steps, "{told:?} and not {steps:?}");
        let mut due = programs(&machine)?;
        due.push(setting(&machine, "CNI_MANIFEST")?.trim_start_matches("https://").to_owned());
        due.extend(manifests(&machine)?);
        let asked = self.site.asked(address(number));
        ensure!(asked == due, "{asked:?} and not {due:?}");

        // What the parts of Kubernetes were given.
        let calls = machine.read(CALLS)?;
        ensure!(calls.starts_with("kubeadm init --config /var/lib/kubernetes-bootstrap/init.yaml --skip-token-print\n"), "{calls}");
        let config = machine.read("/var/lib/stand-ins/init.yaml")?;
        for wanted in [format!("\"advertiseAddress\": \"{own}\""), format!("{api}:6443"), format!("\"{api}\", \"{own}\", \"203.0.113.9\"")]
        {
            ensure!(config.contains(&wanted), "no {wanted} in {config}");
        }
        let applied = machine.read("/var/lib/stand-ins/applied")?;
        ensure!(
            applied.contains("the-subnet") && applied.contains(&STANDARD.encode(&self.site.cloud)),
            "the cloud's values are not filled in"
        );
        ensure!(!applied.contains("@SUBNET_ID@") && !applied.contains("@CLOUD_CA@"), "a place is left");
        // The API server is told of files that are there, and users find one policy.
        for (path, word) in [(WEBHOOK, "webhook"), (AUTHORIZERS, "webhook"), (AUDIT_POLICY, "Metadata"), (SECRETS_AT_REST, SECRETS_KEY)] {
            let text = machine.read(path)?;
            serde_json::from_str::<Value>(&text).with_context(|| text.clone())?;
            ensure!(text.contains(word) && config.contains(path), "no {path}");
        }
        ensure!(machine.rights(SECRETS_AT_REST).as_deref() == Some("0:0 0600"), "{:?}", machine.rights(SECRETS_AT_REST));
        let unit = machine.read(UNIT)?;
        ensure!(unit.contains("\nSECRETS_KEY=\n") && !machine.read(LOG)?.contains(SECRETS_KEY), "the key is kept: {unit}");
        ensure!(machine.read("/var/lib/stand-ins/made")?.matches("\"k8s-keystone-auth-policy\"").count() == 1, "not one policy");
        is_master(&machine, &api).await?;
        has_volume(&machine, DATA_VOLUME.1).await?;
        has_volume(&machine, ETCD_VOLUME.1).await?;

        // Everything that starts by itself is there again, and nothing is done twice.
        let before = machine.read(LOG)?;
        machine.cut_power().await?;
        machine.boot()?;
        let again = wait::until("the machine to be up", BOOT, async || {
            let said = machine.tell(&["sh", "-c", "systemctl is-system-running; systemctl --failed --no-legend"]).await;
            let is_up = said.as_ref().is_ok_and(|said| said == "running");
            Ok(Seen::when(is_up, || said.unwrap_or_else(|error| format!("{error:#}"))))
        });
        again.await.with_context(|| machine.last_words())?;
        is_master(&machine, &api).await?;
        ensure!(machine.read(LOG)? == before, "it was made again: {}", machine.last_words());
        ensure!(self.site.asked(address(number)) == due, "it downloaded again: {:?}", self.site.asked(address(number)));
        self.told_once(path)
    }

    fn told_once(&self, path: &str) -> Result<()> {
        ensure!(self.site.signals(path).len() == 1, "{:?}", self.site.signals(path));
        ensure!(!self.site.has_refused(path), "somebody signalled without the token");
        Ok(())
    }

    async fn interrupted_worker(&self, number: u8, document: &str) -> Result<()> {
        let path = &format!("/v1/signals/{number}");
        let data = worker(document, number, "blue-node-0", path, &[("DATA_VOLUME", DATA_VOLUME.0)])?;
        let mut machine = self.machine(number, &data).await?;
        machine.attach(DATA_VOLUME.0).await?;
        self.site.withhold(Some("/kubelet"));
        machine.boot()?;
        let stuck = wait::until("the worker to ask for kubelet", BOOT, async || {
            let asked = self.site.asked(address(number));
            Ok(Seen::when(asked.last().is_some_and(|path| path.ends_with("/kubelet")), || format!("{asked:?}")))
        });
        stuck.await.with_context(|| machine.last_words())?;
        let kept = format!("{}/kept", DATA_VOLUME.1);
        machine.tell(&["sh", "-c", &format!("echo before >{kept} && sync {kept}")]).await?;
        machine.cut_power().await?;
        ensure!(self.site.signals(path).is_empty(), "{:?}", self.site.signals(path));
        self.site.withhold(None);

        machine.boot()?;
        let signal = self.signal(&machine, path).await?;
        ensure!(signal.status == "SUCCESS" && signal.id == "blue-node-0", "{signal:?}\n{}", machine.last_words());
        has_ended(&machine, data.image).await?;
        is_as_written(&machine, &data)?;
        let told = told_steps(&machine)?;
        // What was begun before it was killed, and then all.
        let joined = ["waiting for the API", "kubeadm join", "authorities", "readiness of the node", "end"].map(str::to_owned);
        let installed = installed_with_volume();
        let due: Vec<String> = installed[..4].iter().chain(&installed).chain(&joined).cloned().collect();
        ensure!(told == due, "{told:?} and not {due:?}");
        has_volume(&machine, DATA_VOLUME.1).await?;
        ensure!(machine.tell(&["cat", &kept]).await? == "before", "the volume was emptied");
        for unit in ["containerd.service", "kubelet.service"] {
            is_on(&machine, unit).await?;
        }
        let calls = machine.read(CALLS)?;
        ensure!(calls == format!("{JOIN}\n{}", is_ready("blue-node-0")), "{calls}");
        let config = machine.read("/var/lib/stand-ins/join.yaml")?;
        ensure!(config.contains(&format!("\"apiServerEndpoint\": \"{}:6443\"", gateway(number))), "{config}");
        // What it was given is trusted, whatever the cluster says.
        let given = machine.read("/etc/kubernetes-bootstrap/pki/ca.crt")?;
        ensure!(machine.read("/etc/kubernetes/pki/ca.crt")? == given, "another authority is trusted");
        ensure!(machine.read("/etc/kubernetes/kubelet.conf")?.contains(&STANDARD.encode(&given)), "kubelet trusts another authority");
        ensure!(!data.content().contains("PRIVATE KEY"), "a worker has a key");
        self.told_once(path)
    }

    async fn spoiled_worker(&self, number: u8, document: &str) -> Result<()> {
        let path = &format!("/v1/signals/{number}");
        let data = worker(document, number, "blue-node-1", path, &[])?;
        let mut machine = self.machine(number, &data).await?;
        self.site.spoil(Some("/kubeadm"));
        machine.boot()?;
        let signal = self.signal(&machine, path).await?;
        self.site.spoil(None);
        ensure!(signal.status == "FAILURE", "{signal:?}");
        let reason = &signal.reason;
        ensure!(
            reason.starts_with("blue-node-1: Kubernetes binaries failed: ")
                && reason.contains("/var/lib/kubernetes-bootstrap/kubeadm: FAILED"),
            "{reason}"
        );
        ensure!(machine.rights("/usr/local/bin/kubeadm").is_none(), "what was spoiled is a program now");
        ensure!(machine.rights("/var/lib/kubernetes-bootstrap/done").is_none(), "it is done");
        // A unit that is still on its way to its end is not started again.
        let question = ["systemctl", "show", "--property=ActiveState", "--value", "kubernetes-bootstrap.service"];
        let ended = wait::until("the first try to be over", PATIENCE, async || {
            let state = machine.tell(&question).await?;
            Ok(Seen::when(["failed", "inactive"].contains(&state.trim()), || state))
        });
        ended.await.with_context(|| machine.last_words())?;
        // As after a failure of its host.
        machine.tell(&["systemctl", "start", "--no-block", "kubernetes-bootstrap.service"]).await?;
        let tells = wait::until("the worker to tell of its second try", BOOT, async || {
            let told: Vec<_> = self.site.signals(path).into_iter().map(|signal| [signal.status, signal.data]).collect();
            let due = [["FAILURE", "absent"], ["FAILURE", "blue-node-1"], ["SUCCESS", "blue-node-1"]];
            Ok(Seen::when(told == due, || format!("{told:?}")))
        });
        tells.await.with_context(|| machine.last_words())?;
        has_ended(&machine, data.image).await
    }
}

/// The steps that a node with a volume for containers begins with.
fn installed_with_volume() -> Vec<String> {
    let volume = format!("volume of {}", DATA_VOLUME.1);
    INSTALLED[..1].iter().chain([&volume.as_str()]).chain(&INSTALLED[1..]).map(|step| (*step).to_owned()).collect()
}

/// That a volume is mounted, and once in fstab, of which systemd in a container leaves lines with devices alone.
async fn has_volume(machine: &Machine, path: &str) -> Result<()> {
    let mounted = machine.tell(&["findmnt", "--noheadings", "--output=FSTYPE,SOURCE", "--mountpoint", path]).await?;
    let (kind, device) = mounted.split_once(' ').with_context(|| mounted.clone())?;
    let id = machine.tell(&["blkid", "-s", "UUID", "-o", "value", device.trim()]).await?;
    let tab = machine.read("/etc/fstab")?;
    let lines: Vec<&str> = tab.lines().filter(|line| line.split_whitespace().nth(1) == Some(path)).collect();
    ensure!(kind == "ext4" && lines == [format!("UUID={id} {path} ext4 defaults,nofail 0 2")], "{mounted}: {tab}");
    Ok(())
}

/// That a unit runs, and starts by itself.
async fn is_on(machine: &Machine, unit: &str) -> Result<()> {
    for question in ["is-active", "is-enabled"] {
        machine.tell(&["systemctl", question, unit]).await.with_context(|| machine.last_words())?;
    }
    Ok(())
}

/// What runs on a master, and that it holds the address of the API.
async fn is_master(machine: &Machine, api: &str) -> Result<()> {
    for unit in ["containerd.service", "kubelet.service", "kubernetes-api-address.service", "kubernetes-succession.timer"] {
        is_on(machine, unit).await?;
    }
    let held = wait::until("the address of the API to be held", PATIENCE, async || {
        let addresses = machine.tell(&["ip", "-o", "-4", "address", "show"]).await?;
        Ok(Seen::when(addresses.contains(&format!(" {api}/32 ")), || addresses))
    });
    held.await
}

/// What the first master of a cluster without a load balancer is made with: nobody has its API's address before it. `more` are values that not every
/// one has.
fn first_master(document: &str, number: u8, path: &str, more: &[(&str, &str)]) -> Result<UserData> {
    let (own, api, endpoint) = (address(number).to_string(), free_address(number).to_string(), format!("https://{HEAT}{path}"));
    let mut values = vec![
        ("NODE_NAME", "blue-master-0"),
        ("NODE_INDEX", "0"),
        ("NODE_ADDRESS", own.as_str()),
        ("API_ADDRESS", api.as_str()),
        ("API_PUBLIC_ADDRESS", "203.0.113.9"),
        ("API_HOLDER", "yes"),
        ("SUBNET_ID", "the-subnet"),
        ("SECRETS_KEY", SECRETS_KEY),
        ("SIGNAL_ENDPOINT", endpoint.as_str()),
        ("SIGNAL_TOKEN", SIGNAL_TOKEN),
    ];
    values.extend(more);
    UserData::of(document, &values)
}

/// What a worker is made with; `more` are values that not every one has.
fn worker(document: &str, number: u8, name: &str, path: &str, more: &[(&str, &str)]) -> Result<UserData> {
    let (own, api, endpoint) = (address(number).to_string(), gateway(number).to_string(), format!("https://{HEAT}{path}"));
    let mut values = vec![
        ("NODE_NAME", name),
        ("NODE_ADDRESS", own.as_str()),
        ("API_ADDRESS", api.as_str()),
        ("SIGNAL_ENDPOINT", endpoint.as_str()),
        ("SIGNAL_TOKEN", SIGNAL_TOKEN),
    ];
    values.extend(more);
    UserData::of(document, &values)
}

/// The questions of a node that waits until it is ready, as the stand-ins keep them: it is so the second time.
fn is_ready(name: &str) -> String {
    let question =
        format!("kubectl --request-timeout 20s get node {name} -o jsonpath={{.status.conditions[?(@.type==\"Ready\")].status}}\n");
    question.repeat(2)
}

/// The script's last act is after its signal.
async fn has_ended(machine: &Machine, image: Image) -> Result<()> {
    let ended = wait::until("the script to end", PATIENCE, async || {
        let state = machine.tell(&["systemctl", "show", "--property=ActiveState,Result", "kubernetes-bootstrap.service"]).await?;
        Ok(Seen::when(state.contains("ActiveState=active") && state.contains("Result=success"), || state))
    });
    ended.await.with_context(|| machine.last_words())?;
    ensure!(machine.rights("/var/lib/kubernetes-bootstrap/done").is_some(), "it is not done");
    let unit = machine.read(UNIT)?;
    ensure!(unit.contains("\nSIGNAL_TOKEN=\n") && !unit.contains(SIGNAL_TOKEN), "the token is kept: {unit}");
    ensure!(!machine.read(LOG)?.contains(SIGNAL_TOKEN), "the log has the token");
    ensure!(machine.tell(&["sysctl", "-n", "net.ipv4.ip_forward", "net.bridge.bridge-nf-call-iptables"]).await? == "1\n1");
    // Pods do not reach the metadata service, by a rule that networkd takes for the kernel's.
    let rules = machine.tell(&["ip", "-details", "rule", "show"]).await?;
    let kept = |rule: &str| ["169.254.169.254", "prohibit", "kernel"].iter().all(|word| rule.split_whitespace().any(|part| part == *word));
    ensure!(rules.lines().any(kept), "{rules}");
    if image != Image::Ubuntu {
        return Ok(());
    }
    let status = machine.tell(&["cloud-init", "status", "--format", "json", "--wait"]).await?;
    let status: Value = serde_json::from_str(&status).with_context(|| status.clone())?;
    ensure!(text(&status, "status") == "done" && status["errors"] == json!([]), "{status}");
    Ok(())
}

/// Every link of the user data is there, and every file, root's, with its permissions, and with its content where nothing writes to it.
fn is_as_written(machine: &Machine, data: &UserData) -> Result<()> {
    ensure!(data.files.len() > 10, "{} files", data.files.len());
    for (path, target) in &data.links {
        let found = machine.link(path);
        ensure!(found.as_deref() == Some(Path::new(target)), "{path} leads to {found:?}");
    }
    for file in &data.files {
        let rights = machine.rights(&file.path).with_context(|| format!("no {}", file.path))?;
        ensure!(rights == format!("0:0 {}", file.permissions), "{}: {rights}", file.path);
        // The script forgets token and key there.
        if file.path != UNIT {
            ensure!(machine.read(&file.path)? == file.content, "{} has another content", file.path);
        }
    }
    Ok(())
}

fn told_steps(machine: &Machine) -> Result<Vec<String>> {
    Ok(machine.read(LOG)?.lines().filter_map(|line| line.strip_prefix("== ")).map(str::to_owned).collect())
}

/// A line of the node's settings.
fn setting(machine: &Machine, name: &str) -> Result<String> {
    let file = machine.read("/etc/kubernetes-bootstrap/node.env")?;
    let line = file.lines().find_map(|line| line.strip_prefix(&format!("{name}='"))).with_context(|| format!("no {name}"))?;
    Ok(line.trim_end_matches('\'').to_owned())
}

/// The downloads of every node, each followed by its sum, in order.
fn programs(machine: &Machine) -> Result<Vec<String>> {
    let version = |name: &str| setting(machine, name);
    let (arch, github) = (arch(), "github.com");
    let containerd = version("CONTAINERD_VERSION")?;
    let tarball = format!("{github}/containerd/containerd/releases/download/v{containerd}/containerd-{containerd}-linux-{arch}.tar.gz");
    let runc = format!("{github}/opencontainers/runc/releases/download/v{}", version("RUNC_VERSION")?);
    let plugins = version("CNI_VERSION")?;
    let plugins = format!("{github}/containernetworking/plugins/releases/download/v{plugins}/cni-plugins-linux-{arch}-v{plugins}.tgz");
    let mut all = vec![tarball.clone(), format!("{tarball}.sha256sum"), format!("{runc}/runc.{arch}"), format!("{runc}/runc.sha256sum")];
    all.extend([plugins.clone(), format!("{plugins}.sha256")]);
    for name in ["kubeadm", "kubelet", "kubectl"] {
        let program = format!("dl.k8s.io/release/{}/bin/linux/{arch}/{name}", version("KUBE_VERSION")?);
        all.extend([program.clone(), format!("{program}.sha256")]);
    }
    Ok(all)
}

/// The manifests of add-ons that are not on the node, in order.
fn manifests(machine: &Machine) -> Result<Vec<String>> {
    let list = machine.read("/etc/kubernetes-bootstrap/addons.list")?;
    Ok(list.lines().filter_map(|line| line.split(' ').nth(1)?.strip_prefix("https://")).map(str::to_owned).collect())
}
