//! The certificates of a cluster: made once, stored with their references in one transaction, or with a keeper outside the database.

mod outside;

use model::certificate::{
    Authority, CertificateError, Keys, NewKeypair, Opened, References, Role, Rotation, StoredKeypair, bundle, new_authority, new_client,
    service_account,
};
use model::cluster::{Cluster, ClusterChange};
use model::id::KeypairId;
use model::operation::Progress;
use model::store::{Conn, StoreError, certificate, cluster as clusters, operation, rotation};

use secrecy::SecretString;

use crate::context::Context;
use crate::outcome::Failure;
use crate::worker::Work;

pub(crate) use outside::{remove, remove_from_keeper, retire};

/// Which of a cluster's sets of pairs is meant, and what there is of it.
enum Set<'a> {
    /// The cluster's own.
    Own(&'a Cluster),
    /// The one that takes its place.
    Next(&'a Cluster, &'a Rotation),
}

impl Set<'_> {
    fn cluster(&self) -> &Cluster {
        match self {
            Self::Own(cluster) | Self::Next(cluster, _) => cluster,
        }
    }

    fn references(&self) -> References {
        match self {
            Self::Own(cluster) => cluster.references(),
            Self::Next(_, rotation) => rotation.references.clone(),
        }
    }

    /// Keeps the reference of a new pair.
    async fn record(&self, conn: &mut Conn, role: Role, reference: &KeypairId) -> Result<(), StoreError> {
        let id = &self.cluster().cluster_id();
        match self {
            Self::Own(_) => {
                let mut change = ClusterChange::default();
                *column(&mut change, role) = Some(Some(reference.as_str().to_owned()));
                clusters::record(conn, id, &change).await
            }
            Self::Next(..) => rotation::record(conn, id, role, reference).await,
        }
    }
}

/// Makes what the cluster lacks. True when something was made: the row has changed.
pub(crate) async fn ensure(cx: &Context, work: &Work, cluster: &Cluster) -> Result<bool, Failure> {
    complete(cx, work, &Set::Own(cluster)).await
}

/// Makes what the set lacks that will take the place of the cluster's own. True when something was made: the rotation's row has changed.
pub(crate) async fn ensure_next(cx: &Context, work: &Work, cluster: &Cluster, rotation: &Rotation) -> Result<bool, Failure> {
    complete(cx, work, &Set::Next(cluster, rotation)).await
}

async fn complete(cx: &Context, work: &Work, set: &Set<'_>) -> Result<bool, Failure> {
    let references = set.references();
    let missing = Missing::of(&references);
    if !missing.any() {
        return Ok(false);
    }
    if let Some(keeper) = cx.keepers.outside() {
        outside::complete(cx, work, set, keeper.as_ref(), &missing).await?;
        return Ok(true);
    }
    let progress = Progress { step: "certificates", waiting_for: Some("certificates".into()), ..Progress::default() };
    work.guard(cx, &progress).await?;
    let cluster = set.cluster();
    let (name, days, keys) = (cluster.display_name().to_owned(), cx.settings.validity_days, cx.keys.clone());
    let signer = match references.kubernetes.filter(|_| missing.client && !missing.kubernetes) {
        Some(reference) => Some(load(cx, &KeypairId::new(reference)).await?),
        None => None,
    };
    // RSA keys that are not ready are seconds of CPU work on a busy machine: not on the runtime's threads.
    let made = model::blocking::run(move || make(&missing, &name, days, &keys, signer.as_ref()))
        .await
        .map_err(|e| Failure::retry(format!("the making of certificates broke off: {e}")))??;
    let (made, project, user) = (&made, &cluster.project(), &cluster.user());
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), &Progress { step: "certificates", ..Progress::default() }).await?;
            for (role, pair) in made {
                let reference = KeypairId::generate();
                certificate::insert(conn, cx.store.vault(), &reference, (project, user), pair).await?;
                set.record(conn, *role, &reference).await?;
            }
            Ok(())
        })
        .await?;
    Ok(true)
}

/// The stored key pair of a reference.
pub(crate) async fn load(cx: &Context, reference: &KeypairId) -> Result<StoredKeypair, Failure> {
    Ok(cx.keepers.fetch(&cx.store, reference).await?)
}

/// What the nodes of a cluster need, opened. Never stored, never printed.
pub(crate) struct Material {
    pub kubernetes: Pair,
    pub etcd: Pair,
    pub front_proxy: Pair,
    /// The service account key pair, which hangs on the Kubernetes authority's key.
    pub service_account_key: SecretString,
    /// Public keys that tokens are accepted by, the key's own first.
    pub service_account_public_keys: String,
    /// The Kubernetes authorities by which nodes know the cluster and it knows them: the one that signs, then one beside it.
    pub kubernetes_authorities: Vec<Known>,
}

/// What joins a node to a cluster, as far as an authority goes.
pub(crate) struct Known {
    /// SHA-256 of its public key, hex.
    pub public_key_hash: String,
    pub key: SecretString,
}

/// Certificates and a key, PEM.
pub(crate) struct Pair {
    /// The key's own certificate; of an authority, those that are trusted beside it follow.
    pub certificate: String,
    pub key: SecretString,
}

/// Opens the authorities of a cluster.
pub(crate) async fn material(cx: &Context, cluster: &Cluster) -> Result<Material, Failure> {
    let own = authorities(cx, &cluster.references()).await?;
    let beside = match beside(cx, cluster).await? {
        Some(references) => Some(authorities(cx, &references).await?),
        None => None,
    };
    model::blocking::run(move || open(&own, beside.as_ref()))
        .await
        .map_err(|e| Failure::retry(format!("the opening of certificates broke off: {e}")))?
        .map_err(Failure::from)
}

async fn authorities(cx: &Context, references: &References) -> Result<[StoredKeypair; 3], Failure> {
    let fetch = async |reference: &Option<String>| load(cx, &KeypairId::new(reference.clone().unwrap_or_default())).await;
    Ok([fetch(&references.kubernetes).await?, fetch(&references.etcd).await?, fetch(&references.front_proxy).await?])
}

/// The pairs whose authorities are trusted beside the cluster's own.
async fn beside(cx: &Context, cluster: &Cluster) -> Result<Option<References>, Failure> {
    let id = &cluster.cluster_id();
    Ok(cx.store.read(async |conn: &mut Conn| rotation::beside(conn, id).await).await?)
}

/// The certificate of the Kubernetes authority that is trusted beside the cluster's own, PEM.
pub(crate) async fn trusted_beside(cx: &Context, cluster: &Cluster) -> Result<Option<String>, Failure> {
    match beside(cx, cluster).await?.and_then(|references| references.kubernetes) {
        Some(reference) => Ok(Some(load(cx, &KeypairId::new(reference)).await?.pem().to_owned())),
        None => Ok(None),
    }
}

/// Magnum's own client certificate of a cluster, opened.
pub(crate) async fn client(cx: &Context, cluster: &Cluster) -> Result<Pair, Failure> {
    let stored = load(cx, &KeypairId::new(cluster.magnum_cert_ref.clone().unwrap_or_default())).await?;
    let open =
        move || -> Result<Pair, CertificateError> { Ok(Pair { certificate: stored.pem().to_owned(), key: stored.open()?.key_pem()? }) };
    let opened = model::blocking::run(open).await.map_err(|e| Failure::retry(format!("the opening of a certificate broke off: {e}")))?;
    opened.map_err(Failure::from)
}

/// As [`client`]; the certificate of the one that stands beside it while authorities are replaced follows.
pub(crate) async fn clients(cx: &Context, cluster: &Cluster) -> Result<Pair, Failure> {
    let mut own = client(cx, cluster).await?;
    if let Some(reference) = beside(cx, cluster).await?.and_then(|references| references.client) {
        let other = load(cx, &KeypairId::new(reference)).await?;
        own.certificate = bundle([own.certificate.as_str(), other.pem()]);
    }
    Ok(own)
}

fn open(own: &[StoredKeypair; 3], beside: Option<&[StoredKeypair; 3]>) -> Result<Material, CertificateError> {
    let pair = |index: usize, opened: &Opened| -> Result<Pair, CertificateError> {
        let certificates = [Some(own), beside].into_iter().flatten().map(|set| set[index].pem());
        Ok(Pair { certificate: bundle(certificates), key: opened.key_pem()? })
    };
    // To open one takes as long as a passphrase is made to take: each is opened once.
    let authority = own[0].open()?;
    let (kubernetes, etcd, front_proxy) = (pair(0, &authority)?, pair(1, &own[1].open()?)?, pair(2, &own[2].open()?)?);
    let (service_account_key, mut service_account_public_keys) = service_account(&authority)?;
    let mut kubernetes_authorities = vec![known(&authority)?];
    if let Some(set) = beside {
        let authority = set[0].open()?;
        service_account_public_keys = format!("{service_account_public_keys}\n{}", service_account(&authority)?.1);
        kubernetes_authorities.push(known(&authority)?);
    }
    Ok(Material { kubernetes, etcd, front_proxy, service_account_key, service_account_public_keys, kubernetes_authorities })
}

fn known(authority: &Opened) -> Result<Known, CertificateError> {
    Ok(Known { public_key_hash: authority.public_key_hash()?, key: authority.key_pem()? })
}

/// Where the reference of a pair stands.
fn column(change: &mut ClusterChange, role: Role) -> &mut Option<Option<String>> {
    match role {
        Role::Authority(Authority::Kubernetes) => &mut change.ca_cert_ref,
        Role::Authority(Authority::Etcd) => &mut change.etcd_ca_cert_ref,
        Role::Authority(Authority::FrontProxy) => &mut change.front_proxy_ca_cert_ref,
        Role::Client => &mut change.magnum_cert_ref,
    }
}

struct Missing {
    kubernetes: bool,
    etcd: bool,
    front_proxy: bool,
    client: bool,
}

impl Missing {
    fn of(references: &References) -> Self {
        Self {
            kubernetes: references.kubernetes.is_none(),
            etcd: references.etcd.is_none(),
            front_proxy: references.front_proxy.is_none(),
            // A client certificate of an authority that is made anew would be of no use.
            client: references.client.is_none() || references.kubernetes.is_none(),
        }
    }

    fn any(&self) -> bool {
        self.first().is_some()
    }

    /// What is made first: the client's certificate after the authority that signs it.
    fn first(&self) -> Option<Role> {
        let wanted = [
            (self.kubernetes, Role::Authority(Authority::Kubernetes)),
            (self.etcd, Role::Authority(Authority::Etcd)),
            (self.front_proxy, Role::Authority(Authority::FrontProxy)),
            (self.client, Role::Client),
        ];
        wanted.into_iter().find(|(is_missing, _)| *is_missing).map(|(_, role)| role)
    }
}

fn make(
    missing: &Missing,
    name: &str,
    days: u32,
    keys: &Keys,
    signer: Option<&StoredKeypair>,
) -> Result<Vec<(Role, NewKeypair)>, CertificateError> {
    let mut made = Vec::new();
    let mut issuer = signer.map(StoredKeypair::open).transpose()?;
    for (wanted, authority) in
        [(missing.kubernetes, Authority::Kubernetes), (missing.etcd, Authority::Etcd), (missing.front_proxy, Authority::FrontProxy)]
    {
        if wanted {
            let pair = new_authority(name, days, keys)?;
            if authority == Authority::Kubernetes {
                issuer = Some(pair.open()?);
            }
            made.push((Role::Authority(authority), pair));
        }
    }
    if let (true, Some(issuer)) = (missing.client, &issuer) {
        made.push((Role::Client, new_client(issuer, days, keys)?));
    }
    Ok(made)
}
