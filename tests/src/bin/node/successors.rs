//! Masters that join others, and nodes that replace others: whom they see off and in which order, and what they tell when they cannot.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use tests::nodes::order;
use tests::wait::{self, PATIENCE, Seen};

use crate::data::UserData;
use crate::machine::{Machine, address, gateway};
use crate::site::{HEAT, SIGNAL_TOKEN, Signal};
use crate::{BOOT, CALLS, INSTALLED, JOIN, LOG, Nodes, SECRETS_KEY};
use crate::{has_ended, is_as_written, is_ready, manifests, programs, setting, told_steps, worker};

/// Other nodes of the cluster, as `scripts/succession.sh` asks for them. One master more than three: an earlier replacement left it.
const NODES: &str = "-|-|-|-|-|True|blue-master-0\n-|-|-|-|-|True|blue-master-1\n\
                     -|-|-|-|-|True|blue-master-2\n-|-|-|-|-|True|blue-master-4\n";
const WORKERS: &str = "-|-|-|-|-|True|blue-node-0\n-|-|-|-|-|True|blue-node-1\n";
/// Members of etcd.
const ETCD: &str = "a0, started, blue-master-0, https://192.0.2.240:2380, https://192.0.2.240:2379, false\n\
                    a1, started, blue-master-1, https://192.0.2.241:2380, https://192.0.2.241:2379, false\n\
                    a2, started, blue-master-2, https://192.0.2.242:2380, https://192.0.2.242:2379, false\n\
                    a4, started, blue-master-4, https://192.0.2.244:2380, https://192.0.2.244:2379, false\n";
/// What an earlier master left that was to replace others as well: its machine is gone. And what a join left that was cut off.
const DEAD_NODE: &str = "-|-|-|-|-|Unknown|blue-master-3\n";
const DEAD_MEMBER: &str = "a3, started, blue-master-3, https://192.0.2.243:2380, https://192.0.2.243:2379, false\n";
const LEFT_MEMBER: &str = "b6, unstarted, , https://192.0.2.246:2380, , true\n";
/// What a worker hands on, whatever it is.
const ORDER: &str = "0123456789abcdef";
/// The steps of a master beside an older one that stays, after those that every node begins with.
const NOT_RENEWED: [&str; 10] = [
    "waiting for the API",
    "configuration of the cluster",
    "members of etcd",
    "kubeadm join",
    "API of this master",
    "add-ons",
    "cloud provider",
    "readiness of the node",
    "seeing off blue-master-0",
    "end",
];
/// Tokens of the cluster: one that nodes joined by before, and one that is none of ours.
const TOKENS: &str = "bootstrap-token-older0 nodes of this cluster\nbootstrap-token-others somebody's own\n";

/// A file of what the stand-ins are told and keep.
pub fn stand_in(name: &str) -> String {
    format!("/var/lib/stand-ins/{name}")
}

impl Nodes<'_> {
    /// All of them at once: they wait most of their time. The documents are those of masters and workers of two clusters.
    pub async fn successions(&self, numbers: [u8; 6], three_masters: &[String; 2], short_of_time: &[String; 2]) -> Result<()> {
        let [joining, successor, hasty, stuck, workers, late] = numbers;
        let ([master, worker], [hasty_master, hasty_worker]) = (three_masters, short_of_time);
        tokio::try_join!(
            good("a master joins those that are there, and tells Heat once", self.joining_master(joining, master)),
            good(
                "a master that replaces others announces what is new, has etcd forget the dead, joins, sees them off, and later sees off workers",
                self.successor(successor, master)
            ),
            good(
                "a master whose predecessor's pods stay sees it off all the same, while there is time to tell Heat, and renews nothing beside an older one",
                self.hasty_successor(hasty, hasty_master)
            ),
            good(
                "a master whose predecessor cannot be taken out of etcd tells Heat so, and leaves it in the cluster",
                self.stuck_successor(stuck, master)
            ),
            good(
                "a worker that replaces others tells Heat when these are seen off, not before",
                self.successor_of_workers(workers, worker)
            ),
            good("a worker whose predecessor is not seen off in time tells Heat so", self.late_successor(late, hasty_worker)),
        )?;
        Ok(())
    }

    async fn joining_master(&self, number: u8, document: &str) -> Result<()> {
        let path = &format!("/v1/signals/{number}");
        let data = master(document, number, "blue-master-1", path, &[("NODE_PUBLIC_ADDRESS", "203.0.113.21")])?;
        let mut machine = self.machine(number, &data).await?;
        machine.boot()?;
        let signal = self.signal(&machine, path).await?;
        is_success(&signal, "blue-master-1", &machine)?;
        has_ended(&machine, data.image).await?;
        is_as_written(&machine, &data)?;
        took(&machine, &["waiting for the API", "kubeadm join", "certificate of the API", "readiness of the node", "end"])?;
        let (asked, due) = (self.site.asked(address(number)), programs(&machine)?);
        ensure!(asked == due, "{asked:?} and not {due:?}");
        let calls = machine.read(CALLS)?;
        let certified = "kubeadm init phase certs apiserver --config /var/lib/kubernetes-bootstrap/init.yaml";
        ensure!(calls == format!("{JOIN}\n{certified}\n{}", is_ready("blue-master-1")), "{calls}");
        // Clients reach it at its own address as well.
        let names = format!("\"{}\", \"{}\", \"203.0.113.9\", \"203.0.113.21\"", gateway(number), address(number));
        let config = machine.read(&stand_in("certified.yaml"))?;
        ensure!(config.contains(&names), "no {names} in {config}");
        has_joined(&machine, number)?;
        self.told_once(path)
    }

    async fn successor(&self, number: u8, document: &str) -> Result<()> {
        let (name, path) = ("blue-master-5", &format!("/v1/signals/{number}"));
        // The last phase of a rotation of authorities has one step more than others.
        let data = master(document, number, name, path, &[("GENERATION", "second-retire"), ("REPLACES", "0,1,3")])?;
        let mut machine = self.machine(number, &data).await?;
        // The pod of the dead one is the first that is asked.
        let (nodes, etcd) = (format!("{NODES}{DEAD_NODE}"), format!("{DEAD_MEMBER}{ETCD}{LEFT_MEMBER}"));
        for (file, text) in [
            ("nodes", nodes.as_str()),
            ("etcd", etcd.as_str()),
            ("dead", "blue-master-3\n"),
            ("tokens", TOKENS),
            ("once-drain-blue-master-1", ""),
        ] {
            machine.write(&stand_in(file), text)?;
        }
        machine.boot()?;
        let signal = self.signal(&machine, path).await?;
        is_success(&signal, name, &machine)?;
        has_ended(&machine, data.image).await?;
        is_as_written(&machine, &data)?;

        let addons = machine.read("/etc/kubernetes-bootstrap/addons.list")?;
        let addons = addons.lines().map(|line| format!("add-on {}", line.split(' ').next().unwrap_or_default()));
        let network = format!("pod network {}", setting(&machine, "NETWORK_DRIVER")?);
        let begun =
            ["waiting for the API", "configuration of the cluster", "members of etcd", "kubeadm join", "API of this master", "add-ons"];
        let ended = ["cloud provider", "readiness of the node"].map(str::to_owned).into_iter();
        let ended = ended.chain(["0", "1", "3"].map(|number| format!("seeing off blue-master-{number}")));
        let ended = ended.chain(["authorities that extensions know", "end"].map(str::to_owned));
        let steps: Vec<String> = begun.into_iter().map(str::to_owned).chain([network]).chain(addons).chain(ended).collect();
        took(&machine, &steps.iter().map(String::as_str).collect::<Vec<_>>())?;
        let mut due = programs(&machine)?;
        due.push(setting(&machine, "CNI_MANIFEST")?.trim_start_matches("https://").to_owned());
        due.extend(manifests(&machine)?);
        let asked = self.site.asked(address(number));
        ensure!(asked == due, "{asked:?} and not {due:?}");

        // What is new is announced before anything is made by it; nobody goes before the new one is a master that is ready.
        let calls = machine.read(CALLS)?;
        let (before, after) = calls.split_once(&is_ready(name)).with_context(|| calls.clone())?;
        let wanted = announcement();
        ensure!(before.starts_with(&wanted), "{before} and not {wanted}");
        ensure!(after.contains(&format!("{} --timeout 600s\n", drained("own.conf", "blue-master-0").trim_end())), "{after}");
        // That one of them cannot be drained at once is not the end of it; the dead one is gone already.
        let wanted = format!("{}{}{}", seen_off(name, "0", 1), seen_off(name, "1", 2), found_gone(name, "3"));
        let forgotten = "own.conf: kubectl --request-timeout 60s -n kube-system delete configmap extension-apiserver-authentication \
                         --ignore-not-found\n";
        ensure!(untimed(after) == format!("{wanted}{forgotten}"), "{after} and not {wanted}{forgotten}");
        let log = machine.read(LOG)?;
        ensure!(!log.contains(" was not drained"), "{log}");
        has_joined(&machine, number)?;
        ensure!(members(&machine)? == ["blue-master-2", "blue-master-4", name], "{:?}", members(&machine)?);
        // Its own API server was asked: another one's etcd may be the one that goes.
        let own = machine.read("/var/lib/kubernetes-bootstrap/own.conf")?;
        ensure!(own.contains(&format!("    server: https://{}:6443\n", address(number))), "{own}");
        ensure!(machine.rights("/etc/kubernetes/super-admin.conf").is_none(), "it kept what may do everything");
        let announced = machine.read(&stand_in("announced.yaml"))?;
        ensure!(announced.contains(&format!("\"controlPlaneEndpoint\": \"{}:6443\"", gateway(number))), "{announced}");

        sees_off_workers(&machine).await?;
        self.told_once(path)
    }

    async fn hasty_successor(&self, number: u8, document: &str) -> Result<()> {
        let (name, path) = ("blue-master-5", &format!("/v1/signals/{number}"));
        let data = master(document, number, name, path, &[("GENERATION", "second"), ("REPLACES", "0")])?;
        let mut machine = self.machine(number, &data).await?;
        // It is ready at once: its time is for what comes then. Of two older ones it replaces one.
        let (undrainable, older) = ("blue-master-0\n", "blue-master-0\nblue-master-2\n");
        for (file, text) in [("nodes", NODES), ("etcd", ETCD), ("undrainable", undrainable), ("older", older), ("asked", "\n")] {
            machine.write(&stand_in(file), text)?;
        }
        machine.boot()?;
        let signal = self.signal(&machine, path).await?;
        is_success(&signal, name, &machine)?;
        has_ended(&machine, data.image).await?;
        let log = machine.read(LOG)?;
        ensure!(log.contains("blue-master-0 was not drained in time"), "{log}");
        // What runs beside the masters stays as it is, but that the cloud knows this one is waited for.
        ensure!(log.contains("not while there is an older version on blue-master-2\n"), "{log}");
        took(&machine, &NOT_RENEWED)?;
        let (asked, due) = (self.site.asked(address(number)), programs(&machine)?);
        ensure!(asked == due, "{asked:?} and not {due:?}");
        ensure!(members(&machine)? == ["blue-master-1", "blue-master-2", "blue-master-4", name], "{:?}", members(&machine)?);
        let calls = untimed(&machine.read(CALLS)?);
        ensure!(calls.ends_with(&seen_off(name, "0", 1)), "{calls}");
        ensure!(!calls.contains("kubeadm init phase addon") && !calls.contains("kubectl apply"), "{calls}");
        self.told_once(path)
    }

    async fn stuck_successor(&self, number: u8, document: &str) -> Result<()> {
        let (name, path) = ("blue-master-5", &format!("/v1/signals/{number}"));
        let data = master(document, number, name, path, &[("GENERATION", "second"), ("REPLACES", "0")])?;
        let mut machine = self.machine(number, &data).await?;
        for (file, text) in [("nodes", NODES), ("etcd", ETCD), ("stuck", "")] {
            machine.write(&stand_in(file), text)?;
        }
        machine.boot()?;
        let signal = self.signal(&machine, path).await?;
        is_failure(&signal, &format!("{name}: seeing off blue-master-0 failed: "), "etcdserver: unhealthy cluster")?;
        let calls = machine.read(CALLS)?;
        ensure!(calls.matches(" member remove a0\n").count() > 1, "it tried once: {calls}");
        // Its machine goes on being a master until it is seen off.
        ensure!(!calls.contains(" delete node ") && members(&machine)?.iter().any(|member| member == "blue-master-0"), "{calls}");
        is_not_done(&machine)?;
        self.told_once(path)
    }

    async fn successor_of_workers(&self, number: u8, document: &str) -> Result<()> {
        let (name, path) = ("blue-node-2", &format!("/v1/signals/{number}"));
        let data = worker(document, number, name, path, &[("GENERATION", "second"), ("REPLACES", "0,1"), ("NEWCOMERS", "2")])?;
        let mut machine = self.machine(number, &data).await?;
        // It came with the document of another day.
        machine.write("/etc/kubernetes-bootstrap/order", ORDER)?;
        machine.boot()?;
        let asks = wait::until("the worker to say whom it replaces", BOOT, async || {
            let calls = machine.read(CALLS).unwrap_or_default();
            Ok(Seen::when(calls.contains("magnum.openstack.org/replaces="), || calls))
        });
        asks.await.with_context(|| machine.last_words())?;
        ensure!(self.site.signals(path).is_empty(), "{:?}", self.site.signals(path));
        // As a master does that has seen them off.
        machine.write(&stand_in("replaced"), "blue-node-0,blue-node-1")?;
        let signal = self.signal(&machine, path).await?;
        is_success(&signal, name, &machine)?;
        has_ended(&machine, data.image).await?;
        is_as_written(&machine, &data)?;
        took(&machine, &["waiting for the API", "kubeadm join", "authorities", "readiness of the node", "handing over", "end"])?;
        let calls = machine.read(CALLS)?;
        let said = format!(
            "kubelet.conf: kubectl --request-timeout 20s annotate node {name} --overwrite \
             magnum.openstack.org/replaces=blue-node-0,blue-node-1 magnum.openstack.org/newcomers=2 magnum.openstack.org/order={ORDER} \
             magnum.openstack.org/until="
        );
        let rest = calls.strip_prefix(&format!("{JOIN}\n{}", is_ready(name))).with_context(|| calls.clone())?;
        let until = rest.lines().next().and_then(|line| line.strip_prefix(&said)).with_context(|| format!("{rest} and not {said}"))?;
        ensure!(rest.lines().all(|line| line == format!("{said}{until}")), "it changes its mind: {rest}");
        // Masters look at those that bear a label: it does as long as it waits.
        let labels = machine.read(&stand_in("labels"))?;
        let label = "magnum.openstack.org/replaces";
        ensure!(labels.starts_with(&format!("{label}=\n")) && labels.ends_with(&format!("{label}=\n{label}-\n")), "{labels}");
        // Two drains, one after the other, and a little more.
        let until: u64 = until.parse().with_context(|| rest.to_owned())?;
        ensure!((since_epoch()?..=since_epoch()? + 1500).contains(&until), "{until} at {}", since_epoch()?);
        self.told_once(path)
    }

    async fn late_successor(&self, number: u8, document: &str) -> Result<()> {
        let (name, path) = ("blue-node-2", &format!("/v1/signals/{number}"));
        let data = worker(document, number, name, path, &[("GENERATION", "second"), ("REPLACES", "0"), ("NEWCOMERS", "1")])?;
        let mut machine = self.machine(number, &data).await?;
        // It is ready at once: its time is for what comes then.
        machine.write(&stand_in("asked"), "\n")?;
        machine.boot()?;
        let signal = self.signal(&machine, path).await?;
        is_failure(&signal, &format!("{name}: handing over failed: "), "blue-node-0 were not seen off in time")?;
        is_not_done(&machine)?;
        self.told_once(path)
    }
}

/// Tells that it is so.
pub async fn good(what: &str, test: impl Future<Output = Result<()>>) -> Result<()> {
    test.await.with_context(|| format!("it is not so: {what}"))?;
    println!("ok - {what}");
    Ok(())
}

/// What a master of a cluster with a load balancer is made with, where the API answers already.
pub fn master(document: &str, number: u8, name: &str, path: &str, more: &[(&str, &str)]) -> Result<UserData> {
    let (own, api, endpoint) = (address(number).to_string(), gateway(number).to_string(), format!("https://{HEAT}{path}"));
    let index = name.rsplit('-').next().context("a number")?;
    let mut values = vec![
        ("NODE_NAME", name),
        ("NODE_INDEX", index),
        ("NODE_ADDRESS", own.as_str()),
        ("API_ADDRESS", api.as_str()),
        ("API_PUBLIC_ADDRESS", "203.0.113.9"),
        ("SUBNET_ID", "the-subnet"),
        ("SECRETS_KEY", SECRETS_KEY),
        ("SIGNAL_ENDPOINT", endpoint.as_str()),
        ("SIGNAL_TOKEN", SIGNAL_TOKEN),
    ];
    values.extend(more);
    UserData::of(document, &values)
}

pub fn is_success(signal: &Signal, name: &str, machine: &Machine) -> Result<()> {
    let is_told = signal.status == "SUCCESS" && [&signal.id, &signal.data] == [name; 2] && signal.reason == format!("{name} is ready");
    ensure!(is_told, "{signal:?}\n{}", machine.last_words());
    Ok(())
}

/// Of one that has joined: it stays until others see it off.
fn is_failure(signal: &Signal, step: &str, word: &str) -> Result<()> {
    ensure!(signal.status == "FAILURE" && signal.reason.starts_with(step) && signal.reason.contains(word), "{signal:?}");
    ensure!(signal.data == signal.id, "{signal:?}");
    Ok(())
}

fn is_not_done(machine: &Machine) -> Result<()> {
    ensure!(machine.rights("/var/lib/kubernetes-bootstrap/done").is_none(), "it is done");
    Ok(())
}

/// The steps of a node, after those that every one begins with.
fn took(machine: &Machine, further: &[&str]) -> Result<()> {
    let (told, due) = (told_steps(machine)?, INSTALLED.iter().chain(further).copied().collect::<Vec<_>>());
    ensure!(told == due, "{told:?} and not {due:?}");
    Ok(())
}

/// What a master has that has joined others.
fn has_joined(machine: &Machine, number: u8) -> Result<()> {
    let config = machine.read(&stand_in("join.yaml"))?;
    let (api, own) = (gateway(number), address(number));
    for wanted in [format!("\"apiServerEndpoint\": \"{api}:6443\""), format!("\"advertiseAddress\": \"{own}\"")] {
        ensure!(config.contains(&wanted), "no {wanted} in {config}");
    }
    let given = machine.read("/etc/kubernetes-bootstrap/pki/ca.crt")?;
    ensure!(machine.read("/etc/kubernetes/pki/ca.crt")? == given, "another authority is trusted");
    let rights = machine.rights("/etc/kubernetes/pki/ca.key");
    ensure!(rights.as_deref() == Some("0:0 0600"), "{rights:?}");
    Ok(())
}

/// The names of etcd's members.
fn members(machine: &Machine) -> Result<Vec<String>> {
    let listed = machine.read(&stand_in("etcd"))?;
    Ok(listed.lines().filter_map(|line| line.split(", ").nth(2)).map(str::to_owned).collect())
}

/// What is called until a master of a new generation has joined, which replaces one that is dead: it is looked for three times.
fn announcement() -> String {
    let (init, admin) = ("/var/lib/kubernetes-bootstrap/init.yaml", "/etc/kubernetes/super-admin.conf");
    let [dead, live] = ["blue-master-3", "blue-master-0"].map(|name| etcdctl("super-admin.conf", name));
    let look = format!("{dead} member list\n{live} member list\n{live} endpoint health --cluster\n");
    let cleared =
        format!("{}{live} member remove a3\n{}{live} member remove b6\n", look.repeat(3), deleted("super-admin.conf", "blue-master-3"));
    format!(
        "kubeadm init phase kubeconfig super-admin --config {init}\n\
         kubeadm init phase upload-config kubeadm --config {init} --kubeconfig {admin}\n\
         kubeadm init phase bootstrap-token --skip-token-print --config {init} --kubeconfig {admin}\n\
         admin.conf: kubectl --kubeconfig {admin} --request-timeout 60s -n kube-system delete secret bootstrap-token-older0 --ignore-not-found\n\
         {cleared}{JOIN}\n\
         kubeadm init phase upload-config kubelet --config {init}\n\
         kubeadm init phase addon all --config {init}\n"
    )
}

/// How a master, through its own API server, sees off the one of this number: with so many drains until one is good.
fn seen_off(name: &str, number: &str, drains: usize) -> String {
    let (etcdctl, old) = (etcdctl("own.conf", name), format!("blue-master-{number}"));
    let drain = format!("{}{}", asked_after("own.conf", &old), drained("own.conf", &old));
    format!("{}{etcdctl} member list\n{etcdctl} member remove a{number}\n{}", drain.repeat(drains), deleted("own.conf", &old))
}

/// How it does so with one that is neither in the cluster nor in etcd.
fn found_gone(name: &str, number: &str) -> String {
    let old = format!("blue-master-{number}");
    format!("{}{} member list\n{}", asked_after("own.conf", &old), etcdctl("own.conf", name), deleted("own.conf", &old))
}

/// How this one's member of etcd is asked, but for what.
fn etcdctl(config: &str, name: &str) -> String {
    let pki = "/etc/kubernetes/pki/etcd";
    format!(
        "{config}: kubectl --request-timeout 20s -n kube-system exec etcd-{name} -- etcdctl --endpoints https://127.0.0.1:2379 \
         --cacert {pki}/ca.crt --cert {pki}/server.crt --key {pki}/server.key"
    )
}

fn asked_after(config: &str, node: &str) -> String {
    format!("{config}: kubectl --request-timeout 20s get node {node} --ignore-not-found -o name\n")
}

/// Without the time that it has.
fn drained(config: &str, node: &str) -> String {
    format!("{config}: kubectl --request-timeout 60s drain {node} --ignore-daemonsets --delete-emptydir-data --force\n")
}

/// Calls without the time that a drain has: what is left of it when it is done again, nobody knows before.
fn untimed(calls: &str) -> String {
    calls.lines().flat_map(|line| [line.split_once(" --timeout ").map_or(line, |(call, _)| call), "\n"]).collect()
}

fn deleted(config: &str, node: &str) -> String {
    format!("{config}: kubectl --request-timeout 20s delete node {node} --ignore-not-found\n")
}

/// This moment, as nodes tell it.
fn since_epoch() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

/// A master sees off workers that others replace by order, once all of these are ready, and tells each of them when the last has gone. Nobody goes
/// because a node says so.
async fn sees_off_workers(machine: &Machine) -> Result<()> {
    machine.tell(&["systemctl", "is-active", "kubernetes-succession.timer"]).await.with_context(|| machine.last_words())?;
    let before = machine.read(CALLS)?;
    // One that nobody can ask after is not gone, and one that cannot be drained at once is drained all the same.
    for fault in ["once-get-blue-node-0", "once-drain-blue-node-1"] {
        machine.write(&stand_in(fault), "")?;
    }
    let until = since_epoch()? + 3000;
    let order = order(&machine.read("/etc/kubernetes/pki/ca.key")?, "blue-node-0,blue-node-1 2");
    let newcomer = format!("blue-node-0,blue-node-1|2|{order}|-|{until}");
    let liars = format!("blue-master-0|1|{order}|-|{until}|True|blue-node-7\nblue-node-0|1|-|-|{until}|True|blue-node-8\n");
    // The timer looks too: what is done is done once, whoever does it.
    for is_ready in ["False", "True"] {
        let calls = machine.read(CALLS)?;
        ensure!(calls == before, "somebody was seen off too early: {calls}");
        let newcomers = format!("{newcomer}|True|blue-node-2\n{newcomer}|{is_ready}|blue-node-3\n");
        machine.write(&stand_in("nodes"), &format!("{NODES}{WORKERS}{liars}{newcomers}"))?;
        machine.tell(&["systemctl", "start", "kubernetes-succession.service"]).await.with_context(|| machine.last_words())?;
    }
    let (drained, deleted) = (|name: &str| drained("admin.conf", name), |name: &str| deleted("admin.conf", name));
    let first = drained("blue-node-1").repeat(2) + &deleted("blue-node-1");
    let second = drained("blue-node-0") + &deleted("blue-node-0");
    let told = |name: &str| {
        format!(
            "admin.conf: kubectl --request-timeout 20s annotate node {name} \
             magnum.openstack.org/replaced=blue-node-0,blue-node-1 --overwrite\n"
        )
    };
    let wanted = format!("{}{first}{second}{}{}", untimed(&before), told("blue-node-2"), told("blue-node-3"));
    let done = wait::until("the workers to be seen off", PATIENCE, async || {
        let calls = untimed(&machine.read(CALLS)?);
        Ok(Seen::when(calls == wanted, || format!("{calls} and not {wanted}")))
    });
    done.await?;
    let left = machine.read(&stand_in("nodes"))?;
    ensure!(left.lines().all(|line| !line.ends_with("|blue-node-0") && !line.ends_with("|blue-node-1")), "{left}");
    Ok(())
}
