//! Machines that restart after they have begun or joined a cluster and before they are nodes: they go on, and nothing is put back.

use anyhow::{Context, Result, ensure};
use tests::wait::{self, Seen};

use crate::machine::{Machine, address, free_address};
use crate::successors::{good, is_success, master, stand_in};
use crate::{BOOT, CALLS, INSTALLED, JOIN, LOG, Nodes};
use crate::{first_master, has_ended, is_master, setting, told_steps, worker};

/// What a node keeps when it is a part of the cluster. Without it, it is one that was cut off just before.
const JOINED: &str = "/var/lib/kubernetes-bootstrap/joined";
const INIT: &str = "kubeadm init --config /var/lib/kubernetes-bootstrap/init.yaml --skip-token-print";
/// The ends of what a first master downloads when its cluster is there: its pod network, and the manifest of an add-on.
const NETWORK: &str = "/kube-flannel.yml";
const ADD_ON: &str = "/components.yaml";

impl Nodes<'_> {
    /// All of them at once: what is withheld is withheld from all, and only the first one asks for it. The documents are those of masters and
    /// workers of two clusters.
    pub async fn restarts(&self, numbers: [u8; 3], usual: &[String; 2], three_masters: &[String; 2]) -> Result<()> {
        let [first, joining, handing] = numbers;
        tokio::try_join!(
            good("a first master that restarts goes on with the cluster that it has begun", self.restarted_first_master(first, &usual[0])),
            good("a master that restarts when it has joined does not join again", self.restarted_master(joining, &three_masters[0])),
            good("a worker that restarts while it hands over goes on with that", self.restarted_worker(handing, &usual[1])),
        )?;
        Ok(())
    }

    /// Cut off twice: when the cluster is made, and it was not kept that it is; and between add-ons.
    async fn restarted_first_master(&self, number: u8, document: &str) -> Result<()> {
        let path = &format!("/v1/signals/{number}");
        let data = first_master(document, number, path, &[])?;
        let mut machine = self.machine(number, &data).await?;
        for withheld in [NETWORK, ADD_ON] {
            self.site.withhold(Some(withheld));
            machine.boot()?;
            let stuck = wait::until("the master to ask for a manifest", BOOT, async || {
                let asked = self.site.asked(address(number));
                Ok(Seen::when(asked.last().is_some_and(|path| path.ends_with(withheld)), || format!("{asked:?}")))
            });
            stuck.await.with_context(|| machine.last_words())?;
            machine.cut_power().await?;
            if withheld == NETWORK {
                machine.remove(JOINED)?;
            }
        }
        self.site.withhold(None);
        ensure!(self.site.signals(path).is_empty(), "{:?}", self.site.signals(path));
        machine.boot()?;
        let signal = self.signal(&machine, path).await?;
        is_success(&signal, "blue-master-0", &machine)?;
        has_ended(&machine, data.image).await?;

        // Nothing is left out, though its own API answers when it begins for the second and the third time.
        let network = format!("pod network {}", setting(&machine, "NETWORK_DRIVER")?);
        let list = machine.read("/etc/kubernetes-bootstrap/addons.list")?;
        let addons: Vec<String> = list.lines().map(|line| format!("add-on {}", line.split(' ').next().unwrap_or_default())).collect();
        let withheld = list.lines().position(|line| line.split(' ').any(|word| word.ends_with(ADD_ON))).context("the add-on")?;
        let begun = |step| INSTALLED.into_iter().chain(["address of the API", step, "holding the address of the API", network.as_str()]);
        let steps: Vec<&str> = begun("kubeadm init")
            .chain(begun("kubeadm init"))
            .chain(addons[..=withheld].iter().map(String::as_str))
            .chain(begun("waiting for the API"))
            .chain(addons.iter().map(String::as_str))
            .chain(["cloud provider", "readiness of the node", "end"])
            .collect();
        let told = told_steps(&machine)?;
        ensure!(told == steps, "{told:?} and not {steps:?}");
        // The second time over what is there.
        asked_kubeadm(&machine, &[INIT, &format!("{INIT} --skip-phases preflight")])?;
        is_master(&machine, &free_address(number).to_string()).await?;
        self.told_once(path)
    }

    async fn restarted_master(&self, number: u8, document: &str) -> Result<()> {
        let (name, path) = ("blue-master-1", &format!("/v1/signals/{number}"));
        let data = master(document, number, name, path, &[])?;
        let mut machine = self.machine(number, &data).await?;
        machine.write(&stand_in("unready"), "")?;
        cut_off_at(&mut machine, "readiness of the node", 1).await?;
        machine.remove(JOINED)?;
        machine.remove(&stand_in("unready"))?;
        machine.boot()?;
        let signal = self.signal(&machine, path).await?;
        is_success(&signal, name, &machine)?;
        has_ended(&machine, data.image).await?;
        // Its own API tells that it is one.
        let [before, after] = [["kubeadm join", "readiness of the node"], ["end of kubeadm join", "readiness of the node"]]
            .map(|further| INSTALLED.into_iter().chain(["waiting for the API"]).chain(further));
        let steps: Vec<&str> = before.chain(after).chain(["end"]).collect();
        let told = told_steps(&machine)?;
        ensure!(told == steps, "{told:?} and not {steps:?}");
        let marks = "kubeadm join phase control-plane-join mark-control-plane --config /var/lib/kubernetes-bootstrap/join.yaml";
        asked_kubeadm(&machine, &[JOIN, marks])?;
        self.told_once(path)
    }

    /// Cut off twice, too, the first time before it was kept that it has joined.
    async fn restarted_worker(&self, number: u8, document: &str) -> Result<()> {
        let (name, path) = ("blue-node-2", &format!("/v1/signals/{number}"));
        let data = worker(document, number, name, path, &[("GENERATION", "second"), ("REPLACES", "0"), ("NEWCOMERS", "1")])?;
        let mut machine = self.machine(number, &data).await?;
        cut_off_at(&mut machine, "handing over", 1).await?;
        machine.remove(JOINED)?;
        cut_off_at(&mut machine, "handing over", 2).await?;
        ensure!(self.site.signals(path).is_empty(), "{:?}", self.site.signals(path));
        // As a master does that has seen it off.
        machine.write(&stand_in("replaced"), "blue-node-0")?;
        machine.boot()?;
        let signal = self.signal(&machine, path).await?;
        is_success(&signal, name, &machine)?;
        has_ended(&machine, data.image).await?;
        let first = ["waiting for the API", "kubeadm join", "authorities", "readiness of the node", "handing over"];
        let later = ["waiting for the API", "authorities", "readiness of the node", "handing over"];
        let begun = || INSTALLED.into_iter();
        let steps: Vec<&str> = begun().chain(first).chain(begun()).chain(later).chain(begun()).chain(later).chain(["end"]).collect();
        let told = told_steps(&machine)?;
        ensure!(told == steps, "{told:?} and not {steps:?}");
        asked_kubeadm(&machine, &[JOIN])?;
        self.told_once(path)
    }
}

/// Switches it on, and all that runs in it is killed when it has told of this step so many times.
async fn cut_off_at(machine: &mut Machine, step: &str, times: usize) -> Result<()> {
    machine.boot()?;
    let tells = wait::until("the machine to come to a step", BOOT, async || {
        let log = machine.read(LOG).unwrap_or_default();
        Ok(Seen::when(log.matches(&format!("== {step}\n")).count() == times, || log))
    });
    tells.await.with_context(|| machine.last_words())?;
    machine.cut_power().await
}

/// Of kubeadm exactly this was asked: nothing was put back, and nothing done twice.
fn asked_kubeadm(machine: &Machine, due: &[&str]) -> Result<()> {
    let calls = machine.read(CALLS)?;
    let asked: Vec<&str> = calls.lines().filter(|call| call.starts_with("kubeadm ")).collect();
    ensure!(asked == due, "{asked:?} and not {due:?}");
    Ok(())
}
