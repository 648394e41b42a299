//! Secrets at rest: a cluster's whole life with a database that holds none in the clear, and the ways there and back.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use model::id::{ClusterId, KeypairId};
use model::seal::vault::Vault;
use model::store::{Conn, DatabaseUrl, Scope, Store, StoreOptions, certificate, cluster as clusters};
use reqwest::Method;
use rstest::rstest;
use secrecy::ExposeSecret;
use serde_json::json;
use tests::binaries::program;
use tests::client::{Client, text};
use tests::database::{Database, needed};
use tests::dump::Dump;
use tests::kubeconfig;
use tests::secrets::{ENCRYPTED_KEY, PASSPHRASE, TRUSTEE_PASSWORD};
use tests::upstream::Upstream;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

/// 32 bytes, in base 64.
const ONE: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
const TWO: &str = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";

/// A file of keys that is nobody else's.
fn key_file(folder: &Path, keys: &[&str]) -> Result<PathBuf> {
    let path = folder.join("seal.keys");
    std::fs::write(&path, keys.join("\n"))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(path)
}

fn environment(path: &Path, seals: bool) -> BTreeMap<String, String> {
    let path = path.display().to_string();
    [("OS_CERTIFICATES__SEAL_KEY_FILE", path), ("OS_CERTIFICATES__SEAL_SECRETS", seals.to_string())]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}

/// All that is stored, as somebody sees it who got hold of the database.
async fn stolen(world: &World) -> Result<String> {
    if let Ok(database) = world.database() {
        return Ok(format!("{:?}", Dump::of(database).await?));
    }
    // The file as it lies on the disk: what was overwritten can be in it still.
    let mut all = Vec::new();
    for end in ["", "-wal"] {
        all.extend(std::fs::read(format!("{}{end}", world.sqlite().display())).unwrap_or_default());
    }
    ensure!(all.len() > 10_000, "the database's file");
    Ok(String::from_utf8_lossy(&all).into_owned())
}

/// What must not be in it: the secrets of a cluster as they are now.
async fn secrets(world: &World, cluster: &str) -> Result<Vec<String>> {
    let url = world.database().map_or_else(|_| DatabaseUrl::Sqlite(world.sqlite()), Database::url);
    let vault = Arc::new(Vault::parse(&ONE.to_owned().into(), false)?);
    let store = Store::open(StoreOptions { vault, ..StoreOptions::new(url) })?;
    let id = &ClusterId::new(cluster);
    let row = store.read(async |conn: &mut Conn| clusters::fetch(conn, &Scope::All, id).await).await?;
    let password = row.trustee_password(store.vault())?.context("a password")?;
    let mut secrets = vec![(password.expose_secret().to_owned(), TRUSTEE_PASSWORD)];
    for reference in row.references().all() {
        let pair =
            store.read(async |conn: &mut Conn| certificate::fetch(conn, store.vault(), &KeypairId::new(reference.as_str())).await).await?;
        let key = pair.private_key.context("a key")?;
        secrets.extend(pair.private_key_passphrase.map(|passphrase| (passphrase.expose_secret().to_owned(), PASSPHRASE)));
        secrets.push((key.expose_secret().lines().nth(3).context("a line of the key")?.to_owned(), ENCRYPTED_KEY));
    }
    ensure!(secrets.len() == 9 && secrets.iter().all(|(secret, _)| secret.len() >= 12), "{} secrets", secrets.len());
    for (secret, what) in &secrets {
        world.keep_secret(secret, what);
    }
    Ok(secrets.into_iter().map(|(secret, _)| secret).collect())
}

fn none_is_in(secrets: &[String], text: &str) -> Result<()> {
    let found = secrets.iter().filter(|secret| text.contains(*secret)).count();
    ensure!(found == 0, "{found} of {} secrets are in the clear", secrets.len());
    ensure!(text.contains("sealed:v1:"), "nothing is sealed");
    Ok(())
}

async fn change(demo: &Client, method: Method, path: &str, body: Option<&str>, cluster: &str) -> Result<()> {
    demo.at("1.12").send(method, path, body.map(str::to_owned)).await?.expect(202)?;
    demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    Ok(())
}

#[rstest]
#[tokio::test]
async fn w17_a_cluster_lives_with_nothing_in_the_clear(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let environment = environment(&key_file(folder.path(), &[ONE])?, true);
    let world = World::start(mix, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let mut known = secrets(&world, &cluster).await?;
    none_is_in(&known, &stolen(&world).await?)?;
    // Signed by a key that is sealed.
    let before = kubeconfig::access(&demo, &cluster).await?;
    change(&demo, Method::PATCH, &format!("/v1/credentials/{cluster}"), None, &cluster).await?;
    let path = format!("/v1/clusters/{cluster}/actions/resize");
    change(&demo, Method::POST, &path, Some(&json!({"node_count": 3}).to_string()), &cluster).await?;
    change(&demo, Method::PATCH, &format!("/v1/certificates/{cluster}"), None, &cluster).await?;
    let after = kubeconfig::access(&demo, &cluster).await?;
    ensure!(before.ca_pem != after.ca_pem, "the authority is the same");
    let now = secrets(&world, &cluster).await?;
    ensure!(now.iter().all(|secret| !known.contains(secret)), "something has not changed");
    known.extend(now);
    none_is_in(&known, &stolen(&world).await?)?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    let left = stolen(&world).await?;
    ensure!(known.iter().all(|secret| !left.contains(secret)), "something was left in the clear");
    world.finish().await
}

/// Services that were started before anything was sealed go on, and so do they after it was taken back; one without the key says what it lacks.
#[tokio::test]
async fn a_running_deployment_is_sealed_and_opened_again() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let keys = key_file(folder.path(), &[ONE])?;
    let mut world = World::start(Mix::Distributed, Options { environment: environment(&keys, false), ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let known = secrets(&world, &cluster).await?;
    let conf = folder.path().join("magnum.conf");
    let database = world.database()?.connection();
    let configure = |rest: &str| std::fs::write(&conf, format!("[database]\nconnection = {database}\n[certificates]\n{rest}"));
    let (file, seals) = (format!("seal_key_file = {}\n", keys.display()), "seal_secrets = true\n");

    configure(&file)?;
    refuses(&conf, "seal", "[certificates] seal_secrets is false")?;
    configure(&format!("{file}{seals}"))?;
    refuses(&conf, "unseal", "[certificates] seal_secrets is true")?;
    ensure!(!stolen(&world).await?.contains("sealed:v1:"), "a refused command has done something");
    let told = says(&conf, "seal")?;
    ensure!(told.contains("Sealed: 4 of private_key, 4 of private_key_passphrase, 1 of trustee_password"), "{told}");
    ensure!(known.iter().all(|secret| !told.contains(secret)), "a secret is told");
    none_is_in(&known, &stolen(&world).await?)?;
    let resize = format!("/v1/clusters/{cluster}/actions/resize");
    change(&demo, Method::POST, &resize, Some(&json!({"node_count": 3}).to_string()), &cluster).await?;
    kubeconfig::access(&demo, &cluster).await?;

    // Another key takes over; what runs knows the old one alone until it is started again.
    key_file(folder.path(), &[TWO, ONE])?;
    let told = says(&conf, "seal")?;
    ensure!(told.contains("4 of private_key, 4 of private_key_passphrase, 1 of trustee_password"), "{told}");
    let (certificates, access) = (format!("/v1/certificates/{cluster}"), json!({"cluster_uuid": cluster, "csr": kubeconfig::request()?.1}));
    demo.get(&certificates).await?.expect(500)?;
    demo.post("/v1/certificates", &access).await?.expect(500)?;
    // New nodes are told secrets; what is there already is changed without.
    let groups = format!("/v1/clusters/{cluster}/nodegroups");
    demo.at("1.9").post(&groups, &json!({"name": "more", "node_count": 1})).await?.expect(202)?;
    let row = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&row, "status_reason").contains("a stored credential of the cluster cannot be opened"), "{row}");
    let key = Vault::parse(&TWO.to_owned().into(), true)?.ids().next().context("a key")?.to_owned();
    for who in ["conductor", "api"] {
        let logs = world.logs(who).join("\n");
        let wanted = format!("is sealed by the key {key}, which the file of [certificates] seal_key_file does not hold");
        ensure!(logs.contains("x509keypair.private_key of") && logs.contains(&wanted), "{who} does not say what it lacks");
    }
    for pid in world.pids("") {
        world.kill(pid)?;
        world.start_again(pid)?;
    }
    wait::until("both API processes to answer", PATIENCE, async || {
        let answers = [demo.get(&certificates).await, demo.get(&certificates).await];
        Ok(Seen::when(answers.iter().all(|answer| answer.as_ref().is_ok_and(|answer| answer.status == 200)), || "not yet both".to_owned()))
    })
    .await?;
    kubeconfig::access(&demo, &cluster).await?;
    demo.post(&format!("/v1/clusters/{cluster}/actions/retry"), &json!({})).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;

    // Back: not with sealed values, and then with every byte.
    let refused = refuses(&conf, "release", "secrets are sealed, which upstream cannot read")?;
    ensure!(refused.contains("magnum-db-manage unseal"), "{refused}");
    configure("")?;
    let refused = refuses(&conf, "unseal", "9 values are as they were")?;
    ensure!(refused.contains("[certificates] seal_key_file is not set"), "{refused}");
    let told = says(&conf, "check")?;
    ensure!(told.contains(&format!("The key {key} is not among them")), "{told}");
    configure(&file)?;
    ensure!(says(&conf, "check")?.contains(&format!("cluster.trustee_password: 0 clear, 1 sealed by the key {key}")));
    ensure!(says(&conf, "unseal")?.contains("Opened: 4 of private_key, 4 of private_key_passphrase, 1 of trustee_password"));
    let all = stolen(&world).await?;
    ensure!(known.iter().all(|secret| all.contains(secret)) && !all.contains("sealed:v1:"), "not as it was");
    kubeconfig::access(&demo, &cluster).await?;
    world.finish().await
}

/// With its key lost, a password is as good as forgotten: it is made anew by who may delegate, and it keeps no cluster from going.
#[tokio::test]
async fn a_lost_key_keeps_nobody_from_renewing_and_deleting() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let keys = key_file(folder.path(), &[ONE])?;
    let world = World::start(Mix::Distributed, Options { environment: environment(&keys, false), ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    secrets(&world, &cluster).await?;
    // Known to nobody who runs.
    key_file(folder.path(), &[TWO])?;
    let conf = folder.path().join("magnum.conf");
    let rest = format!("[certificates]\nseal_key_file = {}\nseal_secrets = true\n", keys.display());
    std::fs::write(&conf, format!("[database]\nconnection = {}\n{rest}", world.database()?.connection()))?;
    says(&conf, "seal")?;
    change(&demo, Method::PATCH, &format!("/v1/credentials/{cluster}"), None, &cluster).await?;
    let held = says(&conf, "check")?;
    ensure!(held.contains("cluster.trustee_password: 1 clear"), "the password is not a new one: {held}");
    says(&conf, "seal")?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(
        world.logs("conductor").join("\n").contains("the trust goes with its trustee"),
        "nobody was told that the password could not be opened"
    );
    world.finish().await
}

/// What upstream's own tools wrote, they read again after it was sealed and opened.
#[tokio::test]
async fn upstream_reads_what_was_sealed_and_opened() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let database = Database::create(&needed("MAGNUM_TEST_MYSQL_URL")?).await?;
    let conf = folder.path().join("magnum.conf");
    let keys = key_file(folder.path(), &[ONE])?;
    let configure = |rest: &str| {
        let connection = database.connection();
        std::fs::write(&conf, format!("[database]\nconnection = {connection}\n[certificates]\ncert_manager_type = x509keypair\n{rest}"))
    };
    configure("")?;
    let upstream = Upstream::new("20.0.2", &conf)?;
    upstream.manage(&["upgrade"])?;
    for sql in include_str!("upstream/rows.sql").lines().filter(|line| !line.is_empty() && !line.contains("'odd'")) {
        database.execute(sql, Vec::new()).await?;
    }
    database.execute("DELETE FROM nodegroup WHERE cluster_id = '22222222-0000-4000-8000-000000000002'", Vec::new()).await?;
    let (before, read) = (Dump::of(&database).await?, upstream.read()?);
    ensure!(read["X509KeyPair"].as_array().is_some_and(|pairs| pairs.len() == 2), "{read}");
    says(&conf, "adopt")?;
    configure(&format!("seal_key_file = {}\nseal_secrets = true\n", keys.display()))?;
    ensure!(says(&conf, "seal")?.contains("Sealed: 2 of private_key, 2 of private_key_passphrase, 1 of trustee_password"));
    let sealed = Dump::of(&database).await?;
    ensure!(sealed.damage(&before, &[]).len() == 3, "{:?}", sealed.damage(&before, &[]));
    configure(&format!("seal_key_file = {}\n", keys.display()))?;
    says(&conf, "unseal")?;
    says(&conf, "release")?;
    ensure!(Dump::of(&database).await?.damage(&before, &[]).is_empty(), "{:?}", Dump::of(&database).await?.damage(&before, &[]));
    ensure!(upstream.read()? == read, "upstream reads something else");
    database.drop().await
}

/// A configuration that cannot be right ends the start, and names what is wrong.
#[test]
fn keys_that_cannot_be_used_are_refused() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let conf = folder.path().join("magnum.conf");
    let keys = folder.path().join("keys");
    let (file, on) = (format!("seal_key_file = {}\n", keys.display()), "seal_secrets = true\n");
    for (rest, content, mode, wanted) in [
        (on.to_owned(), None, 0, "seal_key_file is not set"),
        (file.clone(), None, 0, "[certificates] seal_key_file: look at"),
        (file.clone(), Some("dG9vIHNob3J0"), 0o600, "line 1: a key is 32 bytes in base 64"),
        (file.clone(), Some(""), 0o600, "it holds no key"),
        (file.clone(), Some(ONE), 0o604, "may be used by everybody on this machine (mode 604)"),
    ] {
        if let Some(content) = content {
            std::fs::write(&keys, content)?;
            std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(mode))?;
        }
        std::fs::write(&conf, format!("[database]\nconnection = sqlite:///{}/db\n[certificates]\n{rest}", folder.path().display()))?;
        let refused = refuses(&conf, "upgrade", wanted)?;
        ensure!(content.is_none_or(|content| content.is_empty() || !refused.contains(content)), "the key is told: {refused}");
    }
    Ok(())
}

fn manage(conf: &Path, verb: &str) -> Result<Output> {
    let mut command = Command::new(program("magnum-db-manage")?);
    command.arg("--config-file").arg(conf).arg(verb).output().context("run magnum-db-manage")
}

/// What a command that succeeds prints.
fn says(conf: &Path, verb: &str) -> Result<String> {
    let output = manage(conf, verb)?;
    ensure!(output.status.success(), "{verb}: {} {}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// All that a command which must fail says.
fn refuses(conf: &Path, verb: &str, wanted: &str) -> Result<String> {
    let output = manage(conf, verb)?;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.code() == Some(1) && said.contains(wanted), "{verb}: {} {said}", output.status);
    Ok(said)
}
