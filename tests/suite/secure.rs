//! TLS to MariaDB, RabbitMQ and the cloud, with certificates made on the spot: whom the programs believe, what they show, and how a refusal reads.
//!
//! The servers speak TLS only, demand a client certificate, and bear the name `localhost`; by their address they have another name.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Options as CloudIs, Simulator};
use provider_clients::{Cloud, CloudOptions, Credential, Scope, Service, TlsTrust, UserRef};
use tempfile::TempDir;
use tests::binaries::program;
use tests::client::{self, Client};
use tests::doors::{Door, Doors};
use tests::front::Front;
use tests::pki::{Pair, Purpose};
use tests::servers::{PrivateServer, password};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

/// A folder of certificates: of a server, of one whose time is over, of a client; and of an authority that nobody knows.
fn certificates() -> Result<TempDir> {
    let folder = tempfile::Builder::new().permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755)).tempdir()?;
    let authority = Pair::authority("an authority")?;
    authority.write(folder.path(), "ca")?;
    authority.issue("server", Purpose::Server("localhost"))?.write(folder.path(), "server")?;
    authority.issue("old server", Purpose::Expired("localhost"))?.write(folder.path(), "expired")?;
    authority.issue("client", Purpose::Client)?.write(folder.path(), "client")?;
    let other = Pair::authority("another authority")?;
    other.write(folder.path(), "other")?;
    other.issue("client", Purpose::Client)?.write(folder.path(), "stranger")?;
    Ok(folder)
}

/// What `magnum-db-manage version` says of a database at this address: how it ended, and all it has printed.
fn version(connection: &str) -> Result<(bool, String)> {
    version_with(connection, &[])
}

/// The same with more of the environment.
fn version_with(connection: &str, environment: &[(&str, &str)]) -> Result<(bool, String)> {
    let output = Command::new(program("magnum-db-manage")?)
        .arg("version")
        .envs(environment.iter().copied())
        .env("OS_DATABASE__CONNECTION", connection)
        .env("OS_DATABASE__POOL_TIMEOUT", "5")
        .output()?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Ok((output.status.success(), text))
}

#[tokio::test]
async fn the_database_is_believed_by_its_authority_its_name_and_its_time() -> Result<()> {
    let folder = certificates()?;
    let server = PrivateServer::start_secure("mariadb", folder.path()).await?;
    let by_address = server.url()?;
    let by_name = by_address.replace("127.0.0.1", "localhost");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let shown = format!("ssl_cert={}&ssl_key={}", file("client.pem"), file("client-key.pem"));
    let believing = |name: &str| format!("ssl_ca={}", file(name));
    let url = |base: &str, query: &str| format!("{base}/mysql?{query}");
    let right = url(&by_name, &format!("{}&{shown}", believing("ca.pem")));
    let (is_good, text) = version(&right)?;
    ensure!(is_good && text.contains("Current DB revision is None"), "{text}");
    let apart = [("OS_DATABASE__CONNECTION_PARAMETERS", &*format!("{}&{shown}", believing("ca.pem")))];
    let (is_good, text) = version_with(&url(&by_name, "charset=utf8"), &apart)?;
    ensure!(is_good && text.contains("Current DB revision is None"), "{text}");
    let stranger = shown.replace("client", "stranger");
    let refused = [
        ("another authority", url(&by_name, &format!("{}&{shown}", believing("other.pem"))), "UnknownIssuer"),
        ("another name", url(&by_address, &format!("{}&{shown}", believing("ca.pem"))), "not valid for name"),
        ("no certificate of ours", url(&by_name, &believing("ca.pem")), "Access denied"),
        ("a certificate of somebody else", url(&by_name, &format!("{}&{stranger}", believing("ca.pem"))), ""),
        (
            "a key without its certificate",
            url(&by_name, &format!("{}&ssl_key={}", believing("ca.pem"), file("client-key.pem"))),
            "ssl_cert is missing",
        ),
        ("a certificate for nobody", url(&by_name, &shown), "ssl_ca is missing"),
        ("TLS without an authority", url(&by_name, "ssl_mode=VERIFY_IDENTITY"), "ssl_ca is missing: ssl_mode"),
        (
            "no key",
            url(&by_name, &format!("{}&{}", believing("ca.pem"), shown.replace("client-key", "ca"))),
            "ssl_key: it must be an RSA key",
        ),
    ];
    for (what, connection, words) in refused {
        let (is_good, text) = version(&connection)?;
        ensure!(!is_good && text.contains(words), "{what}: {text}");
        ensure!(!text.contains("PRIVATE KEY") && !text.contains(&password(&by_name)?), "{what}: {text}");
    }
    // Nobody does without the name, and who asks for that is told.
    let (is_good, text) = version(&url(&by_address, &format!("{}&{shown}&ssl_check_hostname=false", believing("ca.pem"))))?;
    ensure!(!is_good && text.contains("ssl_check_hostname=false has no effect") && text.contains("not valid for name"), "{text}");
    server.start_again_with(folder.path(), "expired").await?;
    let (is_good, text) = version(&right)?;
    ensure!(!is_good && text.contains("expired"), "{text}");
    Ok(())
}

/// In the place of an option: the authorities of the machine.
const MACHINE: &str = "of the machine";

/// An API process, and conductors, that reach the broker so.
async fn world(transport: &str, conductors: usize, files: &[(&str, &str)], folder: &Path) -> Result<World> {
    let mut environment = BTreeMap::from([
        // By its old name.
        ("OS_OSLO_MESSAGING_RABBIT__RABBIT_USE_SSL".to_owned(), "true".to_owned()),
        // Nothing is found but by the bell, and nothing is given back because the machine was held up.
        ("OS_OPERATIONS__SCAN_SECONDS".to_owned(), "600".to_owned()),
        ("OS_OPERATIONS__LEASE_SECONDS".to_owned(), "300".to_owned()),
    ]);
    for (option, file) in files {
        // What the machine trusts is an environment variable of its own.
        let name = if *option == MACHINE { "SSL_CERT_FILE".to_owned() } else { format!("OS_OSLO_MESSAGING_RABBIT__{option}") };
        environment.insert(name, folder.join(file).display().to_string());
    }
    World::start(Mix::Distributed, Options { amqp: Some(transport.to_owned()), apis: 1, conductors, environment, ..Options::default() })
        .await
}

#[tokio::test]
async fn the_broker_is_believed_by_its_authority_its_name_and_its_time() -> Result<()> {
    let folder = certificates()?;
    let server = PrivateServer::start_secure("rabbitmq", folder.path()).await?;
    let by_address = server.url()?.replace("amqp://", "rabbit://").replace("/%2f", "//");
    let by_name = by_address.replace("127.0.0.1", "localhost");
    let usual = [("SSL_CA_FILE", "ca.pem"), ("SSL_CERT_FILE", "client.pem"), ("SSL_KEY_FILE", "client-key.pem")];

    let other = [("SSL_CA_FILE", "other.pem"), usual[1], usual[2]];
    is_refused("another authority", &by_name, &other, folder.path(), "UnknownIssuer").await?;
    let pinned = [other[0], usual[1], usual[2], (MACHINE, "ca.pem")];
    is_refused("an authority of the machine beside the one that is named", &by_name, &pinned, folder.path(), "UnknownIssuer").await?;
    is_refused("another name", &by_address, &usual, folder.path(), "not valid for name").await?;
    is_refused("no certificate of ours", &by_name, &usual[..1], folder.path(), "").await?;

    // The first of the list is nobody: the second is found, and rings are heard.
    let list = by_name.replace("rabbit://", "rabbit://nobody:nothing@localhost:9,");
    let of_machine = [(MACHINE, "ca.pem"), ("KOMBU_SSL_CERTFILE", "client.pem"), ("KOMBU_SSL_KEYFILE", "client-key.pem")];
    let good = world(&list, 1, &of_machine, folder.path()).await?;
    let demo = good.demo();
    let cluster = good.complete_cluster(&demo).await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    good.finish().await?;

    server.start_again_with(folder.path(), "expired").await?;
    is_refused("an old certificate", &by_name, &usual, folder.path(), "expired").await
}

/// The log of the API says once, in these words, why there is no broker; requests are served all the same.
async fn is_refused(what: &str, transport: &str, files: &[(&str, &str)], folder: &Path, words: &str) -> Result<()> {
    let world = world(transport, 0, files, folder).await?;
    let line = wait::until("the refusal in the log", Duration::from_secs(20), async || {
        let log = world.logs("api").concat();
        let line = log.lines().find(|line| line.contains("message broker failed")).map(str::to_owned);
        Ok(Seen::from_option(line, "nothing of it"))
    })
    .await?;
    ensure!(line.contains(words) && line.contains("WARN"), "{what}: {line}");
    ensure!(!line.contains("magnum_test"), "{what}: the login is in the log: {line}");
    world.demo().get("/v1/clusters").await?.expect(200)?;
    world.finish().await
}

/// A login at Keystone, at this address, believing so.
async fn log_in(url: &str, trust: TlsTrust) -> Result<(), String> {
    let mut options = CloudOptions::new(url);
    options.trust = trust;
    let domain = Some("Default".to_owned());
    let user = UserRef { name: Some("demo".into()), domain_name: domain.clone(), ..UserRef::default() };
    let scope = Scope::Project { id: None, name: Some("demo".into()), domain_id: None, domain_name: domain };
    let cloud = Cloud::new(options).map_err(|error| error.to_string())?;
    let session = cloud.session(Credential::Password { user, password: "demo".into(), scope });
    session.token().await.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn keystone_is_believed_by_its_authority_its_name_and_its_time() -> Result<()> {
    let simulator = Simulator::start(CloudIs::default()).await?;
    let plain = simulator.auth_url();
    let behind = plain.strip_prefix("http://").and_then(|rest| rest.split('/').next()).context("an address")?.to_owned();
    let (authority, other) = (Pair::authority("an authority")?, Pair::authority("another authority")?);
    let server = authority.issue("keystone", Purpose::Server("localhost"))?;
    let good = Front::start(&behind, &server, None).await?;
    let old = Front::start(&behind, &authority.issue("keystone", Purpose::Expired("localhost"))?, None).await?;
    let strict = Front::start(&behind, &server, Some(&authority)).await?;
    let url = |host: &str, front: &Front| format!("https://{host}:{}/identity/v3", front.port());
    let ca = |pair: &Pair| -> Result<TlsTrust> { Ok(TlsTrust { ca: Some(pair.certificate_pem()?.into_bytes()), ..TlsTrust::default() }) };
    let shown = |pair: &Pair| -> Result<TlsTrust> {
        let identity = format!("{}\n{}", pair.certificate_pem()?, pair.key_pem()?);
        Ok(TlsTrust { identity: Some(identity.into()), ..ca(&authority)? })
    };
    let client = authority.issue("client", Purpose::Client)?;
    let stranger = other.issue("client", Purpose::Client)?;
    let insecure = TlsTrust { insecure: true, ..TlsTrust::default() };
    for (what, url, trust) in [
        ("the right authority", url("localhost", &good), ca(&authority)?),
        ("nothing checked", url("127.0.0.1", &good), insecure.clone()),
        ("nothing checked, an old certificate", url("localhost", &old), insecure),
        ("a client's certificate", url("localhost", &strict), shown(&client)?),
    ] {
        log_in(&url, trust).await.map_err(anyhow::Error::msg).context(what)?;
    }
    for (what, url, trust, words) in [
        ("another authority", url("localhost", &good), ca(&other)?, "UnknownIssuer"),
        ("those of the machine", url("localhost", &good), TlsTrust::default(), "UnknownIssuer"),
        ("another name", url("127.0.0.1", &good), ca(&authority)?, "not valid for name"),
        ("an old certificate", url("localhost", &old), ca(&authority)?, "expired"),
        ("no certificate of ours", url("localhost", &strict), ca(&authority)?, ""),
        ("a certificate of somebody else", url("localhost", &strict), shown(&stranger)?, ""),
    ] {
        let refused = log_in(&url, trust).await.err().with_context(|| format!("{what}: it was believed"))?;
        ensure!(refused.contains("keystone token_issue") && refused.contains(words), "{what}: {refused}");
    }
    // One service may have an authority of its own, above that of all others.
    let mut options = CloudOptions::new(url("localhost", &good));
    options.trust = ca(&other)?;
    options.own_trust.insert(Service::Identity, ca(&authority)?);
    let user = UserRef { name: Some("demo".into()), domain_name: Some("Default".into()), ..UserRef::default() };
    let scope = Scope::Project { id: None, name: Some("demo".into()), domain_id: None, domain_name: Some("Default".into()) };
    Cloud::new(options)?.session(Credential::Password { user, password: "demo".into(), scope }).token().await?;
    Ok(())
}

/// Who asks an API process alone.
fn user_of(world: &World, url: &str) -> Result<Client> {
    Ok(Client::new(client::http()?, &[url.to_owned()], Some(&world.token("demo", "demo"))))
}

/// A process says of a service, in one line, why it was not believed or did not believe.
async fn is_told(world: &World, process: &str, service: &str, words: &str) -> Result<()> {
    wait::until(&format!("{process} to tell of {service}"), PATIENCE, async || {
        let log = world.logs(process).concat();
        let is_it = |line: &str| line.contains(&format!("{service} ")) && line.contains(words) && !line.contains(" INFO ");
        Ok(Seen::when(log.lines().any(is_it), || log.lines().rev().take(10).collect::<Vec<_>>().join("\n")))
    })
    .await
}

/// By `magnum.conf` alone, and each service by its own section.
#[tokio::test(flavor = "multi_thread")]
async fn services_of_the_cloud_are_believed_as_their_sections_say() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (ca, of_heat) = (Pair::authority("an authority")?, Pair::authority("an authority of Heat alone")?);
    let other = Pair::authority("an authority that nobody knows")?;
    let usual = ca.issue("cloud", Purpose::Server("localhost"))?;
    let (heat, glance) = (of_heat.issue("heat", Purpose::Server("localhost"))?, other.issue("glance", Purpose::Server("localhost"))?);
    let ours = ca.issue("magnum", Purpose::Client)?;
    for (pair, name) in [(&ca, "ca"), (&of_heat, "heat-ca"), (&other, "other"), (&heat, "heat"), (&ours, "client")] {
        pair.write(folder.path(), name)?;
    }
    let file = |name: &str| folder.path().join(name).display().to_string();
    let mut world = World::start(Mix::Distributed, Options { apis: 0, conductors: 0, ..Options::default() }).await?;
    let doors = [
        Door { service: "", certificate: &usual, clients: None },
        Door { service: "orchestration", certificate: &heat, clients: None },
        Door { service: "image", certificate: &glance, clients: None },
        Door { service: "network", certificate: &usual, clients: Some(&ca) },
    ];
    let doors = Doors::open(&world.auth_url, &doors).await?;
    let believed = format!(
        "[keystone_authtoken]\ncafile = {}\n[heat_client]\nca_file = {}\n[glance_client]\ninsecure = true\n\
         [neutron_client]\ncert_file = {}\nkey_file = {}\n",
        file("ca.pem"),
        file("heat-ca.pem"),
        file("client.pem"),
        file("client-key.pem"),
    );
    let configuration = world.configuration()?.replace(&world.auth_url, &doors.auth_url());
    world.put("magnum.conf", &format!("{configuration}{believed}"))?;
    let url = world.start_api(1, "").await?;
    world.add_api(&url);
    let demo = world.demo();
    let template = demo.create_template("small").await?;

    // Whom all others believe Heat need not be, and a cluster waits for it.
    world.set_conductor_settings(&format!("[heat_client]\nca_file = {}\n", file("ca.pem")));
    world.start_conductor()?;
    let cluster = demo.create_cluster("blue", &template).await?;
    is_told(&world, "conductor-1", "heat", "UnknownIssuer").await?;
    world.terminate("conductor-1")?;
    world.set_conductor_settings("");
    world.start_conductor()?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;

    let refused = [
        (format!("[keystone_authtoken]\ncafile = {}\n", file("other.pem")), "keystone", "UnknownIssuer"),
        // What one section leaves unchecked, the authorities that the other one names check all the same.
        (format!("[keystone_auth]\ncafile = {}\n[keystone_authtoken]\ninsecure = true\n", file("other.pem")), "keystone", "UnknownIssuer"),
        ("[glance_client]\ninsecure = false\n".to_owned(), "glance", "UnknownIssuer"),
        (format!("[nova_client]\nca_file = {}\n", file("heat-ca.pem")), "nova", "UnknownIssuer"),
        (format!("[neutron_client]\ncert_file = {}\nkey_file = {}\n", file("heat.pem"), file("heat-key.pem")), "neutron", ""),
    ];
    for (number, (own, service, words)) in (2..).zip(refused) {
        let url = world.start_api(number, &own).await?;
        let answer = user_of(&world, &url)?.post("/v1/clustertemplates", &client::template("other")).await?;
        ensure!(answer.status == 503, "{service}: {}", answer.text);
        is_told(&world, &format!("api-{number}"), service, words).await.with_context(|| own)?;
    }
    // Of all services, where none has authorities of its own.
    let url = world.start_api(9, &format!("[keystone_authtoken]\ncafile = {}\ninsecure = true\n", file("other.pem"))).await?;
    user_of(&world, &url)?.create_template("unchecked").await?;
    is_told(&world, "api-9", "[keystone_authtoken] insecure: certificates", "are not verified").await?;
    world.finish().await
}
