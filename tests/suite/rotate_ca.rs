//! A cluster gets new certificate authorities, and no part of it ever meets one that it does not trust.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use openssl::stack::Stack;
use openssl::x509::store::X509StoreBuilder;
use openssl::x509::{X509, X509StoreContext};
use reqwest::Method;
use rstest::rstest;
use serde_json::{Map, Value, json};
use tests::client::{Client, text};
use tests::kubeconfig;
use tests::kubernetes::{ApiServer, Authority};
use tests::nodes::{self, servers, set};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

const BASE: &str = "/etc/kubernetes-bootstrap";

/// Far more changes of a stack than one rotation makes.
const MOST: usize = 60;

async fn rotate(demo: &Client, cluster: &str) -> Result<()> {
    let answer = demo.send(Method::PATCH, &format!("/v1/certificates/{cluster}"), None).await?.expect(202)?;
    ensure!(answer.body["uuid"] == cluster, "{}", answer.text);
    Ok(())
}

/// The certificates of a PEM text, each as text.
fn certificates(pem: &str) -> Vec<String> {
    let end = "-----END CERTIFICATE-----";
    pem.split_inclusive(end).map(|one| one.trim().to_owned()).filter(|one| one.ends_with(end)).collect()
}

async fn authority(demo: &Client, cluster: &str, kind: &str) -> Result<Vec<String>> {
    let answer = demo.get(&format!("/v1/certificates/{cluster}?ca_cert_type={kind}")).await?.expect(200)?;
    Ok(certificates(&text(&answer.body, "pem")))
}

fn is_signed_by(certificate: &str, authority: &str) -> Result<bool> {
    let mut trusted = X509StoreBuilder::new()?;
    trusted.add_cert(X509::from_pem(authority.as_bytes())?)?;
    let certificate = X509::from_pem(certificate.as_bytes())?;
    Ok(X509StoreContext::new()?.init(&trusted.build(), &certificate, Stack::new()?.as_ref(), |context| context.verify_cert())?)
}

/// What the nodes of a generation show and trust.
struct Kind {
    /// Of Kubernetes, etcd, the front proxy, and the keys of service accounts; the first of each is what it shows or signs with. Workers
    /// have the first only.
    authorities: [Vec<String>; 4],
    /// By which nodes may join, or the one by which it does.
    tokens: Vec<String>,
    /// Who signed what a worker shows: whoever did so when it came.
    shown: Option<String>,
}

impl Kind {
    fn read(parameters: &Map<String, Value>, name: &str, is_master: bool) -> Result<Self> {
        let data = parameters.get(name).and_then(Value::as_str).with_context(|| format!("no {name}"))?;
        let data: Value = serde_json::from_str(data)?;
        let read = |file: &str| nodes::file(&data, &format!("{BASE}/{file}"));
        let ca = certificates(&read("pki/ca.crt")?);
        let join = documents(&read("join.yaml")?)?;
        let token = text(&join[0]["discovery"]["bootstrapToken"], "token");
        if !is_master {
            return Ok(Self { authorities: [ca, Vec::new(), Vec::new(), Vec::new()], tokens: vec![token], shown: None });
        }
        let init = documents(&read("init.yaml")?)?;
        let tokens: Vec<String> = init[0]["bootstrapTokens"].as_array().context("tokens")?.iter().map(|t| text(t, "token")).collect();
        ensure!(tokens.contains(&token), "a master joins by a token that it does not announce");
        let end = "-----END PUBLIC KEY-----";
        let public = read("pki/sa.pub")?;
        let accounts = public.split_inclusive(end).map(|one| one.trim().to_owned()).filter(|one| one.ends_with(end)).collect();
        let authorities = [ca, certificates(&read("pki/etcd/ca.crt")?), certificates(&read("pki/front-proxy-ca.crt")?), accounts];
        Ok(Self { authorities, tokens, shown: None })
    }
}

fn documents(text: &str) -> Result<Vec<Value>> {
    text.split("---\n").map(|document| Ok(serde_json::from_str(document)?)).collect()
}

/// Kinds of nodes that may be alive, of each pool of each stack, the newest last, with their generations.
#[derive(Default)]
struct Fleet {
    pools: BTreeMap<(String, bool), Vec<(String, Kind)>>,
    /// Kinds of masters that there have been.
    masters: usize,
    /// What the stacks were made from when last looked at.
    parameters: BTreeMap<String, Map<String, Value>>,
}

impl Fleet {
    /// Takes note of what the nodes are made of now, and checks who meets whom.
    fn look(&mut self, world: &World) -> Result<()> {
        let mut stacks = world.cloud.stacks();
        stacks.sort_by_key(|stack| !stack.parameters.contains_key("master_user_data"));
        for stack in stacks {
            let last = self.parameters.insert(stack.id.clone(), stack.parameters.clone());
            // Masters with another one could not read what is there.
            let key = |parameters: &Map<String, Value>| parameters.get("secrets_key").cloned();
            let now = key(&stack.parameters);
            ensure!(
                now.is_some() == stack.parameters.contains_key("master_user_data") && last.as_ref().is_none_or(|last| key(last) == now),
                "another key for secrets"
            );
            for (is_master, [generation, former, user_data]) in [
                (true, ["master_generation", "former_masters", "master_user_data"]),
                (false, ["minion_generation", "former_minions", "worker_user_data"]),
            ] {
                let value = |name: &str| stack.parameters.get(name);
                if value(user_data).is_none() {
                    continue;
                }
                let is_at_work = stack.status == "UPDATE_IN_PROGRESS"
                    && [generation, former].iter().any(|name| last.as_ref().and_then(|last| last.get(*name)) != value(name));
                let generation = value(generation).and_then(Value::as_str).unwrap_or_default().to_owned();
                let key = (stack.id.clone(), is_master);
                if self.pools.get(&key).and_then(|seen| seen.last()).is_none_or(|(last, _)| *last != generation) {
                    let mut kind = Kind::read(&stack.parameters, user_data, is_master)?;
                    self.masters += usize::from(is_master);
                    if !is_master {
                        let newest = self.newest_master()?;
                        ensure!(
                            newest.tokens.contains(&kind.tokens[0]),
                            "a worker of {generation:?} joins by a token that is not announced"
                        );
                        kind.shown = newest.authorities[0].first().cloned();
                    }
                    self.pools.entry(key.clone()).or_default().push((generation, kind));
                }
                let are_former_gone = value(former).is_none_or(|former| matches!(former, Value::Object(map) if map.is_empty()));
                if are_former_gone
                    && !is_at_work
                    && let Some(seen) = self.pools.get_mut(&key)
                {
                    seen.drain(..seen.len() - 1);
                }
            }
        }
        self.check()
    }

    fn newest_master(&self) -> Result<&Kind> {
        Ok(&self.alive(true).last().context("masters come first")?.1)
    }

    fn alive(&self, masters: bool) -> impl Iterator<Item = &(String, Kind)> {
        self.pools.iter().filter(move |((_, is_master), _)| *is_master == masters).flat_map(|(_, seen)| seen)
    }

    fn check(&self) -> Result<()> {
        let masters: Vec<&(String, Kind)> = self.alive(true).collect();
        for (name, kind) in &masters {
            for (other, met) in &masters {
                for (ours, theirs) in kind.authorities.iter().zip(&met.authorities) {
                    ensure!(ours.contains(&theirs[0]), "a master of {name:?} does not trust one of {other:?}");
                }
            }
            for (other, worker) in self.alive(false) {
                ensure!(
                    worker.authorities[0].contains(&kind.authorities[0][0]),
                    "a worker of {other:?} does not trust a master of {name:?}"
                );
                let shown = worker.shown.as_ref().context("a worker shows a certificate")?;
                ensure!(kind.authorities[0].contains(shown), "a master of {name:?} does not trust a worker of {other:?}");
            }
        }
        Ok(())
    }
}

/// The next held stack that is at work; none once the rotation has ended.
async fn stack_at_work(world: &World, demo: &Client, cluster: &str) -> Result<Option<String>> {
    wait::until("a stack at work, or the end", PATIENCE, async || {
        let at_work = world.cloud.stacks().into_iter().find(|stack| stack.status == "UPDATE_IN_PROGRESS");
        if let Some(stack) = at_work {
            return Ok(Seen::Yes(Some(stack.id)));
        }
        let status = text(&demo.cluster(cluster).await?, "status");
        Ok(if status == "UPDATE_IN_PROGRESS" { Seen::Instead(status) } else { Seen::Yes(None) })
    })
    .await
}

#[rstest]
#[tokio::test]
async fn nobody_ever_meets_one_that_he_does_not_trust(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let body = json!({"name": "more", "node_count": 1});
    demo.at("1.10").post(&format!("/v1/clusters/{cluster}/nodegroups"), &body).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let before = demo.cluster(&cluster).await?;
    let old = authority(&demo, &cluster, "kubernetes").await?;
    let mut fleet = Fleet::default();
    fleet.look(&world)?;
    world.cloud.hold_stacks(true);
    rotate(&demo, &cluster).await?;
    let (mut has_seen_both, mut changes) = (false, 0);
    loop {
        let Some(stack) = stack_at_work(&world, &demo, &cluster).await? else { break };
        fleet.look(&world)?;
        // Whoever fetches a kubeconfig now reaches every master there is, and is let in.
        let shown = authority(&demo, &cluster, "kubernetes").await?;
        let access = kubeconfig::access(&demo, &cluster).await?;
        for (generation, master) in fleet.alive(true) {
            let [authorities, ..] = &master.authorities;
            ensure!(shown.contains(&authorities[0]), "the API does not show the authority of masters of {generation:?}");
            let mut lets_in = false;
            for authority in authorities {
                lets_in |= is_signed_by(&access.certificate_pem, authority)?;
            }
            ensure!(lets_in, "masters of {generation:?} do not trust whom the API signs for");
        }
        has_seen_both |= shown.len() == 2;
        changes += 1;
        ensure!(changes < MOST, "it does not end");
        ensure!(world.cloud.complete_stack(&stack));
    }
    let after = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(has_seen_both && fleet.masters == 4, "{} kinds of masters", fleet.masters);
    ensure!(servers(&world) == set(&["master-3", "node-2", "node-4", "node-5"]), "{:?}", servers(&world));
    ensure!(after["node_count"] == before["node_count"] && after["coe_version"] == before["coe_version"], "{before} {after}");
    ensure!(after["api_address"] == before["api_address"] && after["status_reason"].is_null(), "{before} {after}");
    ensure!(after["node_addresses"] != before["node_addresses"] && after["master_addresses"] != before["master_addresses"], "{after}");
    let new = authority(&demo, &cluster, "kubernetes").await?;
    ensure!(new.len() == 1 && !old.contains(&new[0]), "one authority, another than before: {}", new.len());
    let [last, ..] = &fleet.newest_master()?.authorities;
    ensure!(*last == new, "the last masters trust others than the API shows");
    let phases = nodes::told(&demo, &cluster, "ca_rotation").await?;
    ensure!(phases.len() == 3 && phases[2].contains("3/3"), "{phases:?}");
    world.cloud.hold_stacks(false);
    world.finish().await
}

/// The stored authority with this certificate, to sign with.
async fn stored(world: &World, certificate: &str) -> Result<Authority> {
    let sql = "SELECT certificate, private_key, private_key_passphrase FROM x509keypair";
    let rows = world.database()?.rows::<(String, String, String)>(sql).await?;
    let (certificate, key, passphrase) = rows.iter().find(|(one, ..)| one.trim() == certificate).context("no row has the authority")?;
    Authority::stored(certificate, key, passphrase)
}

/// With real handshakes, at servers that show and trust what the newest masters do.
#[tokio::test]
async fn clients_of_both_authorities_are_let_in_while_both_are_trusted_and_only_those_of_the_new_one_afterwards() -> Result<()> {
    let world = World::start(Mix::Distributed, Options { usual_keys: true, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let (certificate, key) = {
        let access = kubeconfig::access(&demo, &cluster).await?;
        (access.certificate_pem, access.key_pem)
    };
    let of_old = Some((&*certificate, &*key));
    let old = authority(&demo, &cluster, "kubernetes").await?.pop().context("an authority")?;
    // Its row goes with the rotation.
    let old_authority = Authority::of_cluster(world.database()?, &cluster).await?;
    let mut fleet = Fleet::default();
    fleet.look(&world)?;
    world.cloud.hold_stacks(true);
    rotate(&demo, &cluster).await?;
    // What the masters trusted in turn, what they showed first.
    let mut trusted = vec![vec![old.clone()]];
    for change in 0.. {
        ensure!(change < MOST, "it does not end");
        let Some(stack) = stack_at_work(&world, &demo, &cluster).await? else { break };
        fleet.look(&world)?;
        let [now, ..] = fleet.newest_master()?.authorities.clone();
        if !trusted.contains(&now) {
            let new = now.iter().find(|one| **one != old).context("a new authority")?;
            let new_authority = stored(&world, new).await?;
            let shown = if now[0] == old { &old_authority } else { &new_authority };
            let server = ApiServer::start_for(shown, &now.join("\n")).await?;
            let access = kubeconfig::access(&demo, &cluster).await?;
            let (certificate, key) = new_authority.client()?;
            let today = server.ask(Some((&access.certificate_pem, &access.key_pem)), &access.ca_pem).await;
            ensure!(today.as_ref().is_ok_and(|status| *status == 200), "who asks for a kubeconfig today: {today:?}");
            let of_new = server.ask(Some((&certificate, &key)), &access.ca_pem).await;
            ensure!(of_new.as_ref().is_ok_and(|status| *status == 200), "a client of the new authority: {of_new:?}");
            let of_old = server.ask(of_old, &access.ca_pem).await;
            ensure!(of_old.is_ok() == now.contains(&old), "a client of the old authority where {} are trusted: {of_old:?}", now.len());
            trusted.push(now);
        }
        ensure!(world.cloud.complete_stack(&stack));
    }
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let new = authority(&demo, &cluster, "kubernetes").await?.pop().context("an authority")?;
    ensure!(trusted == [vec![old.clone()], vec![old.clone(), new.clone()], vec![new.clone(), old], vec![new]], "{}", trusted.len());
    world.cloud.hold_stacks(false);
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn w6_all_authorities_are_new_and_the_old_pairs_are_gone(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
    #[values("x509keypair", "barbican")] keeper: &str,
) -> Result<()> {
    let environment = BTreeMap::from([("OS_CERTIFICATES__CERT_MANAGER_TYPE".to_owned(), keeper.to_owned())]);
    let world = World::start(mix, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let mut before = Vec::new();
    for kind in ["kubernetes", "etcd", "front_proxy"] {
        before.extend(authority(&demo, &cluster, kind).await?);
    }
    let kept = || world.cloud.leftovers(None).iter().filter(|l| l.starts_with("container ") || l.starts_with("secret ")).count();
    let held = kept();
    rotate(&demo, &cluster).await?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    world.keep_secrets_of_barbican();
    ensure!(kept() == held, "{} in Barbican, {held} before", kept());
    for kind in ["kubernetes", "etcd", "front_proxy"] {
        let now = authority(&demo, &cluster, kind).await?;
        ensure!(now.len() == 1 && !before.contains(&now[0]), "{kind}");
    }
    let access = kubeconfig::access(&demo, &cluster).await?;
    ensure!(is_signed_by(&access.certificate_pem, &access.ca_pem)?);
    if mix == Mix::Distributed {
        let counts = world.database()?.counts().await?;
        ensure!(counts["ca_rotation"] == 0 && counts["x509keypair"] == if keeper == "barbican" { 0 } else { 4 }, "{counts:?}");
    }
    // Once more: nothing of the first time is in the way.
    rotate(&demo, &cluster).await?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(kept() == held && authority(&demo, &cluster, "kubernetes").await? != certificates(&access.ca_pem));
    demo.delete(&format!("/v1/clusters/{cluster}")).await?.expect(204)?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(kept() == 0, "{:?}", world.cloud.leftovers(None));
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn w5_a_rotation_that_failed_goes_on_where_it_was(#[values(1, 6, 8, 12)] after: usize) -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let stack = world.only_stack().await?;
    world.cloud.hold_stacks(true);
    rotate(&demo, &cluster).await?;
    for change in 0..=after {
        wait::until("a change", PATIENCE, async || {
            let status = world.cloud.stacks().pop().context("a stack")?.status;
            Ok(Seen::when(status == "UPDATE_IN_PROGRESS", || status))
        })
        .await?;
        ensure!(if change < after {
            world.cloud.complete_stack(&stack)
        } else {
            world.cloud.fail_stack(&stack, "No valid host was found")
        });
    }
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("No valid host was found"), "{failed}");
    world.cloud.hold_stacks(false);
    let wanted = if after == 8 {
        2
    } else {
        // Nodes that come now fit, whatever the phase: more workers can be had, which makes the cluster sound again.
        demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/resize"), &json!({"node_count": 3})).await?.expect(202)?;
        demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
        // Other masters might not: an upgrade has to wait.
        let template = demo.cluster(&cluster).await?["cluster_template_id"].clone();
        let upgrade = format!("/v1/clusters/{cluster}/actions/upgrade");
        demo.at("1.10").post(&upgrade, &json!({"cluster_template": template})).await?.expect_error(400, "rotation")?;
        3
    };
    let half_way = authority(&demo, &cluster, "kubernetes").await?;
    rotate(&demo, &cluster).await?;
    let done = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(done["node_count"] == wanted, "{done}");
    let new = authority(&demo, &cluster, "kubernetes").await?;
    ensure!(new.len() == 1 && half_way.contains(&new[0]), "it went on with the authorities that it had made");
    let masters = servers(&world).into_iter().filter(|name| name.starts_with("master-")).count();
    ensure!(masters == 1 && servers(&world).len() == 1 + wanted, "{:?}", servers(&world));
    world.finish().await
}

/// A group in a stack of its own comes behind all nodes of the default groups: by then a large cluster's operation has thousands of events.
#[rstest]
#[tokio::test]
async fn w5_a_rotation_comes_to_every_group_however_much_it_has_recorded_by_then(
    #[values(true, false)] are_sizes_told: bool,
) -> Result<()> {
    let mut world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let body = json!({"name": "more", "node_count": 1});
    demo.at("1.10").post(&format!("/v1/clusters/{cluster}/nodegroups"), &body).await?.expect(202)?;
    let before = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    world.cloud.hold_stacks(true);
    rotate(&demo, &cluster).await?;
    stack_at_work(&world, &demo, &cluster).await?.context("it ended with no change")?;
    let unfinished = format!("cluster_uuid = '{cluster}' AND finished_ms IS NULL");
    let many = format!(
        "INSERT INTO operation_event (operation_uuid, cluster_uuid, at_ms, kind, message) \
         SELECT uuid, cluster_uuid, updated_ms, 'step', 'stack' FROM operation JOIN seq_1_to_1000 WHERE {unfinished}"
    );
    world.database()?.execute(&many, Vec::new()).await?;
    if !are_sizes_told {
        // As an earlier version accepted it.
        let sql = format!("UPDATE operation SET payload = JSON_REMOVE(payload, '$.before.sizes', '$.sizes') WHERE {unfinished}");
        world.database()?.execute(&sql, Vec::new()).await?;
        // Whoever holds it has read the row.
        let owner = world.owner(&cluster).await?;
        world.kill(owner)?;
    }
    world.cloud.hold_stacks(false);
    let done = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(done["node_count"] == before["node_count"], "{before} {done}");
    ensure!(servers(&world) == set(&["master-3", "node-2", "node-4", "node-5"]), "{:?}", servers(&world));
    // Of each group what was decided is kept.
    let sql = format!("SELECT JSON_LENGTH(payload, '$.sizes') FROM operation WHERE cluster_uuid = '{cluster}' AND kind = 'ca_rotate'");
    let recorded: Vec<i64> = world.database()?.rows(&sql).await?;
    ensure!(recorded == [3], "{recorded:?}");
    world.finish().await
}

#[tokio::test]
async fn a_cluster_that_goes_half_way_takes_both_sets_with_it() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    world.cloud.hold_stacks(true);
    rotate(&demo, &cluster).await?;
    world.progress_is_told(&demo, &cluster).await?;
    let counts = world.database()?.counts().await?;
    ensure!(counts["ca_rotation"] == 1 && counts["x509keypair"] == 8, "{counts:?}");
    world.keep_secrets_of_stacks();
    world.cloud.hold_stacks(false);
    demo.delete(&format!("/v1/clusters/{cluster}")).await?.expect(204)?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    let counts = world.database()?.counts().await?;
    ensure!(counts["ca_rotation"] == 0 && counts["x509keypair"] == 0, "{counts:?}");
    world.finish().await
}

/// Masters of the version that the rows still tell could not join those that the upgrade has made, and with a rotation begun nobody could go on
/// with the upgrade either.
#[tokio::test]
async fn nothing_is_rotated_while_an_upgrade_is_half_done() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let (before, changes) = (authority(&demo, &cluster, "kubernetes").await?, world.cloud.calls("heat.stack_update"));
    let version = text(&demo.cluster(&cluster).await?, "coe_version");
    let set = async |version: &str| {
        let sql = format!("UPDATE cluster SET coe_version = '{version}' WHERE uuid = '{cluster}'");
        world.database()?.execute(&sql, Vec::new()).await
    };
    set("v1.0.0").await?;
    rotate(&demo, &cluster).await?;
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("an upgrade of the cluster is half done"), "{failed}");
    ensure!(authority(&demo, &cluster, "kubernetes").await? == before, "there are other authorities");
    let counts = world.database()?.counts().await?;
    ensure!(counts["ca_rotation"] == 0 && world.cloud.calls("heat.stack_update") == changes, "it has begun: {counts:?}");
    set(&version).await?;
    rotate(&demo, &cluster).await?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(authority(&demo, &cluster, "kubernetes").await? != before, "the authorities are what they were");
    world.finish().await
}

#[tokio::test]
async fn what_cannot_be_rotated_is_refused_with_its_rule() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    world.cloud.hold_stacks(true);
    let cluster = demo.create_cluster("blue", &template).await?;
    demo.send(Method::PATCH, &format!("/v1/certificates/{cluster}"), None).await?.expect_error(400, "Not possible now")?;
    world.cloud.hold_stacks(false);
    demo.wait_for(&cluster, "CREATE_COMPLETE", Duration::from_secs(60)).await?;
    world.finish().await
}
