//! `magnum-status upgrade check` finds what is wrong with a deployment and names the cure.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How, ManagementCluster, ManagementOptions, Options as CloudOptions, SERVICE_PASSWORD, Simulator};
use serde_json::Value;
use tests::binaries::program;
use tests::config::{self, Settings};
use tests::database::{Database, needed};
use tests::servers::password;

/// A deployment in which all is well: a cloud, a database with the schema, a broker.
struct Place {
    simulator: Simulator,
    database: Database,
    folder: tempfile::TempDir,
    conf: String,
}

impl Place {
    async fn new() -> Result<Self> {
        let simulator = Simulator::start(CloudOptions::default()).await?;
        let database = Database::create(&needed("MAGNUM_TEST_MYSQL_URL")?).await?;
        let settings = Settings {
            database: database.connection(),
            transport: needed("MAGNUM_TEST_AMQP_URL")?,
            topic: format!("t-{}", uuid::Uuid::new_v4().simple()),
            auth_url: simulator.auth_url(),
        };
        let place = Self { simulator, database, folder: tempfile::tempdir()?, conf: config::shared(&settings) };
        place.must("upgrade")?;
        Ok(place)
    }

    fn run(&self, name: &str, conf: &str, arguments: &[&str]) -> Result<Output> {
        let path = self.folder.path().join("magnum.conf");
        std::fs::write(&path, conf)?;
        let mut command = Command::new(program(name)?);
        // Nothing of whoever runs the tests: a kubeconfig in his home would be a driver.
        command.arg("--config-file").arg(path).args(arguments).env("HOME", self.folder.path()).env_remove("KUBECONFIG");
        command.output().with_context(|| format!("run {name}"))
    }

    fn must(&self, verb: &str) -> Result<()> {
        let output = self.run("magnum-db-manage", &self.conf, &[verb])?;
        ensure!(output.status.success(), "{verb}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Exit code and answer, which must not hold a password.
    fn check(&self, conf: &str) -> Result<(i32, Value)> {
        let output = self.run("magnum-status", conf, &["upgrade", "check", "--json"])?;
        let text = String::from_utf8(output.stdout)?;
        let said = format!("{text}{}", String::from_utf8_lossy(&output.stderr));
        ensure!(
            !said.contains("hunter2") && !said.contains(&password(&needed("MAGNUM_TEST_MYSQL_URL")?)?),
            "a password is printed: {said}"
        );
        let answer = serde_json::from_str(&text).with_context(|| said.clone())?;
        Ok((output.status.code().context("ended by a signal")?, answer))
    }
}

/// What is wrong: the lines that make it so, the check that is to find it, its result, and words of problem and cure.
struct Plant {
    conf: String,
    check: &'static str,
    result: i64,
    words: &'static [&'static str],
}

fn details<'a>(answer: &'a Value, check: &str) -> Option<(&'a Value, &'a str)> {
    let found = answer["checks"].as_array()?.iter().find(|c| c["check"] == check)?;
    Some((&found["result"], found["details"].as_str().unwrap_or_default()))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_planted_misconfiguration_is_found_and_its_cure_named() -> Result<()> {
    let place = Place::new().await?;
    let (code, answer) = place.check(&place.conf)?;
    ensure!(code == 0, "all is well, and yet {answer:#}");
    let empty = Database::create(&needed("MAGNUM_TEST_MYSQL_URL")?).await?;
    let policy = place.folder.path().join("policy.json");
    std::fs::write(&policy, r#"{"cluster:create": "role:member"}"#)?;
    let broken = place.folder.path().join("broken.yaml");
    std::fs::write(&broken, "\"cluster:create\": \"rule:nobody_wrote_it or\"\n")?;

    let good = place.conf.clone();
    let more = |lines: &str| format!("{good}{lines}\n");
    let other = |from: &str, to: &str| -> Result<String> {
        ensure!(good.contains(from), "{from} is not in the configuration");
        Ok(good.replace(from, to))
    };
    let connection = place.database.connection();
    let transport = needed("MAGNUM_TEST_AMQP_URL")?;
    let plants = [
        Plant {
            conf: other(&connection, &connection.replace(&password(&connection)?, "hunter2"))?,
            check: "Database",
            result: 2,
            words: &["Access denied", "[database] connection"],
        },
        Plant { conf: other(&connection, &empty.connection())?, check: "Database", result: 2, words: &["magnum-db-manage upgrade"] },
        Plant {
            conf: other(&transport, "rabbit://magnum:hunter2@127.0.0.1:1//")?,
            check: "Message broker",
            result: 2,
            words: &["127.0.0.1:1", "[DEFAULT] transport_url"],
        },
        Plant {
            conf: other(&transport, &transport.replace(&password(&transport)?, "hunter2"))?,
            check: "Message broker",
            result: 2,
            words: &["ACCESS_REFUSED", "[DEFAULT] transport_url"],
        },
        Plant {
            conf: other(&format!("username = magnum\npassword = {SERVICE_PASSWORD}"), "username = magnum\npassword = hunter2")?,
            check: "Keystone",
            result: 2,
            words: &["401", "[keystone_auth] username, password"],
        },
        Plant {
            conf: other(&place.simulator.auth_url(), "http://127.0.0.1:1/v3")?,
            check: "Keystone",
            result: 2,
            words: &["keystone", "[keystone_auth] auth_url"],
        },
        Plant {
            conf: more("[cluster_heat]\ncreate_timeout = 90"),
            check: "Keystone",
            result: 1,
            words: &["live for 3600 s", "5400 s", "[token] expiration"],
        },
        Plant {
            conf: other(&format!("trustee_domain_admin_password = {SERVICE_PASSWORD}"), "trustee_domain_admin_password = hunter2")?,
            check: "Trustee domain",
            result: 2,
            words: &["401", "[trust] trustee_domain_admin_name, trustee_domain_admin_password"],
        },
        Plant {
            conf: other("trustee_domain_admin_name = magnum_domain_admin\n", "")?,
            check: "Trustee domain",
            result: 2,
            words: &["[trust] trustee_domain_admin_name is missing"],
        },
        Plant {
            conf: other("region_name = RegionOne", "region_name = RegionNine")?,
            check: "Service catalogue",
            result: 2,
            words: &["RegionNine", "[heat_client] endpoint_type and region_name"],
        },
        Plant {
            conf: more("[drivers]\ndefault_driver = k8s_fedora_atomic_v1"),
            check: "Drivers",
            result: 2,
            words: &["k8s_fedora_atomic_v1 is no driver", "name one of k8s_fedora_coreos_v1"],
        },
        Plant {
            conf: more("[drivers]\ndisabled_drivers = k8s_fedora_coreos_v1, k8s_capi_helm_v1"),
            check: "Drivers",
            result: 2,
            words: &["disables every driver", "leave one of"],
        },
        Plant {
            conf: more("[capi_helm]\nkubeconfig_file = /no/such/kubeconfig"),
            check: "Drivers",
            result: 2,
            words: &["/no/such/kubeconfig cannot be read", "put the management cluster's kubeconfig there"],
        },
        Plant {
            conf: more("[cluster_template]\nkubernetes_default_network_driver = cilium"),
            check: "Drivers",
            result: 2,
            words: &["cilium is not among the allowed ones", "kubernetes_allowed_network_drivers"],
        },
        Plant {
            conf: other("cert_manager_type = x509keypair", "cert_manager_type = local\nstorage_path = /no/such/folder")?,
            check: "Certificates",
            result: 2,
            words: &["/no/such/folder cannot be written to", "owned by the service's user"],
        },
        Plant { conf: more("[api]\nworker = 4"), check: "Configuration", result: 1, words: &["[api] worker (", "correct the spelling"] },
        Plant { conf: more("[api]\nport = http"), check: "Configuration", result: 2, words: &["[api] port", "correct the option"] },
        Plant {
            conf: more(&format!("[oslo_policy]\npolicy_file = {}", policy.display())),
            check: "Policy File JSON to YAML Migration",
            result: 2,
            words: &["policy.json is JSON", "oslopolicy-convert-json-to-yaml"],
        },
        Plant {
            conf: more(&format!("[oslo_policy]\npolicy_file = {}", broken.display())),
            check: "Policy",
            result: 2,
            words: &["broken.yaml", "correct the rule"],
        },
    ];
    for plant in plants {
        let (code, answer) = place.check(&plant.conf)?;
        let (result, said) = details(&answer, plant.check).with_context(|| format!("no check {} in {answer}", plant.check))?;
        ensure!(*result == plant.result && i64::from(code) >= plant.result, "{}: exit code {code}, {answer:#}", plant.check);
        let missing: Vec<_> = plant.words.iter().filter(|word| !said.contains(**word)).collect();
        ensure!(missing.is_empty() && said.contains("Cure: "), "{} does not say {missing:?}: {said}", plant.check);
    }

    // Keystone is asked about tokens at another address than that of logins.
    let cloud = place.simulator.cloud();
    cloud.inject(Fault { at: "keystone.token_validate".to_owned(), nth: 0, how: How::Refuse });
    let (code, answer) = place.check(&place.conf)?;
    let (_, said) = details(&answer, "Keystone").context("Keystone")?;
    ensure!(code == 2 && said.contains("tokens of callers") && said.contains("[keystone_authtoken] interface"), "{answer:#}");
    cloud.clear_faults();

    // What is wrong in the database rather than in the configuration.
    let ahead = "INSERT INTO magnum_service (report_count, host, `binary`, last_seen_up) VALUES (1, 'fast', 'magnum-conductor', UTC_TIMESTAMP() + INTERVAL 1 HOUR)";
    place.database.execute(ahead, Vec::new()).await?;
    let (code, answer) = place.check(&place.conf)?;
    let (_, said) = details(&answer, "Clock").context("the clocks")?;
    ensure!(code == 2 && said.contains("the conductor on fast") && said.contains("NTP"), "{answer:#}");
    place.database.execute("DELETE FROM magnum_service", Vec::new()).await?;
    place.must("release")?;
    let (code, answer) = place.check(&place.conf)?;
    let (_, said) = details(&answer, "Database").context("the database")?;
    ensure!(code == 2 && said.contains("given back to upstream") && said.contains("magnum-db-manage adopt"), "{answer:#}");
    empty.drop().await?;
    place.database.drop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_management_cluster_is_asked_by_its_name() -> Result<()> {
    let place = Place::new().await?;
    let management = ManagementCluster::start(ManagementOptions::default()).await?;
    let file = |name: &str, text: &str| -> Result<String> {
        let path = place.folder.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    };
    let good = management.kubeconfig();
    let server = good.split('"').nth(1).context("the address")?.to_owned();
    let (blue, away) = (file("blue", &good)?, file("away", &good.replace(&server, "http://127.0.0.1:1"))?);
    let exec = file("exec", &good.replace("token:", "exec:"))?;
    let conf = |green: &str| {
        let conf = &place.conf;
        format!(
            "{conf}[capi_helm]\nhelm_program = /bin/sh\nmanagement_clusters = blue, green\n[capi_management:blue]\nkubeconfig_file = {blue}\n\
             [capi_management:green]\nkubeconfig_file = {green}\n"
        )
    };
    let (code, answer) = place.check(&conf(&blue))?;
    ensure!(code == 0 && details(&answer, "Management clusters").is_some_and(|(result, _)| *result == 0), "{answer:#}");
    for (green, words) in [(&away, "http://127.0.0.1:1/"), (&exec, "exec is not supported")] {
        // The other one works: somebody should look, and clusters on it do not notice.
        let (code, answer) = place.check(&conf(green))?;
        let (result, said) = details(&answer, "Management clusters").context("the check")?;
        ensure!(
            code == 1 && *result == 1 && said.contains("management cluster green cannot be asked") && said.contains(words),
            "{answer:#}"
        );
    }
    management.change_token();
    let (code, answer) = place.check(&conf(&away))?;
    let (_, said) = details(&answer, "Management clusters").context("the check")?;
    ensure!(code == 2 && said.contains("management cluster blue cannot be asked") && said.contains("401"), "{answer:#}");
    let (code, answer) = place.check(&conf(""))?;
    let (_, said) = details(&answer, "Drivers").context("the drivers")?;
    ensure!(code == 2 && said.contains("[capi_management:green] kubeconfig_file is not set"), "{answer:#}");
    place.database.drop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_is_a_table_and_wrong_usage_is_said() -> Result<()> {
    let place = Place::new().await?;
    let output = place.run("magnum-status", &place.conf, &["upgrade", "check"])?;
    let table = String::from_utf8(output.stdout)?;
    ensure!(output.status.code() == Some(0), "{table}");
    let words = ["| Upgrade Check Results ", "| Check: Policy File JSON to YAML Migration ", "| Result: Success ", "| Details: None "];
    ensure!(words.iter().all(|word| table.contains(word)) && table.starts_with("+-") && table.ends_with("-+\n"), "{table}");
    ensure!(place.run("magnum-status", &place.conf, &["upgrade"])?.status.code() == Some(2));
    place.database.drop().await
}
