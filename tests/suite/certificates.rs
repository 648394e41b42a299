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
use tests::wait::PATIENCE;
use tests::world::{Mix, World};

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
