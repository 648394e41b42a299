//! Certificates: what `openstack coe cluster config` needs.

use anyhow::{Context, Result, ensure};
use openssl::nid::Nid;
use openssl::stack::Stack;
use openssl::x509::store::X509StoreBuilder;
use openssl::x509::{X509, X509StoreContext};
use rstest::rstest;
use serde_json::json;
use tests::client::text;
use tests::kubeconfig;
use tests::kubernetes::{ApiServer, Authority};
use tests::wait::PATIENCE;
use tests::world::{Mix, Options, World};

#[rstest]
#[tokio::test]
async fn a_signed_certificate_chains_to_the_clusters_ca(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();

    let access = kubeconfig::access(&demo, &cluster).await?;
    let ca = X509::from_pem(access.ca_pem.as_bytes())?;
    let certificate = X509::from_pem(access.certificate_pem.as_bytes())?;
    let mut trusted = X509StoreBuilder::new()?;
    trusted.add_cert(ca.clone())?;
    let mut context = X509StoreContext::new()?;
    let is_valid = context.init(&trusted.build(), &certificate, Stack::new()?.as_ref(), |context| context.verify_cert())?;
    ensure!(is_valid, "the certificate does not chain to the CA: {}", context.error());
    let subject = |nid| certificate.subject_name().entries_by_nid(nid).next().map(|entry| entry.data().as_slice().to_vec());
    ensure!(subject(Nid::COMMONNAME).as_deref() == Some(&b"admin"[..]));
    ensure!(subject(Nid::ORGANIZATIONNAME).as_deref() == Some(&b"system:masters"[..]));
    let kubeconfig = access.kubeconfig(None);
    ensure!(kubeconfig.contains(&access.server) && access.server.starts_with("https://"), "{kubeconfig}");

    // Another type of CA is another CA.
    let path = format!("/v1/certificates/{cluster}?ca_cert_type=etcd");
    let etcd = text(&demo.get(&path).await?.expect(200)?.body, "pem");
    ensure!(X509::from_pem(etcd.as_bytes()).is_ok() && etcd != access.ca_pem, "{etcd}");

    // By name works too; another user of the project may not; another project's cluster is not there.
    let (_, csr) = kubeconfig::request()?;
    let body = json!({"cluster_uuid": "blue", "csr": csr});
    let signed = demo.post("/v1/certificates", &body).await?.expect(201)?.body;
    ensure!(signed["cluster_uuid"] == cluster.as_str() && signed["csr"] == csr, "{signed}");
    let colleague = world.user("member2", "demo");
    colleague.get(&format!("/v1/certificates/{cluster}")).await?.expect_error(403, "certificate:get")?;
    let stranger = world.user("demo2", "demo2");
    stranger.get(&format!("/v1/certificates/{cluster}")).await?.expect_error(404, &cluster)?;
    stranger.post("/v1/certificates", &json!({"cluster_uuid": cluster, "csr": csr})).await?.expect_error(400, &cluster)?;
    let nonsense = json!({"cluster_uuid": cluster, "csr": "no request"});
    demo.post("/v1/certificates", &nonsense).await?.expect_error(400, "csr").context("a CSR that is none")?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn what_certificates_say_of_themselves_is_told_and_a_signature_lasts_as_long_as_asked_for(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let environment = [("OS_X509__MAX_SIGNED_SECONDS".to_owned(), "7200".to_owned())].into();
    let world = World::start(mix, Options { environment, usual_keys: true, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let path = format!("/v1/certificates/{cluster}");
    ensure!(demo.get(&path).await?.expect(200)?.body["certificates"].is_null(), "told without being asked");
    for asked in ["?info", "?info=true", "?info=1&ca_cert_type=etcd"] {
        let body = demo.get(&format!("{path}{asked}")).await?.expect(200)?.body;
        let told = body["certificates"].as_array().context("no list")?;
        let names: Vec<String> = told.iter().map(|one| text(one, "name")).collect();
        ensure!(names == ["kubernetes", "etcd", "front_proxy", "client"], "{asked}: {names:?}");
        for one in told {
            let end = chrono::DateTime::parse_from_rfc3339(&text(one, "not_after")).context("a time")?;
            ensure!((end.to_utc() - chrono::Utc::now()).num_days() == 1824 && one["is_expired"] == false, "{one}");
            ensure!(text(one, "issuer") == "CN=blue" && text(one, "key") == "RSA 2048", "{one}");
        }
        ensure!(told[3]["subject"] == "CN=admin, O=system:masters", "{body}");
        ensure!(!body.to_string().contains("PRIVATE KEY"), "{body}");
    }
    demo.get(&format!("{path}?info=perhaps")).await?.expect_error(400, "info")?;

    let (_, csr) = kubeconfig::request()?;
    let sign = async |expiry: serde_json::Value| {
        let body = json!({"cluster_uuid": cluster, "csr": csr, "expiry_seconds": expiry});
        demo.post("/v1/certificates", &body).await
    };
    for (asked, wanted) in [(json!(null), 7200), (json!(600), 600), (json!(7200), 7200)] {
        let signed = sign(asked.clone()).await?.expect(201)?.body;
        let certificate = X509::from_pem(text(&signed, "pem").as_bytes())?;
        let left = openssl::asn1::Asn1Time::days_from_now(0)?.diff(certificate.not_after())?;
        let seconds = left.days * 86_400 + left.secs;
        ensure!((wanted - 60..=wanted).contains(&seconds), "{asked}: {seconds} s");
    }
    for refused in [json!(7201), json!(599), json!(-1), json!("soon")] {
        sign(refused.clone()).await?.expect_error(400, "expiry_seconds").with_context(|| refused.to_string())?;
    }
    world.finish().await
}

#[tokio::test]
async fn a_server_of_the_cluster_lets_in_whom_its_authority_signed_and_nobody_else() -> Result<()> {
    let world = World::start(Mix::Distributed, Options { usual_keys: true, ..Options::default() }).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let mut clusters = Vec::new();
    for name in ["blue", "red"] {
        let cluster = demo.create_cluster(name, &template).await?;
        demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
        clusters.push(cluster);
    }
    world.keep_secrets_of_stacks();
    let [blue, red] = clusters.as_slice() else { unreachable!("two were made") };
    let server = ApiServer::start(&Authority::of_cluster(world.database()?, blue).await?).await?;
    let ours = kubeconfig::access(&demo, blue).await?;
    let theirs = kubeconfig::access(&demo, red).await?;
    let (us, them) = (Some((&*ours.certificate_pem, &*ours.key_pem)), Some((&*theirs.certificate_pem, &*theirs.key_pem)));
    ensure!(server.ask(us, &ours.ca_pem).await? == 200, "a signed client is let in");
    let refused = [
        ("another cluster's client", server.ask(them, &ours.ca_pem).await),
        ("nobody", server.ask(None, &ours.ca_pem).await),
        ("a client who trusts another authority", server.ask(us, &theirs.ca_pem).await),
    ];
    for (who, answer) in refused {
        ensure!(answer.is_err(), "{who} was let in: {answer:?}");
    }
    world.finish().await
}
