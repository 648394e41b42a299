use cloud_simulator::{Cloud as Simulated, Fault, How, Options, Simulator};
use model::certificate::keeper::{Keeper, KeeperError};
use model::certificate::{Keys, NewKeypair, StoredKeypair, new_authority, new_client};
use provider_clients::{Barbican, Cloud, CloudOptions, Credential, Payload, Scope, UserRef};
use secrecy::{ExposeSecret, SecretString};

use super::barbican::Containers;
use super::files::Files;

const NAME: &str = "magnum_0dd7f2f7-4c48-4f0c-8b0b-9a7a3f0f4f6d_kubernetes";

fn pair() -> NewKeypair {
    new_authority("blue", 1, &Keys::new(2048, 0)).expect("an authority is made")
}

/// The simulated cloud, and Barbican as the service user asks it.
async fn barbican() -> (Simulator, Simulated, Barbican) {
    let simulator = Simulator::start(Options::default()).await.expect("the simulated cloud starts");
    let domain = Some("Default".to_owned());
    let user = UserRef { name: Some("magnum".into()), domain_name: domain.clone(), ..UserRef::default() };
    let scope = Scope::Project { id: None, name: Some("service".into()), domain_id: None, domain_name: domain };
    let cloud = Cloud::new(CloudOptions::new(simulator.auth_url())).expect("options");
    let barbican = cloud.session(Credential::Password { user, password: cloud_simulator::SERVICE_PASSWORD.into(), scope }).barbican();
    let simulated = simulator.cloud();
    (simulator, simulated, barbican)
}

fn holds(stored: &StoredKeypair, pair: &NewKeypair) -> bool {
    let text = |secret: &Option<SecretString>| secret.as_ref().map(|secret| secret.expose_secret().to_owned());
    stored.pem() == pair.certificate
        && text(&stored.private_key).as_deref() == Some(pair.encrypted_key.expose_secret())
        && text(&stored.private_key_passphrase).as_deref() == Some(pair.passphrase.expose_secret())
        && stored.open().is_ok()
}

async fn is_kept_found_and_removed(keeper: &dyn Keeper) {
    let pair = pair();
    assert_eq!(keeper.find(NAME).await.expect("asked"), None);
    let reference = keeper.store(NAME, &pair).await.expect("stored");
    assert_eq!(keeper.find(NAME).await.expect("asked"), Some(reference.clone()));
    let stored = keeper.fetch(&reference).await.expect("fetched");
    assert!(holds(&stored, &pair) && stored.reference == reference);
    assert!(keeper.delete(&reference).await.expect("removed"));
    assert!(!keeper.delete(&reference).await.expect("asked again"), "there was nothing any more");
    assert!(matches!(keeper.fetch(&reference).await, Err(KeeperError::NotFound(_))), "it is forgotten too");
    assert!(!keeper.delete_named(NAME).await.expect("asked"));
}

#[tokio::test]
async fn a_pair_in_barbican_is_kept_found_and_removed() {
    let (_simulator, cloud, barbican) = barbican().await;
    is_kept_found_and_removed(&Containers::new(barbican)).await;
    assert_eq!(cloud.leftovers(None), Vec::<String>::new());
}

#[tokio::test]
async fn a_pair_in_files_is_kept_found_and_removed_and_only_its_owner_reads_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let inside = folder.path().join("certificates");
    let files = Files::new(inside.clone());
    is_kept_found_and_removed(&files).await;
    Keeper::store(&files, NAME, &pair()).await.expect("stored");
    let modes: Vec<u32> = std::fs::read_dir(&inside)
        .expect("the folder")
        .map(|file| file.and_then(|f| f.metadata()).expect("a file").permissions().mode() & 0o777)
        .collect();
    assert_eq!(modes, [0o600; 3]);
    assert_eq!(std::fs::metadata(&inside).expect("the folder").permissions().mode() & 0o777, 0o700);
    // A reference comes out of a table that others write.
    std::fs::write(folder.path().join("secret.crt"), "not for you").expect("written");
    for reference in ["../secret", "", ".", "/etc/ssl/x"] {
        assert!(matches!(Keeper::fetch(&files, reference).await, Err(KeeperError::NotFound(_))), "{reference}");
        assert!(!Keeper::delete(&files, reference).await.expect("asked"), "{reference}");
    }
}

#[tokio::test]
async fn what_an_attempt_left_in_barbican_is_found_replaced_and_removed() {
    let (_simulator, cloud, barbican) = barbican().await;
    let keeper = Containers::new(barbican);
    let (pair, other) = (pair(), pair());
    // Broken off between its parts: each time it begins anew, and nothing stays beside it.
    for nth in 1..=3 {
        cloud.inject(Fault { at: "barbican.secret_create".into(), nth, how: How::AcceptThenLose });
        let lost = Keeper::store(&keeper, NAME, &other).await;
        assert!(matches!(lost, Err(KeeperError::Unavailable { fault: Some(_), .. })), "{lost:?}");
        assert_eq!(Keeper::find(&keeper, NAME).await.expect("asked"), None);
    }
    // The container was made and the answer lost: the next attempt finds it whole.
    cloud.inject(Fault { at: "barbican.container_create".into(), nth: 1, how: How::AcceptThenLose });
    assert!(Keeper::store(&keeper, NAME, &pair).await.is_err());
    let reference = Keeper::find(&keeper, NAME).await.expect("asked").expect("it is there");
    assert!(holds(&Keeper::fetch(&keeper, &reference).await.expect("fetched"), &pair));
    assert_eq!(cloud.leftovers(None).len(), 4, "{:?}", cloud.leftovers(None));
    // A removal that is cut off is repeated.
    cloud.inject(Fault { at: "barbican.secret_delete".into(), nth: 2, how: How::Status(503, "down".into()) });
    assert!(matches!(Keeper::delete(&keeper, &reference).await, Err(KeeperError::Unavailable { .. })));
    assert!(Keeper::delete(&keeper, &reference).await.expect("removed"));
    assert_eq!(cloud.leftovers(None), Vec::<String>::new());
}

#[tokio::test]
async fn containers_as_upstream_writes_them_are_opened_and_removed() {
    let (_simulator, cloud, barbican) = barbican().await;
    let keeper = Containers::new(barbican.clone());
    let pair = pair();
    // Its releases differ in the types of certificate and key; a pair of intermediates is allowed.
    for as_text in [false, true] {
        let payload = |text| if as_text { Payload::Text(text) } else { Payload::Bytes(str::as_bytes(text)) };
        let make = async |name, payload| barbican.create_secret(name, payload).await.expect("a secret");
        let certificate = make("Certificate", payload(&pair.certificate)).await;
        let key = make("Private Key", payload(pair.encrypted_key.expose_secret())).await;
        let passphrase = make("Private Key Passphrase", Payload::Text(pair.passphrase.expose_secret())).await;
        let more = make("Intermediates", payload(&pair.certificate)).await;
        let parts = [
            ("certificate", certificate.as_str()),
            ("private_key", key.as_str()),
            ("private_key_passphrase", passphrase.as_str()),
            ("intermediates", more.as_str()),
        ];
        let reference = barbican.create_certificate("blue", &parts).await.expect("a container");
        // Another one of the same name, as upstream gives it to three of a cluster.
        let beside = make("Certificate", payload(&pair.certificate)).await;
        let stored = Keeper::fetch(&keeper, &reference).await.expect("fetched");
        assert!(holds(&stored, &pair), "as text: {as_text}");
        assert!(Keeper::delete(&keeper, &reference).await.expect("removed"));
        assert_eq!(cloud.leftovers(None).len(), 1, "a secret of the same name is another pair's: {:?}", cloud.leftovers(None));
        barbican.delete_secret(&beside).await.expect("removed");
    }
}

/// Two clusters of upstream's may be called alike, and as if they were ours.
#[tokio::test]
async fn a_container_that_is_called_as_its_cluster_goes_alone() {
    let (_simulator, cloud, barbican) = barbican().await;
    let keeper = Containers::new(barbican.clone());
    let mut references = Vec::new();
    for _ in 0..2 {
        let certificate = barbican.create_secret("Certificate", Payload::Text("PEM")).await.expect("a secret");
        references.push(barbican.create_certificate("magnum_prod", &[("certificate", certificate.as_str())]).await.expect("a container"));
    }
    assert!(Keeper::delete(&keeper, &references[0]).await.expect("removed"));
    assert_eq!(cloud.leftovers(None).len(), 2, "{:?}", cloud.leftovers(None));
    assert!(barbican.container(&references[1]).await.expect("asked").is_some());
}

#[tokio::test]
async fn a_part_that_is_missing_is_a_pair_that_is_missing() {
    let (_simulator, _cloud, barbican) = barbican().await;
    let keeper = Containers::new(barbican.clone());
    let reference = Keeper::store(&keeper, NAME, &pair()).await.expect("stored");
    let container = barbican.container(&reference).await.expect("asked").expect("it is there");
    barbican.delete_secret(container.part("private_key").expect("a key")).await.expect("removed");
    assert!(matches!(Keeper::fetch(&keeper, &reference).await, Err(KeeperError::NotFound(_))));
}

#[test]
fn a_pair_says_whether_an_authority_signed_it() {
    let (one, other) = (pair(), pair());
    let client = new_client(&one.open().expect("opens"), 1, &Keys::new(2048, 0)).expect("signed");
    let stored = |pair: &NewKeypair| {
        StoredKeypair::outside("r", pair.certificate.clone(), pair.encrypted_key.clone(), Some(pair.passphrase.clone()))
    };
    assert!(stored(&client).is_signed_by(&stored(&one)).expect("read"));
    assert!(!stored(&client).is_signed_by(&stored(&other)).expect("read"));
}
