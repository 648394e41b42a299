//! Secrets at rest: converted in place, in pieces, beside those who write.

use std::collections::BTreeMap;

use diesel::sql_types::{Nullable, Text};
use model::cluster::ClusterChange;
use model::id::{ClusterId, KeypairId};
use model::seal::vault::{Vault, VaultError};
use model::store::sealing::{self, Conversion, Held};
use model::store::{Conn, Scope, Store, StoreError, certificate, cluster};
use rstest::rstest;
use secrecy::{ExposeSecret, SecretString};

use crate::world::{Kind, World};

/// More than two pieces.
const ROWS: usize = 230;

/// 32 bytes, in base 64.
const ONE: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
const TWO: &str = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";

fn keys(keys: &[&str], seals: bool) -> Vault {
    Vault::parse(&keys.join("\n").into(), seals).expect("keys")
}

fn cluster_of(row: usize) -> ClusterId {
    ClusterId::new(format!("22222222-0000-4000-8000-{row:012}"))
}

fn pair_of(row: usize) -> KeypairId {
    KeypairId::new(format!("44444444-0000-4000-8000-{row:012}"))
}

/// Rows as upstream writes them, and such as hold nothing.
async fn fill(world: &World) {
    let clusters: Vec<String> = (0..ROWS).map(|row| format!("('{}', 'PassWord-{row}')", cluster_of(row))).collect();
    world.execute(&format!("INSERT INTO cluster (uuid, trustee_password) VALUES {}", clusters.join(", "))).await;
    let pairs: Vec<String> =
        (0..ROWS).map(|row| format!("('{}', 'certificate', 'PrivateKey-{row}', 'passphrase-{row}')", pair_of(row))).collect();
    world
        .execute(&format!("INSERT INTO x509keypair (uuid, certificate, private_key, private_key_passphrase) VALUES {}", pairs.join(", ")))
        .await;
    world.execute("INSERT INTO cluster (uuid) VALUES ('without-a-password')").await;
    world.execute("INSERT INTO x509keypair (uuid, private_key_passphrase) VALUES ('without-a-key', '')").await;
    world.execute("INSERT INTO x509keypair (uuid, private_key) VALUES (NULL, 'of nobody')").await;
}

#[derive(diesel::QueryableByName)]
struct Row {
    #[diesel(sql_type = Nullable<Text>)]
    uuid: Option<String>,
    #[diesel(sql_type = Nullable<Text>)]
    one: Option<String>,
    #[diesel(sql_type = Nullable<Text>)]
    other: Option<String>,
}

/// What the columns hold, and when the rows say that they were changed.
async fn held(store: &Store) -> Vec<(Option<String>, Option<String>, Option<String>)> {
    let mut all = Vec::new();
    for sql in [
        "SELECT uuid, trustee_password AS one, CAST(updated_at AS CHAR) AS other FROM cluster ORDER BY id",
        "SELECT uuid, private_key AS one, private_key_passphrase AS other FROM x509keypair ORDER BY id",
        "SELECT uuid, CAST(updated_at AS CHAR) AS one, certificate AS other FROM x509keypair ORDER BY id",
    ] {
        let rows: Vec<Row> = store
            .read(async |conn: &mut Conn| {
                use diesel_async::RunQueryDsl;
                Ok(match conn {
                    Conn::Mysql(c) => diesel::sql_query(sql).load(&mut **c).await?,
                    Conn::Sqlite(c) => diesel::sql_query(sql).load(&mut **c).await?,
                })
            })
            .await
            .expect("read");
        all.extend(rows.into_iter().map(|row| (row.uuid, row.one, row.other)));
    }
    all
}

async fn census(store: &Store) -> Vec<Held> {
    store.read(async |conn: &mut Conn| sealing::census(conn).await).await.expect("counted")
}

async fn is_readable(store: &Store) {
    for row in [0, 1, ROWS - 1] {
        let (id, reference) = (&cluster_of(row), &pair_of(row));
        let (found, pair) = store
            .read(async |conn: &mut Conn| {
                Ok((cluster::fetch(conn, &Scope::All, id).await?, certificate::fetch(conn, store.vault(), reference).await?))
            })
            .await
            .expect("read");
        let password = found.trustee_password(store.vault()).expect("opens").expect("there");
        assert_eq!(password.expose_secret(), format!("PassWord-{row}"));
        assert_eq!(pair.private_key.expect("there").expose_secret(), format!("PrivateKey-{row}"));
        assert_eq!(pair.private_key_passphrase.expect("there").expose_secret(), format!("passphrase-{row}"));
    }
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn values_are_sealed_sealed_anew_and_given_back_byte_for_byte(#[values(Kind::Sqlite, Kind::MariaDb)] kind: Kind) {
    let world = World::new(kind).await;
    fill(&world).await;
    let before = held(&world.store).await;
    let sealing = world.with(keys(&[ONE], true));

    // Cut off after some pieces: both forms are there, and everybody reads both.
    let mut first = Conversion::default();
    for _ in 0..5 {
        assert!(first.step(&sealing).await.expect("a piece"));
    }
    drop(first);
    let half = census(&sealing).await;
    assert!(half[0].clear == 0 && half[1].clear > 0 && half[1].sealed() > 0 && half[2].sealed() == 0, "{half:?}");
    is_readable(&sealing).await;
    is_readable(&world.with(keys(&[ONE], false))).await;
    let done = Conversion::run(&sealing).await.expect("gone on with");
    assert!(done.is_whole() && done.values["trustee_password"] == 0 && done.values["private_key"] < ROWS as u64, "{done:?}");
    let whole = census(&sealing).await;
    // A key that belongs to no row's uuid is left: nobody can ask for it.
    assert_eq!(whole.iter().map(|held| (held.clear, held.sealed())).collect::<Vec<_>>(), [(0, 230), (1, 230), (0, 231)]);
    is_readable(&sealing).await;
    let text = format!("{:?}", held(&sealing).await);
    for secret in ["PassWord-", "PrivateKey-", "passphrase-"] {
        assert!(!text.contains(secret), "{secret} is in the clear");
    }
    assert_eq!(Conversion::run(&sealing).await.expect("again").values.values().sum::<u64>(), 0, "there is nothing left to do");

    // Another key first: values go over to it, and the old one can go.
    let both = world.with(keys(&[TWO, ONE], true));
    is_readable(&both).await;
    let done = Conversion::run(&both).await.expect("sealed anew");
    assert_eq!(done.values.values().sum::<u64>(), 691);
    let second = world.with(keys(&[TWO], true));
    is_readable(&second).await;
    let id = second.vault().ids().next().expect("a key").to_owned();
    assert!(census(&second).await.iter().all(|held| held.sealed_by.keys().all(|key| *key == id)));

    // Without the key nothing is guessed and nothing is lost.
    let old = world.with(keys(&[ONE], false));
    let refused = Conversion::run(&old).await.expect("looked at");
    assert!(!refused.is_whole() && refused.refused.len() == 20 && refused.refused_more == 671, "{refused:?}");
    assert!(refused.refused.iter().all(|error| matches!(error, VaultError::NoKey { key, .. } if *key == id)));
    let (reference, vault) = (&pair_of(0), old.vault());
    let error = old.read(async |conn: &mut Conn| certificate::fetch(conn, vault, reference).await).await.map(|_| ());
    assert!(matches!(&error, Err(StoreError::Sealed(VaultError::NoKey { row, .. })) if row == reference.as_str()), "{error:?}");

    let clear = world.with(keys(&[TWO], false));
    assert!(Conversion::run(&clear).await.expect("opened").is_whole());
    assert_eq!(held(&world.store).await, before, "upstream finds what it wrote");
    is_readable(&world.store).await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_sealed_value_in_another_row_opens_for_nobody(#[values(Kind::Sqlite, Kind::MariaDb)] kind: Kind) {
    let world = World::new(kind).await;
    fill(&world).await;
    let sealing = world.with(keys(&[ONE], true));
    Conversion::run(&sealing).await.expect("sealed");
    let stolen = held(&sealing).await[1].1.clone().expect("a password");
    world.execute(&format!("UPDATE cluster SET trustee_password = '{stolen}' WHERE uuid = '{}'", cluster_of(0))).await;
    let id = &cluster_of(0);
    let row = sealing.read(async |conn: &mut Conn| cluster::fetch(conn, &Scope::All, id).await).await.expect("read");
    let error = row.trustee_password(sealing.vault()).map(|_| ());
    assert!(matches!(&error, Err(VaultError::Broken { row, .. }) if row == id.as_str()), "{error:?}");
    // It is told, and not taken for clear when all is opened.
    let done = Conversion::run(&world.with(keys(&[ONE], false))).await.expect("opened");
    assert_eq!((done.refused.len(), done.values["trustee_password"]), (1, 229));
    assert_eq!(held(&sealing).await[0].1.as_deref(), Some(stolen.as_str()));
}

/// Services write while values are converted, some in either form: the last that was written stays.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_meanwhile_is_not_lost(#[values(Kind::Sqlite, Kind::MariaDb)] kind: Kind) {
    let world = World::new(kind).await;
    fill(&world).await;
    let (sealing, clear) = (world.with(keys(&[ONE], true)), world.with(keys(&[ONE], false)));
    let mut last: BTreeMap<usize, String> = (0..ROWS).map(|row| (row, format!("PassWord-{row}"))).collect();
    let writing = async {
        for step in 0..120 {
            let (row, store) = ((step * 7) % ROWS, if step % 2 == 0 { &sealing } else { &clear });
            // Differs from what was there in case alone, half of the time.
            let password = if step % 3 == 0 { format!("password-{row}") } else { format!("Renewed-{step}") };
            let id = &cluster_of(row);
            let change = &ClusterChange::trustee_password(store.vault(), id, &SecretString::from(password.clone())).expect("room");
            store.write(async |conn: &mut Conn| cluster::record(conn, id, change).await).await.expect("written");
            last.insert(row, password);
        }
    };
    let converting = async {
        for store in [&sealing, &clear, &sealing] {
            Conversion::run(store).await.expect("converted");
        }
    };
    tokio::join!(writing, converting);
    Conversion::run(&sealing).await.expect("converted");
    assert_eq!(census(&sealing).await[0].clear, 0);
    for (row, password) in last {
        let id = &cluster_of(row);
        let found = sealing.read(async |conn: &mut Conn| cluster::fetch(conn, &Scope::All, id).await).await.expect("read");
        let opened = found.trustee_password(sealing.vault()).expect("opens").expect("there");
        assert_eq!(opened.expose_secret(), password, "row {row}");
    }
}
